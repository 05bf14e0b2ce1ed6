// What programs are made of: contents from seeds, buffers, launches, and comparing with a reference.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../program.h"

namespace pergola::bench::blocks {

// ── Contents ────────────────────────────────────────────────────────────────────────────────────────────────────────

// Element i of a buffer. The same on every machine.
template <typename T>
using Value = std::function<T(std::size_t)>;

std::uint64_t hash(std::uint64_t seed, std::uint64_t index);
double uniform(std::uint64_t seed, std::uint64_t index);  // [0, 1)
Value<float> uniform_floats(std::uint64_t seed, double low, double high);
Value<std::int32_t> uniform_ints(std::uint64_t seed, std::int32_t low, std::int32_t high);  // `high` excluded
Value<std::uint8_t> uniform_bytes(std::uint64_t seed, std::uint32_t count);                 // 0 ... count - 1

template <typename T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, float>)
    return Element::kFloat;
  else if constexpr (std::is_same_v<T, double>)
    return Element::kDouble;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Element::kInt;
  else
    return Element::kByte;
}

template <typename T>
std::vector<T> made(std::size_t count, const Value<T>& value) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
  return values;
}

enum class Role : std::uint8_t { kInput, kResult };

// Appends a buffer and returns its number.
template <typename T>
std::uint32_t add_buffer(Program& program, std::string name, std::size_t count, Value<T> value,
                         Role role = Role::kInput) {
  Buffer buffer{std::move(name), element_of<T>(), count, nullptr, role == Role::kResult};
  buffer.fill = [count, value = std::move(value)](std::span<std::byte> bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      const T element = value(i);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  };
  program.buffers.push_back(std::move(buffer));
  return static_cast<std::uint32_t>(program.buffers.size() - 1);
}
// Zeros.
std::uint32_t add_zeros(Program& program, std::string name, Element element, std::size_t count, Role role);

inline std::int32_t as_int(std::size_t value) {
  return static_cast<std::int32_t>(value);
}
inline std::uint32_t as_extent(std::size_t value) {
  return static_cast<std::uint32_t>(value);
}
inline Argument buffer(std::uint32_t number) {
  return BufferArgument{number, 0};
}

// ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

constexpr std::size_t divided_up(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}
// The least s with s * s >= value.
std::size_t root_up(std::size_t value);

// ── References ──────────────────────────────────────────────────────────────────────────────────────────────────────

// What a buffer must hold. Right is |got - expected| <= tolerance * (scale + |expected|), where scale is the buffer's root
// mean square, 1 at least; with 0, equality.
struct Expected {
  std::uint32_t buffer = 0;
  double tolerance = 0;
  std::vector<double> values;
};

// A Program::check for what `reference` makes, which is called once, by the first check.
std::function<std::string(const Results&)> compared_with(const Program& program,
                                                         std::function<std::vector<Expected>()> reference);

// ── The programs ────────────────────────────────────────────────────────────────────────────────────────────────────

Program make_3mm(const Size& size);
Program make_alexnet(const Size& size);
Program make_bicg(const Size& size);
Program make_fdtd2d(const Size& size);
Program make_fft(const Size& size);
Program make_gaussian(const Size& size);
Program make_gramschm(const Size& size);
Program make_hotspot(const Size& size);
Program make_lud(const Size& size);
Program make_mvt(const Size& size);
Program make_nw(const Size& size);
Program make_pathfinder(const Size& size);
Program make_heat(const Size& size);
Program make_integral_histogram(const Size& size);
Program make_integral_image(const Size& size);
Program make_sor(const Size& size);
Program make_dtw(const Size& size);
Program make_smith_waterman(const Size& size);

}  // namespace pergola::bench::blocks
