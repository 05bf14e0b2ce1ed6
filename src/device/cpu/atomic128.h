// Sixteen bytes at once: atom.exch.b128 and atom.cas.b128 (ISA 9.7.13.3) of both tiers.
//
// GCC and Clang turn __int128 atomics into calls of a library that may take a lock, which loads and stores of generated
// code would not see; the processor's own instruction is asked for instead. Both functions order as seq_cst does, which
// covers every .sem. `at` is a multiple of 16. Every x86-64 processor since 2006 has it, every AArch64 one too.
#pragma once

#include <cstdint>

namespace pergola::device::cpu {

// The value before; `desired` is stored where that was `expected`.
inline unsigned __int128 compare_exchange_128(unsigned __int128* at, unsigned __int128 expected, unsigned __int128 desired) {
#if defined(__x86_64__)
  auto low = static_cast<std::uint64_t>(expected), high = static_cast<std::uint64_t>(expected >> 64);
  asm volatile("lock cmpxchg16b %0"
               : "+m"(*at), "+a"(low), "+d"(high)
               : "b"(static_cast<std::uint64_t>(desired)), "c"(static_cast<std::uint64_t>(desired >> 64))
               : "cc", "memory");
  return static_cast<unsigned __int128>(high) << 64 | low;
#else
  return __sync_val_compare_and_swap(at, expected, desired);
#endif
}

// The value before.
inline unsigned __int128 exchange_128(unsigned __int128* at, unsigned __int128 desired) {
  unsigned __int128 seen = 0;
  for (;;) {
    const unsigned __int128 before = compare_exchange_128(at, seen, desired);
    if (before == seen) return before;
    seen = before;
  }
}

}  // namespace pergola::device::cpu
