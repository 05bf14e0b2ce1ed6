// SIGSEGV, SIGBUS, SIGFPE and SIGILL in generated code become faults of the launch, not of the process.
//
//   signal ─▶ handler ── is a fiber running on this thread? ── no ─▶ whoever handled it before us
//                │ yes
//                └─ returns into land_after_fault() on the fiber's own stack, which raises the fault and leaves the fiber
//
// The handlers are installed once, for the process, on first use; each thread that runs fibers gets an alternate
// signal stack, so that a stack that ran over its end is found too.
#pragma once

#include <cstdint>

namespace pergola::device::cpu::jit {

class BlockRun;

// Installs what is missing for this process and this thread. Cheap when nothing is. Thread-safe.
void prepare_fault_signals();

// Raises what a signal has ended the running fiber of `run` with, if any. On the thread's own stack, as finding the line
// of the code takes more than a fiber may have left.
void raise_pending_fault(BlockRun& run);

// Says that `run` is on one of its fibers on this thread; null: none is.
void set_running_block(BlockRun* run, void* stack_top);

// While one lives on a fiber, the fiber is in a part of the run time that holds locks, and may not be left: a fault there is
// none of the kernel's accesses, but what came of an earlier one that reached the run time's own memory. It ends the process,
// with a line that says so, instead of a lock that is held for ever. Nothing may switch away meanwhile.
class RuntimeSection {
 public:
  RuntimeSection();
  ~RuntimeSection();
  RuntimeSection(const RuntimeSection&) = delete;
  RuntimeSection& operator=(const RuntimeSection&) = delete;
};

}  // namespace pergola::device::cpu::jit
