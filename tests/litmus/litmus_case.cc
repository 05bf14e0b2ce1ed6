#include "tests/litmus/litmus_case.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>

#include "src/base/file.h"

namespace pergola::litmus {
namespace {

constexpr std::string_view kLocationNames = "xyz";

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "1:r0=1" or "x!=2".
std::optional<Condition> parse_condition(std::string_view text) {
  Condition out;
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  out.equal = text[equals - 1] != '!';
  const auto value = number(text.substr(equals + 1));
  std::string_view left = text.substr(0, equals - (out.equal ? 0 : 1));
  if (!value) return std::nullopt;
  out.value = *value;
  if (const auto colon = left.find(":r"); colon != std::string_view::npos) {
    const auto thread = number(left.substr(0, colon)), index = number(left.substr(colon + 2));
    if (!thread || !index || *index >= kResults) return std::nullopt;
    out.thread = static_cast<int>(*thread);
    out.index = *index;
    return out;
  }
  if (left.size() != 1 || kLocationNames.find(left[0]) == std::string_view::npos) return std::nullopt;
  out.index = static_cast<std::uint32_t>(kLocationNames.find(left[0]));
  return out;
}

class FileParser {
 public:
  FileParser(const std::string& text, std::string path) : stream_(text), path_(std::move(path)) {}

  Result<std::vector<LitmusCase>> run() {
    for (std::string line; std::getline(stream_, line);) {
      ++line_;
      PERGOLA_TRY(take(line));
    }
    PERGOLA_TRY(finish());
    return std::move(tests_);
  }

 private:
  Status take(const std::string& line) {
    const std::string content = trim(line);
    if (content.empty() || content[0] == '#') return {};
    const auto colon = content.find(':');
    const std::string key = line[0] == ' ' || colon == std::string::npos ? "" : content.substr(0, colon);
    const std::string value = key.empty() ? "" : trim(content.substr(colon + 1));
    if (key == "test") {
      PERGOLA_TRY(finish());
      tests_.emplace_back().name = value;
      return {};
    }
    if (tests_.empty()) return wrong("a test begins with 'test: NAME'");
    LitmusCase& test = tests_.back();
    if (key.empty()) {
      if (test.threads.empty()) return wrong("PTX stands under a 'thread:'");
      test.threads.back() += "  " + content + "\n";
    } else if (key == "about") {
      test.about = value;
    } else if (key == "place") {
      if (value != "blocks" && value != "warps" && value != "lanes") return wrong("a place is blocks, warps or lanes");
      test.place = value == "blocks" ? Place::kBlocks : value == "warps" ? Place::kWarps : Place::kLanes;
    } else if (key == "space") {
      if (value != "global" && value != "shared") return wrong("a space is global or shared");
      test.shared = value == "shared";
    } else if (key == "thread") {
      test.threads.emplace_back();
    } else if (key == "forbidden" || key == "weak") {
      return verdict(key == "forbidden", value);
    } else {
      return wrong(fmt::format("there is no key '{}'", key));
    }
    return {};
  }

  Status verdict(bool forbidden, const std::string& value) {
    Verdict out{forbidden, value, {}};
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      const auto condition = parse_condition(word);
      if (!condition) return wrong(fmt::format("'{}' is no condition like 1:r0=1 or x!=2", word));
      out.conditions.push_back(*condition);
    }
    if (out.conditions.empty()) return wrong("an outcome has a condition at least");
    tests_.back().verdicts.push_back(std::move(out));
    return {};
  }

  Status finish() const {
    if (tests_.empty()) return {};
    const LitmusCase& test = tests_.back();
    if (test.threads.empty() || test.verdicts.empty()) return wrong(test.name + " has no thread or no outcome");
    if (test.shared && test.place == Place::kBlocks) return wrong(test.name + ": blocks share no shared memory");
    for (const Verdict& verdict : test.verdicts)
      for (const Condition& condition : verdict.conditions)
        if (condition.thread >= static_cast<int>(test.threads.size())) return wrong(test.name + " has no such thread");
    return {};
  }

  Status wrong(const std::string& what) const { return PERGOLA_ERROR(kParseError, "{}:{}: {}.", path_, line_, what); }

  std::istringstream stream_;
  const std::string path_;
  int line_ = 0;
  std::vector<LitmusCase> tests_;
};

}  // namespace

bool Verdict::matches(const Outcome& outcome) const {
  return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
    const std::uint32_t found =
        condition.thread < 0 ? outcome.locations[condition.index]
                             : outcome.results[static_cast<std::size_t>(condition.thread) * kResults + condition.index];
    return (found == condition.value) == condition.equal;
  });
}

Result<std::vector<LitmusCase>> parse_tests(const std::string& text, const std::string& path) {
  return FileParser(text, path).run();
}

Result<std::vector<LitmusCase>> read_tests(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".litmus") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<LitmusCase> all;
  for (const std::string& path : paths) {
    PERGOLA_ASSIGN(const std::string text, read_file(path));
    PERGOLA_ASSIGN(std::vector<LitmusCase> tests, parse_tests(text, path));
    all.insert(all.end(), std::make_move_iterator(tests.begin()), std::make_move_iterator(tests.end()));
  }
  return all;
}

}  // namespace pergola::litmus
