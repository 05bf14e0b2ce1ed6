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

struct Include {
  std::string name;
  bool quoted = false;
};

std::string_view trim_left(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t\r\v\f");
  return at == std::string_view::npos ? std::string_view{} : line.substr(at);
}

// The name in "..." or <...> at the start of `rest`; false where it is neither.
bool read_name(std::string_view rest, std::vector<Include>& includes) {
  rest = trim_left(rest);
  if (rest.empty() || (rest[0] != '"' && rest[0] != '<')) return false;
  const std::size_t end = rest.find(rest[0] == '<' ? '>' : '"', 1);
  if (end == std::string_view::npos) return false;
  includes.push_back({std::string(rest.substr(1, end - 1)), rest[0] == '"'});
  return true;
}

// All includes of `text`; false where one cannot be read as a name.
bool read_includes(std::string_view text, std::vector<Include>& includes) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim_left(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    for (std::string_view rest = line; !rest.empty();) {  // __has_include depends on a file as well
      const std::size_t at = rest.find("__has_include");
      if (at == std::string_view::npos) break;
      rest.remove_prefix(at + 13);
      const std::string_view after = trim_left(rest);
      if (!after.empty() && after[0] == '(' && !read_name(after.substr(1), includes)) return false;
    }
    const std::size_t hash = line.rfind('#', 0) == 0 ? 1 : line.rfind("%:", 0) == 0 ? 2 : 0;
    if (hash == 0) continue;
    line = trim_left(line.substr(hash));
    // A comment or a line splice may hide what directive this is.
    if (line.rfind("embed", 0) == 0 || line.rfind('/', 0) == 0 || line.rfind('\\', 0) == 0) return false;
    if (line.rfind("include", 0) != 0) continue;
    line.remove_prefix(7);
    if (line.rfind("_next", 0) == 0) line.remove_prefix(5);
    if (!read_name(line, includes)) return false;
  }
  return true;
}

class Scan {
 public:
  Scan(const std::vector<std::string>& dirs, const std::vector<std::string>& stable_dirs)
      : dirs_(dirs), stable_dirs_(stable_dirs) {}

  // A worklist, not recursion: the depth of includes is the user's.
  std::optional<std::string> run(std::string_view text, const std::string& folder) {
    if (!add(text, folder)) return std::nullopt;
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
    for (const Include& include : includes)
      if (!resolve(include, folder)) return false;
    return true;
  }

  bool resolve(const Include& include, const std::string& folder) {
    std::vector<std::string> where;
    if (include.quoted) where.push_back(folder.empty() ? "." : folder);
    where.insert(where.end(), dirs_.begin(), dirs_.end());
    if (fs::path(include.name).is_absolute()) where = {""};
    std::error_code ec;
    for (const std::string& dir : where) {
      const fs::path path = fs::path(dir) / include.name;
      if (!fs::is_regular_file(path, ec)) continue;
      fingerprint_ += include.name + '=' + path.string() + '\n';
      if (!seen_.insert(path.lexically_normal().string()).second) return true;
      pending_.push_back(path);
      return seen_.size() <= kMaxFiles;
    }
    for (const std::string& dir : stable_dirs_) {
      const fs::path path = fs::path(dir) / include.name;
      if (!fs::is_regular_file(path, ec)) continue;
      const auto time = fs::last_write_time(path, ec).time_since_epoch().count();
      fingerprint_ += fmt::format("{}={}:{}:{}\n", include.name, path.string(), fs::file_size(path, ec), time);
      return true;
    }
    fingerprint_ += include.name + "=\n";  // one of ours, or absent
    return true;
  }

  const std::vector<std::string>& dirs_;
  const std::vector<std::string>& stable_dirs_;
  std::string fingerprint_;
  std::set<std::string> seen_;
  std::vector<fs::path> pending_;
};

}  // namespace

std::optional<std::string> include_fingerprint(std::string_view text, const std::string& folder,
                                               const std::vector<std::string>& dirs,
                                               const std::vector<std::string>& stable_dirs) {
  return Scan(dirs, stable_dirs).run(text, folder);
}

}  // namespace pergola::source
