// Who touched what: a hook that sees every memory access of the blocks of a launch.
//
// Tests of analyses use it to hold a predicted footprint against the true one. The hook is looked up by the launch's
// grid_id when a block starts, so it costs nothing where none is set.
#pragma once

#include <cstdint>
#include <functional>

#include "src/device/types.h"

namespace pergola::device::cpu {

struct MemoryAccess {
  Dim3 block;
  Dim3 thread;
  std::uintptr_t address = 0;  // host address
  std::uint32_t size_bytes = 0;
  bool write = false;          // atomics report a read and a write
};

// Called on the OS thread of the block's virtual SM; several at once. Must outlive the launch.
using AccessRecorder = std::function<void(const MemoryAccess&)>;

// Sets the hook that blocks started from now on use, for every launch; null removes it. Thread-safe.
void set_access_recorder(AccessRecorder* recorder);
AccessRecorder* access_recorder();

}  // namespace pergola::device::cpu
