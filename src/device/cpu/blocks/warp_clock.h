// When the instructions of one warp issue and when their results are there, in one of two orders.
//
// kText: in the order of the PTX, as the paper's simulator has it: an instruction waits for the registers that it reads
// and for the instruction before it.
//
// kAssembled: a GPU issues in order too, but in that of its assembler, which schedules straight-line code. PTX has a
// load, what uses it, the next load; for compute capability 6.1 ptxas writes all loads first. So what a warp executes
// falls into runs, which begin where control can arrive and end where it can leave. In a run an instruction takes the
// first cycles that are free once what it reads is there; a run begins when all of the one before have issued:
//
//   PTX      ld a   st.shared a   ld b   st.shared b   bra
//   issued   ld a   ld b   .............   st.shared a   st.shared b   bra
//            └────────────────────── a run ────────────────────────┘   a run of its own
//
// Accesses of one state space keep their order, but for loads among themselves and for loads that nothing written can
// change (ld.global.nc). Registers never run out: it is a bound of what an assembler can do, where kText is one of what
// it leaves undone. Neither knows that ptxas unrolls loops further.
//
// Owned by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "src/device/cpu/blocks/block_weights.h"
#include "src/device/cpu/blocks/issue_slots.h"

namespace pergola::device::cpu::blocks {

// An instruction as it was executed.
struct IssuedInstruction {
  std::uint32_t function = 0;                    // whose registers these are
  std::span<const std::uint32_t> reads, writes;  // registers
  std::uint32_t registers = 0;                   // of the function
  std::uint32_t issue_cycles = 1, latency_cycles = 0;
  bool begins_run = false;
  bool loads = false, stores = false, is_unordered = false;
  std::uint32_t spaces = 0;  // accessed, a bit for each MemorySpace
};

class WarpClock {
 public:
  explicit WarpClock(IssueOrder order) : order_(order) {}

  void reset() {
    begin_ = issued_ = ended_ = 0;
    slots_.clear();
    std::ranges::fill(accesses_, Accesses{});
    for (auto& registers : ready_) std::ranges::fill(registers, 0);
  }

  void issue(const IssuedInstruction& instruction) {
    if (instruction.begins_run || order_ == IssueOrder::kText) begin_run();
    std::vector<std::uint64_t>& ready = registers_of(instruction);
    const std::uint64_t issued = issue_at(earliest(instruction, ready), instruction.issue_cycles);
    const std::uint64_t start = issued - instruction.issue_cycles;
    issued_ = std::max(issued_, issued);
    for (std::size_t space = 0; space < kSpaces; ++space) {
      if ((instruction.spaces >> space & 1) == 0) continue;
      if (instruction.loads) accesses_[space].load = std::max(accesses_[space].load, start);
      if (instruction.stores) accesses_[space].store = std::max(accesses_[space].store, start);
    }
    const std::uint64_t end = start + instruction.latency_cycles;
    for (const std::uint32_t r : instruction.writes) ready[r] = end;
    if (!instruction.writes.empty() || instruction.spaces != 0) ended_ = std::max(ended_, end);
  }

  // A run begins, no earlier than this.
  void wait_until(std::uint64_t cycle) {
    issued_ = std::max(issued_, cycle);
    begin_run();
  }

  std::uint64_t issued() const { return issued_; }                   // when the last instruction has issued
  std::uint64_t ended() const { return std::max(issued_, ended_); }  // and all results are there

 private:
  static constexpr std::size_t kSpaces = 4;  // of MemorySpace
  // When the latest load and the latest store of a space have issued.
  struct Accesses {
    std::uint64_t load = 0, store = 0;
  };

  void begin_run() {
    begin_ = issued_;
    slots_.clear();
  }

  std::uint64_t issue_at(std::uint64_t earliest, std::uint32_t cycles) {
    if (order_ == IssueOrder::kText) return earliest + cycles;
    return begin_ + slots_.take(earliest - begin_, cycles);
  }

  std::uint64_t earliest(const IssuedInstruction& instruction, const std::vector<std::uint64_t>& ready) const {
    std::uint64_t start = begin_;
    for (const std::uint32_t r : instruction.reads) start = std::max(start, ready[r]);
    if (instruction.spaces == 0 || instruction.is_unordered) return start;
    for (std::size_t space = 0; space < kSpaces; ++space) {
      if ((instruction.spaces >> space & 1) == 0) continue;
      start = std::max(start, accesses_[space].store);
      if (instruction.stores) start = std::max(start, accesses_[space].load);
    }
    return start;
  }

  std::vector<std::uint64_t>& registers_of(const IssuedInstruction& instruction) {
    if (ready_.size() <= instruction.function) ready_.resize(instruction.function + 1);
    std::vector<std::uint64_t>& ready = ready_[instruction.function];
    if (ready.empty()) ready.resize(instruction.registers);
    return ready;
  }

  IssueOrder order_;
  std::uint64_t begin_ = 0;   // of the run
  std::uint64_t issued_ = 0;  // when the last that has issued did
  std::uint64_t ended_ = 0;   // the latest that any result is there
  IssueSlots slots_;          // cycles of the run that are taken, from begin_ on
  Accesses accesses_[kSpaces];
  std::vector<std::vector<std::uint64_t>> ready_;  // when each register is, by function
};

}  // namespace pergola::device::cpu::blocks
