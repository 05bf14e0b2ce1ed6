// Measures a block while the interpreter runs it, by the weights of block_weights.h.
//
// Each warp has a clock and issues in order: an instruction waits for the registers that it reads and for the
// instruction before it; its result is there a latency later. Loads that do not wait for each other overlap so, as on
// a GPU. Lanes of a warp that stand apart take turns on the one clock. At a barrier all clocks become the latest.
//
// Owned by one thread, which runs one measured block at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/device/cpu/blocks/block_weights.h"
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
    bool is_continued = false;                 // the place before has the same PTX instruction: it is counted there
    std::vector<std::uint32_t> reads, writes;  // registers
  };
  struct Function {
    std::uint32_t number = 0;
    std::vector<Site> sites;
  };
  struct Warp {
    std::uint64_t clock = 0;  // when the next instruction may issue
    std::uint64_t last = 0;   // the latest that anything of it ends
    std::uint32_t barriers = 0;
    std::uint32_t waiting = 0;                      // lanes that stand at the barrier barriers - 1
    std::vector<std::vector<std::uint64_t>> ready;  // by function and register
  };

  void issued(std::uint32_t warp, const interp::FunctionCode& code, std::uint32_t pc, std::uint32_t lanes);
  void accessed(std::uintptr_t address, std::uint32_t size_bytes, MemorySpace space);
  void complete();  // the instruction that was issued last
  std::uint32_t memory_latency();
  std::uint32_t shared_conflicts();
  const Function& function_of(const interp::FunctionCode& code);

  ExecutionHook hook_;
  // Of functions that are loaded: the runner that owns the meter keeps them.
  std::unordered_map<const interp::FunctionCode*, Function> functions_;
  const interp::FunctionCode* last_code_ = nullptr;
  const Function* last_function_ = nullptr;

  BlockWork work_;
  std::vector<Warp> warps_;
  std::vector<std::uint64_t> barrier_clocks_;  // by how many barriers came before
  // The instruction that was issued last, and what it has accessed.
  struct Current {
    const Site* site = nullptr;
    std::uint32_t function = 0, warp = 0, lanes = 0;
  } current_;
  std::vector<std::uint64_t> sectors_, words_;
  bool is_local_ = false, is_parameter_ = false;
};

}  // namespace pergola::device::cpu::blocks
