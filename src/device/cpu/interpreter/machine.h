// The interpreter's execution of one block: its threads, barriers and scheduling.
//
// Scheduling imitates a GPU's convergence: in a warp, the ready lanes with the deepest call and then the lowest pc run
// in lock step, one instruction for all of them; lanes that wait further down join when the pc reaches theirs. So
// lanes that diverge meet again at the join, and `activemask` names the lanes that run together. Where several groups
// are ready, each turn ends after a number of instructions and another group gets one, so a lane that spins on another
// lane's store always sees it. Warps run round robin; blocks are the runner's.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/device/cpu/interpreter/access_recorder.h"
#include "src/device/cpu/interpreter/barrier_paths.h"
#include "src/device/cpu/interpreter/execution_hook.h"
#include "src/device/cpu/interpreter/shared_check.h"
#include "src/device/cpu/interpreter/thread.h"
#include "src/device/cpu/warp_sync.h"

namespace pergola::device::cpu::interp {

class Machine final : public BlockExecution {
 public:
  Machine(std::shared_ptr<const KernelImage> kernel, Block& block);
  Progress step(std::uint64_t budget) override;
  std::vector<Stand> stands() const override;

  const KernelImage& kernel() const { return *kernel_; }
  const ModuleImage& module() const { return *kernel_->module; }
  const Block& block() const { return block_; }
  const Launch& launch() const { return *block_.launch; }
  Warp& warp_of(const Thread& thread) { return warps_[thread.warp]; }
  std::uint32_t warp_count() const { return static_cast<std::uint32_t>(warps_.size()); }
  std::uint32_t thread_count() const { return static_cast<std::uint32_t>(threads_.size()); }
  std::uint32_t stack_bytes() const { return kernel_->stack_bytes; }
  std::uint64_t instructions() const { return instructions_; }

  // Control flow of a thread.
  void enter(Thread& thread, const FunctionCode& function, const CallSite* site, const Inst& inst);
  void leave(Thread& thread);  // ret
  void exit(Thread& thread);
  void sleep(Thread& thread);

  // Raises a device fault for this thread at `inst`; `what` completes "thread (..) of block (..) ...".
  void fault(const Thread& thread, const Inst& inst, const std::string& what);
  bool stopped() const { return stop_; }

  // The host address of [address, address + size), or null after raising the fault.
  std::byte* resolve(Thread& thread, const Inst& inst, Region region, std::uint64_t address, std::uint32_t size,
                     bool write);
  // The host address where the thread may read `size` bytes at a generic address, else null; raises nothing.
  const std::byte* readable(const Thread& thread, std::uint64_t address, std::uint32_t size) const;
  bool in_shared(const std::byte* pointer) const {
    return pointer >= block_.shared_base && pointer < block_.shared_base + block_.shared_bytes;
  }

  // Hints for step(): something another thread may see was done; something that may spin was read.
  void note_write() { wrote_ = true; }
  void note_strong_read(Thread& thread, const Inst& inst, const std::byte* at) {
    spun_ = true;
    thread.looked_by = &inst;
    thread.looked_at = at;
  }

  // Lanes wait at `inst`, their pc on it, until release() moves them past it.
  void block_lanes(Warp& warp, LaneMask lanes, const Inst& inst, ThreadStatus status);
  void release(Warp& warp, LaneMask lanes);
  NamedBarrier& barrier(std::uint32_t id) { return barriers_[id]; }
  void check_barriers();  // releases who waits at barriers that are complete
  // Null unless the kernel is checked.
  SharedCheck* shared_check() { return shared_check_.get(); }
  std::uint32_t number_of(const Thread& thread) const { return thread.warp * 32 + thread.lane; }

 private:
  struct Group {
    LaneMask mask = 0;
    std::uint32_t merge_pc = UINT32_MAX;
    bool alone = true;  // no other lane of the warp is ready
  };
  Group pick_group(Warp& warp);
  std::uint64_t run_warp(Warp& warp, std::uint64_t quantum);
  std::uint64_t run_group(Warp& warp, const Group& group, std::uint64_t limit);
  std::byte* out_of_bounds(Thread& thread, const Inst& inst, Region region, std::uint64_t address,
                           std::uint32_t size, bool write);
  std::byte* resolve_mapped(Thread& thread, const Inst& inst, Region region, std::uint64_t address,
                            std::uint32_t size, bool write);
  void check_waiters(Warp& warp);
  void note_gone_past(Warp& warp, LaneMask lanes, LaneMask active, const Inst& inst, std::uint32_t pc);
  bool check_same_barrier(std::uint32_t id);
  MemorySpace space_of(const Thread& thread, const std::byte* at) const;
  bool check_shared(Thread& thread, const Inst& inst, const std::byte* at, std::uint32_t size, bool write);
  std::string shared_place(std::uint32_t offset) const;
  void raise_deadlock();
  std::string waits_of(const Thread& thread) const;

  std::shared_ptr<const KernelImage> kernel_;
  Block& block_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> stacks_;
  std::array<NamedBarrier, 16> barriers_;
  std::uint32_t live_ = 0;
  std::uint32_t next_warp_ = 0;
  std::uint64_t instructions_ = 0;
  bool stop_ = false;
  bool exited_ = false;  // a thread of the current instruction has exited
  bool wrote_ = false, spun_ = false;
  AccessRecorder* recorder_ = nullptr;
  const ExecutionHook* hook_ = nullptr;
  std::unique_ptr<SharedCheck> shared_check_;
  BarrierPaths barrier_paths_;
};

// exec_warp.cc: completes every collective of the warp whose live members have all arrived.
void complete_collectives(Machine& machine, Warp& warp);
// exec_sync.cc: gives a thread the result of the barrier it waited at.
void finish_barrier(Thread& thread, const Inst& inst, const NamedBarrier& barrier);

}  // namespace pergola::device::cpu::interp
