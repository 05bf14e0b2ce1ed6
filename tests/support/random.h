// Random numbers that no standard library changes: the same for a seed on every machine.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace pergola::test_support {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

// The seed that the environment has in `variable`, else 1; it is printed.
inline std::uint64_t seed_of(const char* variable) {
  const char* const given = std::getenv(variable);
  const std::uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  std::printf("seed %llu (%s)\n", static_cast<unsigned long long>(seed), variable);
  return seed;
}

}  // namespace pergola::test_support
