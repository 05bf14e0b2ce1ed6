#include "tests/differential/reduce.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::differential {
namespace {

// The last line of the prologue that generate_kernel writes, and the first of its epilogue.
constexpr std::string_view kPrologueEnd = "setp.lt.s32 %p3, %i3, %i4;";
constexpr std::string_view kEpilogueStart = "mad.wide.u32 %u0, %index,";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool holds(const std::string& line, std::string_view part) { return line.find(part) != std::string::npos; }

bool may_go(const std::string& line) {
  for (const std::string_view kept : {":", "bra", "bar.", "shared", "%q", "%c", "%n", "%u", "%t", "%slot", "%index", "addc", "add.cc"}) {
    if (holds(line, kept)) return false;
  }
  return holds(line, ";");
}

std::string join(const std::vector<std::string>& lines, const std::vector<bool>& gone) {
  std::string text;
  for (std::size_t n = 0; n < lines.size(); ++n)
    if (!gone[n]) text += lines[n] + "\n";
  return text;
}

}  // namespace

ptx_cases::Case reduce(ptx_cases::Case test, const Disagree& disagree) {
  const std::vector<std::string> lines = split(test.text);
  std::vector<std::size_t> candidates;
  bool inside = false;
  for (std::size_t n = 0; n < lines.size(); ++n) {
    if (inside && holds(lines[n], kEpilogueStart)) break;
    if (inside && may_go(lines[n])) candidates.push_back(n);
    inside |= holds(lines[n], kPrologueEnd);
  }
  std::vector<bool> gone(lines.size(), false);
  for (std::size_t chunk = std::max<std::size_t>(candidates.size() / 2, 1);; chunk /= 2) {
    bool any = false;
    for (std::size_t at = 0; at < candidates.size();) {
      const std::size_t end = std::min(at + chunk, candidates.size());
      std::vector<bool> tried = gone;
      for (std::size_t n = at; n < end; ++n) tried[candidates[n]] = true;
      ptx_cases::Case smaller = test;
      smaller.text = join(lines, tried);
      if (!disagree(smaller)) {
        at = end;
        continue;
      }
      gone = std::move(tried);
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(at), candidates.begin() + static_cast<std::ptrdiff_t>(end));
      any = true;
    }
    if (chunk <= 1 && !any) break;
    chunk = std::max<std::size_t>(chunk, 2);
  }
  test.text = join(lines, gone);
  return test;
}

}  // namespace pergola::differential
