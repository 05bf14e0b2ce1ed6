// FFT as SHOC has it: in float and in double, ten passes each of transforms, their inverses and a check that compares
// the two halves of the data, which are equal.
#include <complex>
#include <numbers>

#include "parts.h"

namespace pergola::bench::blocks {
namespace {

constexpr std::size_t kPoints = 512;
constexpr std::uint32_t kThreads = 64;

// In place, by halves.
void transform(std::vector<std::complex<double>>& x) {
  const std::size_t n = x.size();
  if (n == 1) return;
  std::vector<std::complex<double>> even(n / 2), odd(n / 2);
  for (std::size_t i = 0; i < n / 2; ++i) even[i] = x[2 * i], odd[i] = x[2 * i + 1];
  transform(even);
  transform(odd);
  for (std::size_t k = 0; k < n / 2; ++k) {
    const auto turned =
        std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)) * odd[k];
    x[k] = even[k] + turned;
    x[k + n / 2] = even[k] - turned;
  }
}

// What one precision's buffers must hold; `numbers` is two a point.
template <typename T>
std::vector<double> spectrum_of(std::size_t transforms, const Value<T>& value) {
  std::vector<double> spectrum(transforms * kPoints * 2);
  std::vector<std::complex<double>> points(kPoints);
  for (std::size_t b = 0; b < transforms; ++b) {
    const std::size_t first = b * kPoints * 2;
    for (std::size_t i = 0; i < kPoints; ++i)
      points[i] = {static_cast<double>(value(first + 2 * i)), static_cast<double>(value(first + 2 * i + 1))};
    transform(points);
    for (std::size_t i = 0; i < kPoints; ++i)
      spectrum[first + 2 * i] = points[i].real(), spectrum[first + 2 * i + 1] = points[i].imag();
  }
  return spectrum;
}

// Buffers and launches of one precision. Returns what makes its references.
template <typename T>
std::function<std::vector<Expected>()> add_precision(Program& p, std::size_t transforms, std::size_t passes,
                                                     const std::string& suffix, double tolerance) {
  const std::size_t half = transforms / 2, numbers = transforms * kPoints * 2;
  const Value<T> value = [half](std::size_t i) {
    return static_cast<T>(uniform(sizeof(T), i % (half * kPoints * 2)) * 2 - 1);
  };
  const auto signal = add_buffer<T>(p, "signal" + suffix, numbers, value, Role::kResult);
  const auto spectrum = add_zeros(p, "spectrum" + suffix, element_of<T>(), numbers, Role::kResult);
  const auto differs = add_zeros(p, "differs" + suffix, Element::kInt, half, Role::kResult);
  const Dim3 grid{as_extent(transforms)}, block{kThreads};
  for (std::size_t pass = 0; pass < passes; ++pass) {
    p.launches.push_back({"fft_forward" + suffix, grid, block, 0, {buffer(signal), buffer(spectrum)}});
    p.launches.push_back({"fft_inverse" + suffix, grid, block, 0, {buffer(spectrum), buffer(signal)}});
    p.launches.push_back(
        {"fft_check" + suffix, {as_extent(half)}, block, 0, {buffer(signal), as_int(half * kPoints), buffer(differs)}});
  }
  return [=] {
    std::vector<double> as_before(numbers);
    for (std::size_t i = 0; i < numbers; ++i) as_before[i] = static_cast<double>(value(i));
    return std::vector<Expected>{{signal, tolerance, std::move(as_before)},
                                 {spectrum, tolerance, spectrum_of<T>(transforms, value)},
                                 {differs, 0, std::vector<double>(half, 0.0)}};
  };
}

}  // namespace

Program make_fft(const Size& size) {
  // 1 MiB of data of either precision.
  std::size_t single = 256, twice = 128, passes = 10;
  if (size.kind == Size::Kind::kSmall) single = 6, twice = 4, passes = 2;
  if (size.kind == Size::Kind::kWaves) single = twice = 2 * divided_up(size.blocks(), 2);
  Program p{"FFT", "fft.cu", {}, {}, nullptr};
  const auto in_float = add_precision<float>(p, single, passes, "", 1e-4);
  const auto in_double = add_precision<double>(p, twice, passes, "_double", 1e-11);
  p.check = compared_with(p, [=] {
    auto expected = in_float();
    for (Expected& more : in_double()) expected.push_back(std::move(more));
    return expected;
  });
  return p;
}

}  // namespace pergola::bench::blocks
