// What a block executes, warp by warp and in the order that it does: for whoever measures blocks.
//
// The hook is that of the thread which starts the block, so a virtual SM's blocks have none unless it sets one. Without
// one it costs a comparison for each instruction of a warp.
#pragma once

#include <cstdint>
#include <functional>

namespace pergola::device::cpu {

namespace interp {
struct FunctionCode;
}

enum class MemorySpace : std::uint8_t { kGlobal, kShared, kLocal, kParameter };

struct ExecutionHook {
  // Lanes of a warp that stand at one instruction are about to execute it; those that its guard takes out are not among
  // `lanes`, which may be none.
  std::function<void(std::uint32_t warp, const interp::FunctionCode& function, std::uint32_t pc, std::uint32_t lanes)>
      issued;
  // One of those lanes accesses memory, by the instruction that issued() named last. `address` is the host's.
  std::function<void(std::uintptr_t address, std::uint32_t size_bytes, MemorySpace space)> accessed;
};

// Of blocks that this thread starts from now on; null: none. It must outlive them.
void set_execution_hook(const ExecutionHook* hook);
const ExecutionHook* execution_hook();

}  // namespace pergola::device::cpu
