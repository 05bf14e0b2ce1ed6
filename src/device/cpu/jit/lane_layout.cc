#include "src/device/cpu/jit/lane_layout.h"

namespace pergola::device::cpu::jit {

LaneLayout lane_layout(const Dim3& block, bool has_warp_operations) {
  using Kind = LaneLayout::Kind;
  for (const unsigned lanes : {32u, 16u, 8u}) {
    if (block.x % lanes == 0) return {lanes, Kind::kRows};
    if (has_warp_operations) break;
  }
  return {32, block.y == 1 && block.z == 1 ? Kind::kLine : Kind::kLinear};
}

}  // namespace pergola::device::cpu::jit
