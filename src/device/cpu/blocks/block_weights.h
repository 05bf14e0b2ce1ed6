// What instructions and memory accesses take: the one table from which the time of a block is made.
//
// The GPU is the paper's (IV-A), a Titan X of the Pascal generation: 28 SMs of 4 schedulers of 32 lanes at 1417 MHz.
//
//   issue_cycles    how long an instruction of a warp keeps its scheduler: 32 lanes over a quarter of the results per
//                   clock that the CUDA C++ Programming Guide's table of arithmetic throughput gives for compute
//                   capability 6.1 (add 128: 1; shift 64: 2; special functions and conversions 32: 4; double 4: 32)
//   latency_cycles  how long until an instruction that reads its result may issue: 6 for what the main pipeline does,
//                   and for what compilers make a sequence of, the length of the sequence times 6
//
//   class          issue  latency
//   simple             1        6   32-bit additions, logic, comparisons, moves, float add, multiply, fma
//   shift              2        6
//   wide               2       12   64-bit integers: two 32-bit halves, one after the other
//   multiply           3       18   32-bit integer products: three 16-bit ones (XMAD)
//   wide multiply     10       60   64-bit integer products
//   special            4       24   approximate reciprocals, roots, sines, logarithms; conversions; shuffles and votes
//   divide            10       60   exact float division and root
//   integer divide    20      120   32 bits; by a reciprocal in float and its correction
//   wide divide       80      480   64 bits
//   double            32       48   one lane of each scheduler
//   double divide    320      480   ten of those
//   memory             1        -   below
//   barrier            1        -   until all warps are there
//
// Memory. Every global access is answered by the L2 cache in 216 cycles (Jia, Maggioni, Staiger, Scarpazza, "Dissecting
// the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, Table 3.1, the Pascal column; so are 82 for L1, where
// local memory is, and 23 for shared memory). What a program's kernels hand on mostly is in L2, and no cache is
// simulated: what really comes from DRAM is too fast here. The way from L2 to an SM carries 64 bytes a cycle, in
// sectors of 32 bytes. Shared memory serves 32 banks of 4 bytes a cycle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/cpu/blocks/launch_chain.h"
#include "src/ptx/instruction.h"

namespace pergola::device::cpu::blocks {

enum class InstructionClass : std::uint8_t {
  kSimple,
  kShift,
  kWide,
  kMultiply,
  kWideMultiply,
  kSpecial,
  kDivide,
  kIntegerDivide,
  kWideDivide,
  kDouble,
  kDoubleDivide,
  kMemory,
  kBarrier,
};

struct InstructionWeight {
  std::uint32_t issue_cycles, latency_cycles;
};

InstructionClass class_of(const ptx::Instruction& instruction);
InstructionWeight weight_of(InstructionClass kind);

inline constexpr double kClockGhz = 1.417;
inline constexpr std::uint32_t kSchedulers = 4;  // of an SM; warp w of a block belongs to scheduler w modulo it
inline constexpr std::uint32_t kGlobalLatency = 216, kLocalLatency = 82, kSharedLatency = 23, kParameterLatency = 6;
inline constexpr std::uint32_t kSectorBytes = 32, kSectorsACycle = 2;
inline constexpr std::uint32_t kRequestBytes = 128;  // what one request of a warp to L2 covers
inline constexpr std::uint32_t kBanks = 32, kBankBytes = 4;

// In what order a warp's instructions issue (warp_clock.h): that of the PTX, or the assembler's.
enum class IssueOrder : std::uint8_t { kText, kAssembled };
inline constexpr std::size_t kIssueOrders = 2;

// What a block did.
struct BlockWork {
  std::uint64_t instructions = 0;                // of warps
  std::uint64_t issue_cycles[kSchedulers] = {};  // by scheduler
  std::uint64_t port_cycles = 0;                 // of the way to L2
  // Until its last warp ends, were nothing else in its way; by IssueOrder.
  std::uint64_t chain_cycles[kIssueOrders] = {};
  std::uint64_t requests = 0;  // to L2
};

// Alone on an SM a block takes the longest of: its slowest warp, its busiest scheduler, its sectors. Its share of the
// SM is the greater of its instructions over what four schedulers issue in that time, and of its sectors.
BlockCost cost_of(const BlockWork& work, IssueOrder order = IssueOrder::kText);

}  // namespace pergola::device::cpu::blocks
