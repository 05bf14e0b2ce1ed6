#include "src/device/cuda/lop3_operands.h"

#include "src/device/cuda/ptx_scan.h"

namespace pergola::device::cuda {
namespace {

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
  return rewrite_instructions(ptx, "lop3.b32", [](std::span<ScannedOperand> operands) {
    if (operands.size() != 5) return;  // d, a, b, c, table
    const auto table = immediate(operands[4].text);
    if (!table || *table > 0xff) return;
    const auto same = [&](unsigned x, unsigned y) {
      return is_register(operands[x + 1].text) && operands[x + 1].text == operands[y + 1].text;
    };
    const unsigned gone = same(0, 2) || same(1, 2) ? 2 : same(0, 1) ? 1 : 3;
    if (gone == 3) return;
    operands[gone + 1].replacement.assign(1, '0');
    operands[4].replacement = std::to_string(folded(*table, same(0, gone) ? 0 : 1, gone));
  });
}

}  // namespace pergola::device::cuda
