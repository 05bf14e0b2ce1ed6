// The interpreter tier: runs the PTX of a block instruction by instruction. It is the oracle for every other tier, so
// it prefers being plain to being fast; it checks every access and names thread, address and line in a fault.
#pragma once

#include <memory>

#include "src/device/cpu/block.h"

namespace pergola::device::cpu {

struct InterpreterOptions {
  bool check = false;  // races in shared memory and reads of it before any write are faults too; slower
};

std::shared_ptr<Engine> create_interpreter(const InterpreterOptions& options = {});

}  // namespace pergola::device::cpu
