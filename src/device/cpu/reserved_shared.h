// Shared memory that a kernel uses without declaring it: what the toolkit's cooperative_groups find at
// %reserved_smem_offset_1, from sm_80 on, for tiles of 64 threads and more. shared_layout() gives a kernel that names it a
// slot of that name. The other %reserved_smem_offset_<n> are the driver's own, and refused.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/ptx/instruction.h"

namespace pergola::device::cpu {

inline constexpr std::string_view kReservedSharedSlot = "%reserved_smem_offset_1";
inline constexpr std::uint32_t kReservedSharedBytes = 288;  // what the toolkit's headers count on

inline bool names_reserved_shared(const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::kSpecial && operand.name == kReservedSharedSlot;
}

}  // namespace pergola::device::cpu
