#include "src/device/cuda/lop3_operands.h"

#include <algorithm>
#include <array>

#include "src/device/cuda/ptx_scan.h"

namespace pergola::device::cuda {
namespace {

struct Operand {
  std::size_t begin = 0, end = 0;  // in the whole text
  std::string_view text;
};

// The table that gives, whatever operand `gone` is, what `table` gives where it equals operand `kept`.
// Bit 4a + 2b + c of a table is the result for inputs a, b, c.
std::uint32_t folded(std::uint32_t table, unsigned kept, unsigned gone) {
  std::uint32_t out = 0;
  for (unsigned row = 0; row < 8; ++row) {
    const unsigned same = row >> (2 - kept) & 1;
    const unsigned from = (row & ~(1u << (2 - gone))) | same << (2 - gone);
    out |= (table >> from & 1) << row;
  }
  return out;
}

bool is_register(std::string_view text) { return !text.empty() && !(text[0] >= '0' && text[0] <= '9') && text[0] != '-'; }

}  // namespace

std::string with_distinct_lop3_operands(std::string_view ptx) {
  constexpr std::string_view kMnemonic = "lop3.b32";
  std::string out;
  out.reserve(ptx.size());
  std::size_t done = 0;
  for (std::size_t at = ptx.find(kMnemonic); at != std::string_view::npos; at = ptx.find(kMnemonic, at + 1)) {
    const std::size_t end = ptx.find(';', at);
    if (end == std::string_view::npos) break;
    // d, a, b, c, table
    std::array<Operand, 5> operands;
    std::size_t count = 0;
    for (std::size_t begin = at + kMnemonic.size(); begin <= end && count <= operands.size();) {
      const std::size_t comma = std::min(ptx.find(',', begin), end);
      if (count < operands.size()) operands[count] = {begin, comma, trimmed(ptx.substr(begin, comma - begin))};
      ++count;
      begin = comma + 1;
    }
    if (count != operands.size()) continue;
    const auto table = immediate(operands[4].text);
    if (!table || *table > 0xff) continue;
    const auto same = [&](unsigned x, unsigned y) {
      return is_register(operands[x + 1].text) && operands[x + 1].text == operands[y + 1].text;
    };
    const unsigned gone = same(0, 2) || same(1, 2) ? 2 : same(0, 1) ? 1 : 3;
    if (gone == 3) continue;
    const unsigned kept = same(0, gone) ? 0 : 1;
    const std::uint32_t first = folded(*table, kept, gone);
    out.append(ptx.substr(done, operands[gone + 1].begin - done)).append(" 0");
    out.append(ptx.substr(operands[gone + 1].end, operands[4].begin - operands[gone + 1].end));
    out.append(" ").append(std::to_string(first));
    done = end;
  }
  return out.append(ptx.substr(done));
}

}  // namespace pergola::device::cuda
