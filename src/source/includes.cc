#include "src/source/includes.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "src/base/disk_cache.h"
#include "src/base/file.h"

namespace pergola::source {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFiles = 4096;
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxSpan = 4096;  // bytes of a name, or of a comment in a directive: so that time is linear

struct Include {
  std::string name;
  bool quoted = false;
};

// What makes the answer unknowable, wherever it stands: the clock; searches that do not begin at the first folder;
// names that stand for others; trigraphs, which may be a '#' or a splice; a zero byte, which is a blank for clang.
constexpr std::string_view kUnknowable[] = {"__TIME__",      "__DATE__", "__TIMESTAMP__", "include_next", "__has_embed",
                                            "include_alias", "?\?=",     "?\?/",          {"\0", 1}};

// Translation phases 1 and 2: without the splices. clang lets blanks follow the backslash, and takes a lone CR for the
// end of a line.
std::string spliced(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t backslash = std::min(text.find('\\'), text.size());
    out += text.substr(0, backslash);
    text.remove_prefix(backslash);
    if (text.empty()) break;
    std::size_t end = text.find_first_not_of(" \t\v\f", 1);
    if (end == std::string_view::npos || (text[end] != '\n' && text[end] != '\r')) {
      out += '\\';
      end = 1;
    } else {
      end += text.substr(end, 2) == "\r\n" || text.substr(end, 2) == "\n\r" ? 2 : 1;
    }
    text.remove_prefix(end);
  }
  return out;
}

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

// A name or a number goes on with it, or may: clang takes some letters beyond ASCII for blanks, others for names.
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '\\' || !is_ascii(c);
}

// Without the blanks, ends of lines and comments at its start, up to a comment that is too long.
std::string_view skip_blanks(std::string_view text) {
  for (;;) {
    const std::size_t at = std::min(text.find_first_not_of(" \t\r\n\v\f"), text.size());
    text.remove_prefix(at);
    if (text.substr(0, 2) != "/*") return text;
    const std::size_t end = text.substr(0, kMaxSpan).find("*/", 2);
    if (end == std::string_view::npos) return text;
    text.remove_prefix(end + 2);
  }
}

// Reads "..." or <...> at the start of `rest`. False where a macro or an escape makes the name; what can be no name at
// all stands in a comment, or no compiler takes it.
bool read_name(std::string_view rest, std::vector<Include>& includes) {
  rest = skip_blanks(rest);
  if (rest.empty()) return true;
  if (rest[0] != '"' && rest[0] != '<') return !is_word(rest[0]) && !rest.starts_with("/*");
  const std::size_t end = rest.substr(0, kMaxSpan).find(rest[0] == '<' ? '>' : '"', 1);
  if (end == std::string_view::npos) return false;
  const std::string_view name = rest.substr(1, end - 1);
  if (name.find_first_of("\\\r\n") != std::string_view::npos) return false;
  includes.push_back({std::string(name), rest[0] == '"'});
  return true;
}

// The include that the '#' before `rest` begins, if it does.
bool read_directive(std::string_view rest, std::vector<Include>& includes) {
  rest = skip_blanks(rest);  // and what clang may take for blanks beyond ASCII
  while (!rest.empty() && !is_ascii(rest[0])) rest = skip_blanks(rest.substr(1));
  if (rest.starts_with("/*")) return false;
  std::size_t length = 0;
  while (length < rest.size() && is_word(rest[length]) && is_ascii(rest[length])) ++length;
  const std::string_view word = rest.substr(0, length);
  if (word == "embed") return false;
  return (word != "include" && word != "import") || read_name(rest.substr(length), includes);
}

// The __has_include that ends where `rest` begins: the result depends on that file as well.
bool read_has_include(std::string_view before, std::string_view rest, std::vector<Include>& includes) {
  rest = skip_blanks(rest);
  if (!rest.empty() && rest[0] == '(') {
    rest = skip_blanks(rest.substr(1));
    return !rest.empty() && (rest[0] == '"' || rest[0] == '<') && read_name(rest, includes);
  }
  // A question whether there is a __has_include at all; anything else may make it a macro's.
  const std::size_t end = before.find_last_not_of(" \t(");
  before = before.substr(0, end == std::string_view::npos ? 0 : end + 1);
  return before.ends_with("ifdef") || before.ends_with("ifndef") || before.ends_with("defined");
}

// All includes of `text`; false where one cannot be known. What looks like a directive counts wherever it stands, in
// comments and strings too: more than is used, but never less, whatever a compiler takes for a comment, a string or a
// line.
bool read_includes(std::string_view raw, std::vector<Include>& includes) {
  const std::string whole = spliced(raw);
  const std::string_view text = whole;
  for (const std::string_view word : kUnknowable)
    if (text.find(word) != std::string_view::npos) return false;
  for (const std::string_view mark : {"#", "%:"})
    for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1))
      if (!read_directive(text.substr(at + mark.size()), includes)) return false;
  constexpr std::string_view kHas = "__has_include";
  for (std::size_t at = text.find(kHas); at != std::string_view::npos; at = text.find(kHas, at + 1))
    if (!read_has_include(text.substr(0, at), text.substr(at + kHas.size()), includes)) return false;
  return true;
}

class Scan {
 public:
  Scan(const std::string& folder, const std::vector<std::string>& dirs, const std::vector<std::string>& stable_dirs)
      : dirs_(dirs), stable_dirs_(stable_dirs) {
    dirs_.insert(dirs_.begin(), folder.empty() ? "." : folder);
  }

  // A worklist, not recursion: the depth of includes is the user's.
  std::optional<std::string> run(std::string_view text) {
    if (!add(text, dirs_[0])) return std::nullopt;
    while (!pending_.empty()) {
      const fs::path path = pending_.back();
      pending_.pop_back();
      const Result<std::string> file = read_file(path, kMaxFileBytes);
      if (!file) return std::nullopt;
      fingerprint_ += path.string() + '\0' + cache_key("include", {*file}).hex() + '\n';
      if (!add(*file, path.parent_path().string())) return std::nullopt;
    }
    return fingerprint_;
  }

 private:
  bool add(std::string_view text, const std::string& folder) {
    std::vector<Include> includes;
    if (!read_includes(text, includes)) return false;
    return std::all_of(includes.begin(), includes.end(),
                       [&](const Include& include) { return resolve(include, folder); });
  }

  // Every file that the name may stand for counts: which folder comes first is the compiler's affair.
  bool resolve(const Include& include, const std::string& folder) {
    fingerprint_ += include.name + '\n';
    if (fs::path(include.name).is_absolute()) return count(include.name);
    if (include.quoted && !count(fs::path(folder) / include.name)) return false;
    for (const std::string& dir : dirs_)
      if (!count(fs::path(dir) / include.name)) return false;
    for (const std::string& dir : stable_dirs_) {
      const fs::path path = fs::path(dir) / include.name;
      std::error_code ec;
      if (!fs::is_regular_file(path, ec)) continue;
      const auto time = fs::last_write_time(path, ec).time_since_epoch().count();
      fingerprint_ += fmt::format("={}:{}:{}\n", path.string(), fs::file_size(path, ec), time);
    }
    return true;
  }

  // Takes the file at `path`, if there is one, to be read. False where it is a pipe or a device, or one too many.
  bool count(const fs::path& path) {
    std::error_code ec;
    const fs::file_status status = fs::status(path, ec);
    if (!fs::exists(status) || fs::is_directory(status)) return true;
    if (!fs::is_regular_file(status)) return false;
    fingerprint_ += '=' + path.string() + '\n';
    // Known by its folder's real path and its own name: where it lies decides what its own includes find.
    const fs::path parent = path.parent_path();
    const fs::path known = fs::canonical(parent.empty() ? "." : parent, ec) / path.filename();
    if (ec) return false;
    if (!seen_.insert(known.string()).second) return true;
    pending_.push_back(path);
    return seen_.size() <= kMaxFiles;
  }

  std::vector<std::string> dirs_;  // the request's folder first
  const std::vector<std::string>& stable_dirs_;
  std::string fingerprint_;
  std::set<std::string> seen_;
  std::vector<fs::path> pending_;
};

}  // namespace

std::optional<std::string> include_fingerprint(std::string_view text, const std::string& folder,
                                               const std::vector<std::string>& dirs,
                                               const std::vector<std::string>& stable_dirs) {
  return Scan(folder, dirs, stable_dirs).run(text);
}

}  // namespace pergola::source
