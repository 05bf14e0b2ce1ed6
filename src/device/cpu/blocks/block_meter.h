// Measures a block while the interpreter runs it, by the weights of block_weights.h.
//
// Each warp has a clock for either order in which its instructions may issue (warp_clock.h): an instruction waits for
// the registers that it reads, and its result is there a latency later. Loads that do not wait for each other overlap
// so, as on a GPU. Lanes of a warp that stand apart take turns on the clocks. At a barrier all become the latest.
//
// Owned by one thread, which runs one measured block at a time.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/device/cpu/blocks/block_weights.h"
#include "src/device/cpu/blocks/warp_clock.h"
#include "src/device/cpu/interpreter/code.h"
#include "src/device/cpu/interpreter/execution_hook.h"

namespace pergola::device::cpu::blocks {

class BlockMeter {
 public:
  BlockMeter();
  BlockMeter(const BlockMeter&) = delete;
  BlockMeter& operator=(const BlockMeter&) = delete;

  const ExecutionHook& hook() const { return hook_; }
  // A block begins.
  void begin(std::uint32_t threads);
  // What it did since.
  BlockWork end();

 private:
  // An instruction of a function, looked up by its place.
  struct Site {
    InstructionClass kind{};
    std::uint64_t place = 0;    // one more than that of the instruction before it in the text
    bool is_continued = false;  // the place before has the same PTX instruction: it is counted there
    // Control can arrive or leave here, or nothing is moved past it: a branch, call, barrier, fence, atomic or volatile
    // access is a run of its own.
    bool begins_run = false;
    bool loads = false, stores = false, is_unordered = false;
    std::vector<std::uint32_t> reads, writes;  // registers
  };
  struct Function {
    std::uint32_t number = 0, registers = 0;
    std::vector<Site> sites;
  };
  struct Warp {
    std::array<WarpClock, kIssueOrders> clocks{WarpClock(IssueOrder::kText), WarpClock(IssueOrder::kAssembled)};
    std::uint64_t place = 0;  // of the instruction before
    std::uint32_t barriers = 0;
    std::uint32_t waiting = 0;  // lanes that stand at the barrier barriers - 1
  };

  void issued(std::uint32_t warp, const interp::FunctionCode& code, std::uint32_t pc, std::uint32_t lanes);
  void accessed(std::uintptr_t address, std::uint32_t size_bytes, MemorySpace space);
  void complete();  // the instruction that was issued last
  std::uint32_t memory_latency();
  std::uint32_t shared_conflicts();
  const Function& function_of(const interp::FunctionCode& code);
  static void fill_sites(const interp::FunctionCode& code, Function& function);

  ExecutionHook hook_;
  // Of functions that are loaded: the runner that owns the meter keeps them.
  std::unordered_map<const interp::FunctionCode*, Function> functions_;
  const interp::FunctionCode* last_code_ = nullptr;
  const Function* last_function_ = nullptr;

  BlockWork work_;
  std::vector<Warp> warps_;
  std::vector<std::array<std::uint64_t, kIssueOrders>> barrier_clocks_;  // by how many barriers came before
  // The instruction that was issued last, and what it has accessed.
  struct Current {
    const Site* site = nullptr;
    const Function* function = nullptr;
    std::uint32_t warp = 0, lanes = 0;
  } current_;
  std::vector<std::uint64_t> sectors_, words_;
  std::uint32_t spaces_ = 0;  // a bit for each MemorySpace
};

}  // namespace pergola::device::cpu::blocks
