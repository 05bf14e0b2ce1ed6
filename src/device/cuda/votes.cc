#include "src/device/cuda/votes.h"

#include <fmt/format.h>

#include <cctype>

#include "src/device/cuda/ptx_scan.h"

namespace pergola::device::cuda {
namespace {

bool is_predicate(std::string_view text) {
  if (text.starts_with('!')) text = trimmed(text.substr(1));
  if (text.empty() || text.find_first_of(" \t\r\n,[{") != std::string_view::npos) return false;
  return text[0] == '%' || text[0] == '_' || text[0] == '$' || std::isalpha(static_cast<unsigned char>(text[0])) != 0;
}

std::string negated(std::string_view predicate) {
  if (predicate.starts_with('!')) return std::string(trimmed(predicate.substr(1)));
  return "!" + std::string(predicate);
}

// "@%p " where the instruction at `at` has a guard, and where that starts.
struct Guard {
  std::string text;
  std::size_t begin = 0;
};
Guard guard_before(std::string_view ptx, std::size_t at) {
  const std::size_t end_of_last = ptx.find_last_of(";{}:\n/", at == 0 ? 0 : at - 1);
  const std::size_t begin = end_of_last == std::string_view::npos ? 0 : end_of_last + 1;
  const std::string_view between = trimmed(ptx.substr(begin, at - begin));
  if (!between.starts_with('@')) return {"", at};
  return {std::string(between) + " ", ptx.find('@', begin)};
}

std::string ballots(std::string_view mode, const std::string& guard, std::string_view to, std::string_view from,
                    std::string_view mask) {
  if (mode == "all") {
    return fmt::format("{{ .reg .b32 %pergola_v; {0}vote.sync.ballot.b32 %pergola_v, {2}, {3}; {0}setp.eq.u32 {1}, %pergola_v, 0; }}",
                       guard, to, negated(from), mask);
  }
  if (mode == "any") {
    return fmt::format("{{ .reg .b32 %pergola_v; {0}vote.sync.ballot.b32 %pergola_v, {2}, {3}; {0}setp.ne.u32 {1}, %pergola_v, 0; }}",
                       guard, to, from, mask);
  }
  return fmt::format("{{ .reg .b32 %pergola_v, %pergola_w; .reg .pred %pergola_q; {0}vote.sync.ballot.b32 %pergola_v, {2}, {4}; "
                     "{0}vote.sync.ballot.b32 %pergola_w, {3}, {4}; {0}setp.eq.u32 %pergola_q, %pergola_v, 0; "
                     "{0}setp.eq.or.u32 {1}, %pergola_w, 0, %pergola_q; }}",
                     guard, to, from, negated(from), mask);
}

}  // namespace

std::string with_votes_in_place(std::string_view ptx) {
  constexpr std::string_view kMnemonic = "vote.sync.", kType = ".pred";
  std::string out;
  out.reserve(ptx.size());
  std::size_t done = 0;
  for (std::size_t at = ptx.find(kMnemonic); at != std::string_view::npos; at = ptx.find(kMnemonic, at + 1)) {
    const std::size_t end = ptx.find(';', at);
    if (end == std::string_view::npos) break;
    const std::string_view mode = ptx.substr(at + kMnemonic.size(), 3);
    if (mode != "all" && mode != "any" && mode != "uni") continue;
    std::string_view rest = ptx.substr(at + kMnemonic.size() + 3, end - at - kMnemonic.size() - 3);
    if (!rest.starts_with(kType) || rest.find('\n') != std::string_view::npos) continue;
    rest.remove_prefix(kType.size());
    const std::size_t first = rest.find(','), second = rest.find(',', first == std::string_view::npos ? first : first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view to = trimmed(rest.substr(0, first)), from = trimmed(rest.substr(first + 1, second - first - 1));
    const std::string_view mask = trimmed(rest.substr(second + 1));
    if (!is_predicate(to) || to.starts_with('!') || !is_predicate(from) || mask.empty() || mask.find(',') != std::string_view::npos) continue;
    const Guard guard = guard_before(ptx, at);
    out.append(ptx.substr(done, guard.begin - done)).append(ballots(mode, guard.text, to, from, mask));
    done = end + 1;
  }
  return out.append(ptx.substr(done));
}

}  // namespace pergola::device::cuda
