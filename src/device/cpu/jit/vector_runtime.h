// What a warp operation gives each of its lanes, and the functions that vector code calls.
#pragma once

#include <cstdint>
#include <vector>

#include "src/device/cpu/jit/runtime_calls.h"

namespace pergola::device::cpu::jit {

// The results, by lane, of operation `kind` (runtime_calls.h) for the lanes `members`, at least one; the arrays have 32
// entries, of which those of the members count. Lowest member first.
void warp_collective(std::uint32_t kind, std::uint32_t members, const std::uint64_t* values, const std::uint32_t* b,
                     const std::uint32_t* c, std::uint64_t* results);

std::vector<RuntimeSymbol> group_symbols();

}  // namespace pergola::device::cpu::jit
