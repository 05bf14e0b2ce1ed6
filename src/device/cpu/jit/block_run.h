// One block while it runs: its fibers, who waits for whom, and how a fiber gets out.
//
//              resume                       last one arrives, or others exit
//   new ─────▶ running ──┬─ barrier() ────▶ at a barrier ──────────────┐
//   ready ───▶           ├─ poll() ───────▶ polled (ready next step) ───┤
//                        ├─ collective() ─▶ at a warp operation ───────┼─▶ ready
//                        ├─ yield() ──────▶ spun (ready next round) ───┘
//                        └─ returns, exit(), a fault ─▶ done (its stack goes back to the pool)
//
// In the vector tier a fiber is a group of threads, whose lanes wait for each other inside generated code.
// A kernel without waiting runs as one fiber that loops over all threads, and then over the blocks that follow. Fibers run lowest thread first; a warp runs
// until none of its lanes can go on, then the next warp, round robin; so the number of rounds is that of the barriers.
// A fiber is abandoned where it waits when the launch has a fault: generated code and the functions that wait own
// nothing that would need a destructor.
//
// Belongs to one host thread. Fibers enter through ThreadContext::block->run (runtime_calls.cc).
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <memory>
#include <string>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/device/cpu/jit/compile.h"
#include "src/device/cpu/jit/fiber_switch.h"
#include "src/device/cpu/jit/stack_pool.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/warp_sync.h"

namespace pergola::device::cpu::jit {

class BlockRun final : public BlockExecution {
 public:
  struct Code {
    BlockFunction function = nullptr;
    bool fibers = false;
    std::size_t stack_bytes = 0;
    bool bounded_stack = true;  // no recursion, calls through registers or alloca
    std::uint32_t lanes = 1;  // threads of a fiber: 1, or in the vector tier a power of two up to 32
    std::uint32_t group = 1;  // threads that the code works on at a time, fibers or not
    const ptx::Module* module = nullptr;  // for messages; outlives the run
    const CompiledUnit* unit = nullptr;   // likewise
  };
  BlockRun(Block& block, const Code& code);
  ~BlockRun() override;
  Progress step(std::uint64_t budget) override;
  std::vector<Stand> stands() const override;

  // From a fiber, on its own stack. `thread` is its context.
  PERGOLA_SWITCHES_STACK void yield(ThreadContext* thread);
  PERGOLA_SWITCHES_STACK std::uint32_t barrier(ThreadContext* thread, std::uint32_t id, std::uint32_t expected,
                                               std::uint32_t kind, bool predicate);
  PERGOLA_SWITCHES_STACK std::uint64_t collective(ThreadContext* thread, std::uint32_t kind, std::uint32_t mask,
                                                  std::uint64_t value, std::uint32_t b, std::uint32_t c);
  // As barrier(), for the lanes `active` of the running group, of which `live` have not returned. Generated code calls
  // it as it is: PERGOLA_SWITCHES_STACK_INLINE says why.
  PERGOLA_SWITCHES_STACK static std::uint32_t group_barrier(ThreadContext* thread, std::uint32_t id, std::uint32_t expected,
                                                            std::uint32_t kind, std::uint32_t active, std::uint32_t truths,
                                                            std::uint32_t live);
  // From a loop that may not end: lets the runner look whether the launch is to stop, and others run.
  // `from` is in the code of the loop.
  PERGOLA_SWITCHES_STACK void poll(const void* from);
  [[noreturn]] PERGOLA_SWITCHES_STACK void exit(ThreadContext* thread);
  // Ends the fiber and the block; the fault has been raised.
  [[noreturn]] PERGOLA_SWITCHES_STACK void leave_after_fault();

  // "Kernel 'k' at k.ptx:12 (trap): thread (3,0,0) of block (0,0,0)": `thread`, or the one that runs; the place where
  // it is known.
  std::string where(const ThreadContext* thread, PtxPlace place = {}) const;
  // Null where it has none.
  const ptx::Module* module() const { return code_.module; }
  // The instruction whose code holds `address`; line 0 where that is not known.
  PtxPlace place_of(std::uintptr_t address) const;
  // The context of lane `lane` of the group that begins with `first`.
  ThreadContext context_of_lane(const ThreadContext& first, std::uint32_t lane) const;
  const Launch& launch() const { return *block_.launch; }
  const Block& block() const { return block_; }
  const Stack& running_stack() const { return running_->stack; }
  void raise(Error error) { block_.launch->fault->raise(std::move(error)); }

 private:
  static constexpr std::uint32_t kBarriers = 16;  // of a block
  enum class State : std::uint8_t { kNew, kReady, kSpun, kPolled, kBarrier, kWarp, kSite, kDone };
  struct Fiber {
    ThreadContext context;
    boost::context::detail::fcontext_t where = nullptr;
    Stack stack;
    State state = State::kNew;
    std::uint8_t barrier = 0;
    const void* polled_from = nullptr;               // by its last poll; null once it has waited or spun
    bool aligned = false;                            // the barrier is one for whole warps
    std::uint32_t kind = 0, mask = 0, b = 0, c = 0;  // of its warp operation; mask is the site where it converges
    std::uint64_t value = 0, result = 0;
    void* fake_stack = nullptr;
  };

  static void fiber_main(boost::context::detail::transfer_t from);
  bool begin_next();
  bool resume(Fiber& fiber);
  PERGOLA_SWITCHES_STACK void suspend(Fiber& fiber);
  void suspend_to_next(Fiber& fiber);
  void arrive_on_stack(Fiber& fiber, boost::context::detail::transfer_t from);
  Fiber& fiber_of(ThreadContext* thread);
  bool run_warp(std::uint32_t warp, std::uint64_t& budget);
  bool complete_barriers();
  void release_barrier(std::uint32_t id);
  void check_same_barrier(const Fiber& one, const Fiber& other);
  void complete_collective(std::uint32_t warp, std::uint32_t members);
  bool takes_part(std::uint32_t id, std::uint32_t expected, std::uint32_t kind, const ThreadContext* thread);
  void check_collectives(std::uint32_t warp);
  bool converge(std::uint32_t warp);
  void arrive(Fiber& fiber, std::uint32_t lane);
  void finish(Fiber& fiber);
  void report_deadlock();
  std::string waits_of(const Fiber& fiber) const;
  std::string place_of(const Fiber& fiber) const;
  std::uint32_t live_threads() const;

  Block& block_;
  const Code code_;
  BlockContext context_;
  std::vector<Fiber> fibers_;
  std::vector<std::uint32_t> live_;  // live lanes by warp
  std::uint32_t live_count_ = 0;
  std::unique_ptr<NamedBarrier[]> barriers_;  // kBarriers, once one is used
  std::uint32_t barriers_used_ = 0;  // a bit each
  Fiber* running_ = nullptr;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_bottom_ = nullptr;  // for AddressSanitizer
  std::size_t scheduler_bytes_ = 0;
  bool faulted_ = false;
  std::uint32_t changeovers_left_ = 0;  // between groups, without the scheduler
};

// The run that a thread is of, for what compiled code calls.
inline BlockRun& run_of(ThreadContext* thread) { return *thread->block->run; }

}  // namespace pergola::device::cpu::jit
