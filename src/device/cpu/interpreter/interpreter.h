// The interpreter tier: runs the PTX of a block instruction by instruction. It is the oracle for every other tier, so
// it prefers being plain to being fast; it checks every access and names thread, address and line in a fault.
#pragma once

#include <memory>

#include "src/device/cpu/block.h"

namespace pergola::device::cpu {

std::shared_ptr<Engine> create_interpreter();

}  // namespace pergola::device::cpu
