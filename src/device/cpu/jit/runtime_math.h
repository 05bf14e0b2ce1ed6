// The pure arithmetic part of the run time's table (runtime_calls.h).
#pragma once

#include <vector>

#include "src/device/cpu/jit/runtime_calls.h"

namespace pergola::device::cpu::jit {

std::vector<RuntimeSymbol> math_symbols();

}  // namespace pergola::device::cpu::jit
