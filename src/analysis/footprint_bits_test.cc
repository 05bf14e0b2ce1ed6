// Numbers combined bit by bit (FootprintTerms::with_bits): what is made of an expression is worked out for all values
// of its terms, and must be what the instruction gives.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <span>

#include "src/analysis/footprint_terms.h"

namespace pergola::analysis {
namespace {

using Kind = Term::Kind;

std::int64_t combined(Kind kind, std::int64_t a, std::int64_t number) {
  return kind == Kind::kAnd ? a & number : kind == Kind::kOr ? a | number : a ^ number;
}

std::int64_t value(const FootprintTerms& terms, const Affine& a, std::span<const std::int64_t> threads) {
  std::int64_t result = a.constant;
  for (const Affine::Part& part : a.parts) {
    const Term& term = terms[part.term];
    const bool is_leaf = part.term < threads.size();
    const std::int64_t of_a = is_leaf ? 0 : value(terms, term.a, threads);
    if (!is_leaf) {
      EXPECT_GE(of_a, 0);
    }
    const std::int64_t own = is_leaf ? threads[part.term] : combined(term.kind, of_a, term.divisor);
    EXPECT_GE(own, term.range.low);
    EXPECT_LE(own, term.range.high);
    result += part.coefficient * own;
  }
  return result;
}

TEST(FootprintBits, WhatIsMade_IsWhatTheInstructionGives) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  int made_of = 0;
  for (int round = 0; round < 2000; ++round) {
    FootprintTerms terms;
    const std::int64_t count = 1 + below(16), blocks = 1 + below(6);
    terms.add({.kind = Kind::kThread, .range = {0, count - 1}});
    terms.add({.kind = Kind::kBlock, .range = {0, blocks - 1}, .is_by_block = blocks > 1});
    Affine a = Affine::number(below(80) - 40);
    for (TermId id = 0; id < 2; ++id) {
      const std::int64_t factor = below(3) == 0 ? below(41) - 20 : std::int64_t{1} << below(7);
      a = *sum(a, Affine::term(id), factor);
    }
    const Kind kind = std::array{Kind::kAnd, Kind::kOr, Kind::kXor}[static_cast<std::size_t>(below(3))];
    const std::int64_t number = below(4) == 0 ? std::int64_t{1} << below(10) : below(300);
    const auto made = terms.with_bits(kind, a, number);
    ASSERT_TRUE(made);  // numbers are small
    for (std::int64_t block = 0; block < blocks; ++block) {
      BlockRanges ranges(terms, {});
      ranges.enter({static_cast<std::uint32_t>(block), 0, 0});
      for (std::int64_t thread = 0; thread < count; ++thread) {
        const std::int64_t threads[] = {thread, block};
        const std::int64_t x = value(terms, a, threads), got = value(terms, *made, threads);
        ASSERT_EQ(got, combined(kind, x, number)) << x << " and " << number << " in round " << round;
        ASSERT_TRUE(Interval::point(got).is_within(ranges.of(*made))) << "round " << round;
        ASSERT_TRUE(Interval::point(got).is_within(terms.range(*made))) << "round " << round;
        made_of += !made->is_number();
      }
    }
  }
  EXPECT_GT(made_of, 20000);
}

TEST(FootprintBits, WhatHasNoBounds_IsNotMade) {
  FootprintTerms terms;
  const Affine any = terms.unknown({}, "loaded");
  EXPECT_FALSE(terms.with_bits(Kind::kXor, any, 1));
  EXPECT_FALSE(terms.with_bits(Kind::kXor, Affine::number(1), -1));
  EXPECT_EQ(terms.with_bits(Kind::kXor, Affine::number(6), 3), Affine::number(5));
}

}  // namespace
}  // namespace pergola::analysis
