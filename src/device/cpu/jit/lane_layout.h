// How the vector tier divides a block's threads into groups.
#pragma once

#include <compare>
#include <cstdint>

#include "src/device/types.h"

namespace pergola::device::cpu::jit {

// Which threads of a block make a group of `lanes`, and what is known of their indices.
struct LaneLayout {
  enum class Kind : std::uint8_t {
    kRows,  // ntid.x is a multiple of `lanes`: consecutive tid.x, one tid.y and tid.z; every group is full
    kLine,  // ntid.y = ntid.z = 1: consecutive tid.x; the last group may have fewer threads
    kLinear,  // consecutive linear indices
  };
  unsigned lanes = 32;
  Kind kind = Kind::kRows;
  auto operator<=>(const LaneLayout&) const = default;
};

// For blocks of this shape. Warp operations need groups that are warps.
LaneLayout lane_layout(const Dim3& block, bool has_warp_operations);

}  // namespace pergola::device::cpu::jit
