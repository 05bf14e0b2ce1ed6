// f64 arithmetic in a directed rounding mode, through the host's floating-point environment.
//
// The operands pass through volatile objects between the two calls that set the mode, so the operation, which needs
// the one and feeds the other, cannot be moved across them or folded at compile time, at any level of optimisation.
#include <cfenv>
#include <cmath>

#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu {
namespace {

class ScopedRounding {
 public:
  explicit ScopedRounding(Rounding rounding) : before_(std::fegetround()) {
    int mode = FE_TONEAREST;
    if (rounding == Rounding::kTowardZero) mode = FE_TOWARDZERO;
    if (rounding == Rounding::kDown) mode = FE_DOWNWARD;
    if (rounding == Rounding::kUp) mode = FE_UPWARD;
    std::fesetround(mode);
  }
  ~ScopedRounding() { std::fesetround(before_); }
  ScopedRounding(const ScopedRounding&) = delete;
  ScopedRounding& operator=(const ScopedRounding&) = delete;

 private:
  int before_;
};

template <typename Operation>
double directed(Rounding rounding, double a, double b, double c, Operation operation) {
  ScopedRounding scope(rounding);
  volatile double va = a, vb = b, vc = c;
  volatile double result = operation(va, vb, vc);
  return result;
}

// The NaN that an operation on these operands carries on; a number where none is a NaN.
double nan_operand(double a, double b, double c = 0) { return quiet(std::isnan(b) ? b : std::isnan(c) ? c : a); }

}  // namespace

double add_f64(double a, double b, Rounding rounding) {
  if (std::isnan(a) || std::isnan(b)) return nan_operand(a, b);
  if (rounding == Rounding::kNearestEven) return a + b;
  return directed(rounding, a, b, 0, [](double x, double y, double) { return x + y; });
}

double mul_f64(double a, double b, Rounding rounding) {
  if (std::isnan(a) || std::isnan(b)) return nan_operand(a, b);
  if (rounding == Rounding::kNearestEven) return a * b;
  return directed(rounding, a, b, 0, [](double x, double y, double) { return x * y; });
}

double fma_f64(double a, double b, double c, Rounding rounding) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return nan_operand(a, b, c);
  if (rounding == Rounding::kNearestEven) return std::fma(a, b, c);
  return directed(rounding, a, b, c, [](double x, double y, double z) { return std::fma(x, y, z); });
}

double div_f64(double a, double b, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return a / b;
  return directed(rounding, a, b, 0, [](double x, double y, double) { return x / y; });
}

double sqrt_f64(double a, Rounding rounding) {
  if (rounding == Rounding::kNearestEven) return std::sqrt(a);
  return directed(rounding, a, 0, 0, [](double x, double, double) { return std::sqrt(x); });
}

}  // namespace pergola::device::cpu
