// What compiled code and the run time of the JIT both see: the layout of a thread and of its block.
//
//   generated function(ThreadContext*, results..., parameters...)
//        │ reads tid, local_base                 each result and parameter is a pointer to its storage
//        └─▶ BlockContext: parameters, shared memory, dimensions; constant while the block runs
//
// Invariant: generated code knows these structures by offsetof alone (emitter.h), so only their fields' names matter.
// Ownership and threads: both belong to the virtual SM's OS thread that runs the block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pergola::device::cpu::jit {

class BlockRun;

struct BlockContext {
  const std::byte* parameters = nullptr;
  std::byte* shared_base = nullptr;
  std::uint32_t shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t ntid[3] = {1, 1, 1};
  std::uint32_t ctaid[3] = {0, 0, 0};
  std::uint32_t nctaid[3] = {1, 1, 1};
  std::uint32_t smid = 0, nsmid = 1;
  std::uint64_t gridid = 0;
  std::uint64_t grid_workspace = 0;    // Launch::grid_workspace
  std::uint32_t turns_left = 1024;     // of loops that may not end, until the runner gets a look (loop_polls.cc)
  BlockRun* run = nullptr;
  // Of the barrier that resumed groups are coming to, and of the one they have left (vector_resume.h): the number of
  // true predicates, and above bit 32 the number of false ones.
  std::uint64_t arrivals = 0, arrived = 0;
};

struct ThreadContext {
  BlockContext* block = nullptr;
  std::byte* local_base = nullptr;  // the low end of the thread's stack: local addresses count from here
  std::uint32_t tid[3] = {0, 0, 0};
  std::uint32_t linear = 0;         // index in the block: lane is linear % 32, warp is linear / 32
  std::uint32_t local_bytes = 0;    // size of the stack: what isspacep.local compares with
  std::uint32_t spin_left = 0;      // back-edges of a spinning loop until the thread lets others run
  // For messages about threads that wait for ever; written by kernels that run as fibers.
  std::uint32_t wait_line = 0;      // PTX line of the barrier or warp operation it came to last
  std::uint32_t look_line = 0;      // PTX line of its last strong load or atomic, and the address
  std::uint64_t look_address = 0;
};

using ThreadFunction = void (*)(ThreadContext*);
using BlockFunction = void (*)(BlockContext*, ThreadContext*);

}  // namespace pergola::device::cpu::jit
