// The host functions behind the math functions that PTX calls without defining them: those of
// include/pergola/device/math_functions.def, under `__pergola_<name>`. Both tiers look them up here.
#pragma once

#include <span>
#include <string_view>

namespace pergola::device::cpu {

struct MathFunction {
  const char* name = nullptr;       // as in PTX
  void* address = nullptr;          // a host function of the C ABI
  const char* signature = nullptr;  // result, then arguments: f float, d double, i int; "ff", "dd", "fff", "di", ...
};

// All of them. Immutable.
std::span<const MathFunction> math_functions();

// Null where `name` is none of them. Thread-safe.
const MathFunction* find_math_function(std::string_view name);

}  // namespace pergola::device::cpu
