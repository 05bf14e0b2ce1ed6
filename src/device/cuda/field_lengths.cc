#include "src/device/cuda/field_lengths.h"

#include "src/device/cuda/ptx_scan.h"

namespace pergola::device::cuda {

std::string with_field_lengths_in_range(std::string_view ptx) {
  return rewrite_instructions(ptx, "bfi.b32", [](std::span<ScannedOperand> operands) {
    if (operands.size() != 5) return;  // d, a, b, position, length
    const auto position = immediate(operands[3].text);
    const auto length = immediate(operands[4].text);
    if (!position || !length) return;
    const std::uint32_t from = *position & 0xff, bits = *length & 0xff;  // 8 bits each, as the ISA says
    if (from < 32 && bits > 32 - from) operands[4].replacement = std::to_string(32 - from);
  });
}

}  // namespace pergola::device::cuda
