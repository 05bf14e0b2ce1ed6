#include "src/device/cpu/math_functions.h"

#include <math.h>

#include <algorithm>
#include <iterator>

namespace pergola::device::cpu {
namespace {

#define PERGOLA_ENTRY(name, type, signature) \
  {"__pergola_" #name, reinterpret_cast<void*>(static_cast<type>(::name)), signature},
#define PERGOLA_MATH_F1(name) PERGOLA_ENTRY(name, float (*)(float), "ff")
#define PERGOLA_MATH_F2(name) PERGOLA_ENTRY(name, float (*)(float, float), "fff")
#define PERGOLA_MATH_FI(name) PERGOLA_ENTRY(name, float (*)(float, int), "ffi")
#define PERGOLA_MATH_IF(name) PERGOLA_ENTRY(name, int (*)(float), "if")
#define PERGOLA_MATH_D1(name) PERGOLA_ENTRY(name, double (*)(double), "dd")
#define PERGOLA_MATH_D2(name) PERGOLA_ENTRY(name, double (*)(double, double), "ddd")
#define PERGOLA_MATH_DI(name) PERGOLA_ENTRY(name, double (*)(double, int), "ddi")
#define PERGOLA_MATH_ID(name) PERGOLA_ENTRY(name, int (*)(double), "id")

const MathFunction kFunctions[] = {
#include "include/pergola/device/math_functions.def"
};

}  // namespace

std::span<const MathFunction> math_functions() { return kFunctions; }

const MathFunction* find_math_function(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const MathFunction& function) { return name == function.name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace pergola::device::cpu
