// How much stack a thread has for what no compiler can know: recursion, calls through registers, alloca. One limit for
// every tier, as a GPU has one; frames that are known come on top. A tier's frames have their own sizes, so the same
// limit is not the same depth.
#pragma once

#include <cstdint>

namespace pergola::device::cpu {

// PERGOLA_CPU_STACK_BYTES, else 256 KiB (CpuOptions::from_environment refuses what is no such number).
std::uint32_t open_stack_bytes();

}  // namespace pergola::device::cpu
