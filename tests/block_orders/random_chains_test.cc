// Random chains of random affine kernels: their blocks in adversarial orders give the bits of the stream's order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "bench/blocks/execution/program_execution.h"
#include "src/device/cpu/blocks/block_orders.h"
#include "src/device/cpu/blocks/block_schedule.h"
#include "tests/block_orders/broken_footprints.h"
#include "tests/block_orders/random_chain.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::block_orders_test {
namespace {

using namespace bench::blocks;
using analysis::BlockPattern;
using vclock::BlockChoice;
using vclock::BlockName;
using vclock::LaunchChain;

constexpr std::uint32_t kWindow = 4;

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class RandomChains : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = ptx_cases::open_test_device("interpreter");
    ASSERT_TRUE(opened.ok()) << opened.message();
    device_ = std::move(opened).value();
  }

  struct Subject {
    explicit Subject(std::uint64_t seed) : chain(random_chain(seed)) {}
    RandomChain chain;
    std::optional<ProgramRelations> relations;
    std::optional<ProgramExecution> execution;
    LaunchChain blocks;
    std::vector<std::byte> expected;  // in stream order
  };

  // Null where something failed.
  std::unique_ptr<Subject> make(std::uint64_t seed) {
    auto made = std::make_unique<Subject>(seed);
    source::CompiledSource compiled;
    compiled.ptx = made->chain.ptx;
    const auto prepared = [&]() -> Status {
      PERGOLA_ASSIGN(ProgramRelations relations, ProgramRelations::of(made->chain.program, compiled));
      made->relations.emplace(std::move(relations));
      PERGOLA_ASSIGN(made->blocks, chain_of(made->chain.program, *made->relations, kWindow));
      PERGOLA_ASSIGN(ProgramExecution execution, ProgramExecution::on(device_, made->chain.program, *made->relations));
      made->execution.emplace(std::move(execution));
      return {};
    }();
    EXPECT_TRUE(prepared.ok()) << prepared.message() << "\n" << made->chain.ptx;
    if (!prepared.ok()) return nullptr;
    std::vector<BlockName> order;
    for (std::uint32_t i = 0; i < made->blocks.size(); ++i) {
      for (std::uint32_t b = 0; b < made->blocks[i].size(); ++b) order.push_back({i, b});
    }
    const std::optional<std::vector<std::byte>> expected = bits(*made, order);
    if (!expected) return nullptr;
    made->expected = *expected;
    return made;
  }

  static std::optional<std::vector<std::byte>> bits(Subject& subject, std::span<const BlockName> order) {
    subject.execution->reset();
    const Status status = subject.execution->run(order);
    EXPECT_TRUE(status.ok()) << status.message() << "\n" << subject.chain.ptx;
    if (!status.ok()) return std::nullopt;
    return subject.execution->contents();
  }

  static bool is_right(Subject& subject, std::span<const BlockName> order) {
    return bits(subject, order) == subject.expected;
  }

  device::DevicePtr device_;
};

// PERGOLA_SEED starts elsewhere, PERGOLA_ROUNDS runs longer.
TEST_F(RandomChains, AreRightInAdversarialOrders) {
  const std::uint64_t first = number("PERGOLA_SEED", 1), rounds = number("PERGOLA_ROUNDS", 1000);
  std::map<BlockPattern, int> patterns;
  std::uint64_t war = 0, waw = 0, launches = 0;
  for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(fmt::format("PERGOLA_SEED={} PERGOLA_ROUNDS=1", seed));
    const auto subject = make(seed);
    ASSERT_NE(subject, nullptr);
    for (const auto choice : {BlockChoice::kLatestLaunch, BlockChoice::kReversedBlocks, BlockChoice::kRandom}) {
      ASSERT_TRUE(is_right(*subject, block_order(subject->blocks, kWindow, choice, seed)))
          << "order " << static_cast<int>(choice) << "\n"
          << subject->chain.ptx;
    }
    const vclock::ScheduleOptions hardware{.sms = 1, .blocks_per_sm = 1 + static_cast<std::uint32_t>(seed % 7)};
    const auto timeline = schedule_blocks(subject->blocks, vclock::figure_nine(hardware).back().options);
    ASSERT_TRUE(timeline.ok()) << timeline.message();
    ASSERT_TRUE(is_right(*subject, timeline->start_order())) << subject->chain.ptx;
    launches += subject->blocks.size();
    for (const auto& launch : subject->blocks) {
      for (const auto& relation : launch.relations) {
        ++patterns[relation->pattern];
        war += relation->war, waw += relation->waw;
      }
    }
  }
  fmt::print("{} chains, {} launches, {} relations with WAR, {} with WAW;", rounds, launches, war, waw);
  for (const auto& [pattern, count] : patterns) fmt::print(" {} {}", to_string(pattern), count);
  fmt::print("\n");
  if (rounds < 100) return;
  EXPECT_EQ(patterns.size(), 7u) << "a pattern of Table I that the chains do not have";
  EXPECT_GT(war, rounds / 4);
  EXPECT_GT(waw, rounds / 4);
}

// The test itself: all relations of one hazard lost, as if it were not looked for, are found.
TEST_F(RandomChains, OneThatLosesARelation_IsFound) {
  int lost = 0, found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto subject = make(seed);
    ASSERT_NE(subject, nullptr);
    std::mt19937_64 random(seed);
    auto& launch = subject->blocks[1 + random() % (subject->blocks.size() - 1)];
    auto& relation = launch.relations[random() % launch.relations.size()];
    if (relation->pattern == BlockPattern::kIndependent) continue;
    auto none = std::make_shared<analysis::BlockRelation>();
    none->parents = relation->parents, none->children = relation->children;
    relation = none;
    ++lost;
    bool is_found = false;
    for (std::uint64_t round = 0; round < 4 && !is_found; ++round) {
      is_found = !is_right(
          *subject,
          block_order(subject->blocks, kWindow, round == 0 ? BlockChoice::kLatestLaunch : BlockChoice::kRandom, round));
    }
    found += is_found;
  }
  fmt::print("{} of {} lost relations are found\n", found, lost);
  EXPECT_GE(lost, 30);
  EXPECT_GE(found, lost / 2);
}

// A small mistake in one access of one launch, where a block loses a parent by it.
TEST_F(RandomChains, OneWithASmallMistake_IsFound) {
  for (const Mistake mistake : kMistakes) {
    int lost = 0, found = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      const auto subject = make(seed);
      ASSERT_NE(subject, nullptr);
      std::mt19937_64 random(seed);
      std::vector<analysis::LaunchFootprint> footprints;
      for (std::size_t i = 0; i < subject->blocks.size(); ++i) {
        auto footprint = subject->relations->footprint(i);
        ASSERT_TRUE(footprint.ok()) << footprint.message();
        footprints.push_back(std::move(footprint).value());
      }
      LaunchChain broken;
      for (int trial = 0; trial < 6 && broken.empty(); ++trial) {
        std::vector<analysis::LaunchFootprint> mistaken = footprints;
        if (!make_mistake(mistake, mistaken, random)) continue;
        broken = chain_of(mistaken, kWindow);
        if (!loses_a_parent(subject->blocks, broken)) broken.clear();
      }
      if (broken.empty()) continue;
      ++lost;
      bool is_found = false;
      for (std::uint64_t round = 0; round < 10 && !is_found; ++round) {
        is_found = !is_right(
            *subject,
            block_order(broken, kWindow, round == 0 ? BlockChoice::kLatestLaunch : BlockChoice::kRandom, round));
      }
      found += is_found;
    }
    fmt::print("{}: {} of {} that lose a parent are found\n", to_string(mistake), found, lost);
    EXPECT_GE(lost, 30) << to_string(mistake);
    EXPECT_GE(found, lost / 2) << to_string(mistake);
  }
}

// What is read of what was written, alone, as the paper has it: blocks then overwrite what others still read.
TEST_F(RandomChains, ReadsAfterWritesAlone_AreNotEnough) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto subject = make(seed);
    ASSERT_NE(subject, nullptr);
    std::vector<analysis::LaunchFootprint> footprints;
    for (std::size_t i = 0; i < subject->blocks.size(); ++i) {
      auto footprint = subject->relations->footprint(i);
      ASSERT_TRUE(footprint.ok()) << footprint.message();
      footprints.push_back(std::move(footprint).value());
    }
    const LaunchChain reads = chain_of(footprints, kWindow, {.raw_only = true});
    wrong += !is_right(*subject, block_order(reads, kWindow, BlockChoice::kLatestLaunch));
  }
  fmt::print("{} of 200 chains are wrong\n", wrong);
  EXPECT_GT(wrong, 20);
}

}  // namespace
}  // namespace pergola::block_orders_test
