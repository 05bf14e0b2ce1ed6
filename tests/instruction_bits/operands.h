// Operand values for each kind of register: the special ones (zeros, subnormals, infinities, NaNs of both kinds and
// signs with payloads, limits, ties) and random ones, the same for the same seed on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/instruction_bits/instruction_table.h"
#include "tests/support/random.h"

namespace pergola::instruction_bits {

inline constexpr std::size_t kMaxSources = 4;
using Case = std::array<std::uint64_t, kMaxSources>;  // right-aligned bits of each source

using test_support::Random;

std::vector<std::uint64_t> special_values(Kind kind);
std::uint64_t random_value(Kind kind, Random& random);

// `count` cases for sources of these kinds: every combination of special values where half of `count` holds them all,
// else a random choice of them; then special against random, random against random, and near-cancelling ones.
std::vector<Case> make_cases(std::string_view source_kinds, std::size_t count, std::uint64_t seed);

}  // namespace pergola::instruction_bits
