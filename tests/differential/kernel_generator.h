// Random small kernels whose results the ISA fixes bit for bit.
//
// A kernel keeps a pool of registers of each type, fills it from its inputs and its indices, runs random statements,
// and stores the whole pool. Statements: arithmetic of all types, comparisons and selections, branches and loops that
// diverge; and, only where all threads of the block are together, exchanges through shared memory with barriers,
// shuffles, votes and reductions. Left out is what two right devices may do differently: .approx, NaN payloads
// (f32 NaNs of sign changes and of f64, and stored f64 NaNs, are replaced by one pattern),
// racing accesses but for reductions, and division by zero.
#pragma once

#include <cstdint>

#include "tests/ptx_cases/case_file.h"

namespace pergola::differential {

// Kernels from this seed on are wide: they also reduce into global memory from anywhere, send the warps of a block to barriers
// of their own and the halves of a warp to operations of their own, count at barriers, and have loops that lanes leave and begin anew
// by many ways; in every third one threads also return before the others are done.
inline constexpr std::uint64_t kFirstWideSeed = std::uint64_t{1} << 20;

// The same case for the same seed, on every machine.
ptx_cases::Case generate_kernel(std::uint64_t seed);

}  // namespace pergola::differential
