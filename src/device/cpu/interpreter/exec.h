// Reading and writing the cells of a thread, and the flags that handlers share.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "src/device/cpu/interpreter/machine.h"
#include "src/device/cpu/numeric.h"

namespace pergola::device::cpu::interp {

inline constexpr std::uint16_t kFtz = 1, kSat = 2, kRelu = 4, kNan = 8, kXorsign = 16, kAbs = 32, kApprox = 64,
                               kVolatile = 128, kCarryOut = 256, kAcquire = 512, kRelease = 1024, kSc = 2048,
                               kSatfinite = 4096, kFactorF16 = 8192, kFactorBf16 = 16384;

inline std::uint64_t cell(const Thread& t, std::int32_t index) {
  return index >= 0 ? t.regs[index] : t.constants[~index];
}

// A 16-bit float, kept as its bits: arithmetic goes through numeric.h.
template <typename T>
T from_cell(std::uint64_t bits) {
  if constexpr (std::same_as<T, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::same_as<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
std::uint64_t to_cell(T value) {
  if constexpr (std::same_as<T, float>) {
    return std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::same_as<T, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else if constexpr (std::same_as<T, bool>) {
    return value ? 1 : 0;
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

template <typename T>
T read(const Thread& t, std::int32_t index) {
  return from_cell<T>(cell(t, index));
}
template <typename T>
T source(const Thread& t, const Inst& i, int n) {
  return from_cell<T>(cell(t, i.src[n]));
}
template <typename T>
void write(Thread& t, std::int32_t index, T value) {
  t.regs[index] = to_cell(value);
}

inline void nothing(Machine&, Thread&, const Inst&) {}

inline LaneMask bit(std::uint32_t lane) { return LaneMask{1} << lane; }

// Calls f(thread) for each lane of the mask, lowest first.
template <typename F>
void for_each_lane(Warp& warp, LaneMask mask, F f) {
  while (mask != 0) {
    f(warp.threads[std::countr_zero(mask)]);
    mask &= mask - 1;
  }
}

}  // namespace pergola::device::cpu::interp
