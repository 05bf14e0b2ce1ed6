// The programs of bench/blocks in the orders that their relations allow: whatever order the counters let the blocks run
// in (III-D), the results are right; and relations that lack something are found by it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bench/blocks/execution/program_execution.h"
#include "src/device/cpu/blocks/block_orders.h"
#include "src/device/cpu/blocks/block_schedule.h"
#include "tests/block_orders/broken_footprints.h"
#include "tests/ptx_cases/test_device.h"

namespace pergola::block_orders_test {
namespace {

using namespace bench::blocks;
using vclock::BlockChoice;
using vclock::BlockName;
using vclock::LaunchChain;

constexpr std::uint32_t kWindow = 4;

// A program and what is needed to run it again and again.
class Subject {
 public:
  explicit Subject(const ProgramFactory& factory) : program_(factory.make(Size::small())) {
    auto device = ptx_cases::open_test_device("interpreter");
    auto relations = ProgramRelations::of(program_);
    if (!device.ok() || !relations.ok()) {
      ADD_FAILURE() << device.message() << relations.message();
      return;
    }
    relations_.emplace(std::move(relations).value());
    auto execution = ProgramExecution::on(std::move(device).value(), program_, *relations_);
    EXPECT_TRUE(execution.ok()) << execution.message();
    if (execution.ok()) execution_.emplace(std::move(execution).value());
    for (std::size_t i = 0; i < program_.launches.size(); ++i) {
      auto footprint = relations_->footprint(i);
      EXPECT_TRUE(footprint.ok()) << footprint.message();
      if (footprint.ok()) footprints.push_back(std::move(footprint).value());
    }
  }

  bool is_ready() const { return execution_.has_value(); }
  // What is wrong with the results of the blocks in this order; "" where nothing is: right by the program's reference,
  // and to the bit those of the stream's order.
  std::string run(std::span<const BlockName> order) {
    execution_->reset();
    if (const Status status = execution_->run(order); !status.ok()) return std::string(status.message());
    const std::string wrong = execution_->check();
    if (!wrong.empty()) return wrong;
    const std::vector<std::byte> contents = execution_->contents();
    if (in_stream_order_.empty()) in_stream_order_ = stream_order();
    return contents == in_stream_order_ ? "" : "other bits than in stream order";
  }
  std::string run(const LaunchChain& chain, BlockChoice choice, std::uint64_t seed = 0) {
    return run(block_order(chain, kWindow, choice, seed));
  }

  // Whether one of the orders that the chain allows gives a wrong result. Several, since launches back and forth
  // between two arrays give the same from the last to the first.
  bool is_wrong(const LaunchChain& chain) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      if (run(chain, seed == 0 ? BlockChoice::kLatestLaunch : BlockChoice::kRandom, seed) != "") return true;
    }
    return false;
  }

  std::vector<analysis::LaunchFootprint> footprints;

 private:
  std::vector<std::byte> stream_order() {
    std::vector<BlockName> order;
    for (std::uint32_t i = 0; i < footprints.size(); ++i) {
      for (std::uint32_t b = 0; b < program_.launches[i].grid.count(); ++b) order.push_back({i, b});
    }
    execution_->reset();
    const Status status = execution_->run(order);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(execution_->check(), "");
    return execution_->contents();
  }

  const Program program_;
  std::vector<std::byte> in_stream_order_;
  std::optional<ProgramRelations> relations_;
  std::optional<ProgramExecution> execution_;
};

class EachProgram : public testing::TestWithParam<std::size_t> {
 protected:
  const ProgramFactory& factory() const { return all()[GetParam()]; }
};

INSTANTIATE_TEST_SUITE_P(All, EachProgram, testing::Range(std::size_t{0}, all().size()), [](const auto& each) {
  std::string name = all()[each.param].name;
  std::erase(name, '-');
  return name;
});

TEST_P(EachProgram, IsRightInEveryOrderThatItsRelationsAllow) {
  Subject subject(factory());
  ASSERT_TRUE(subject.is_ready());
  const LaunchChain chain = chain_of(subject.footprints, kWindow);
  EXPECT_EQ(subject.run(chain, BlockChoice::kLatestLaunch), "") << "latest launch first";
  EXPECT_EQ(subject.run(chain, BlockChoice::kReversedBlocks), "") << "reversed";
  constexpr std::uint64_t kSeed = 20210614;
  EXPECT_EQ(subject.run(chain, BlockChoice::kRandom, kSeed), "") << "random, seed " << kSeed;
  // As the schedule has it, which starts blocks of up to four launches beside each other.
  const auto timeline = schedule_blocks(chain, vclock::figure_nine({.sms = 2, .blocks_per_sm = 3}).back().options);
  ASSERT_TRUE(timeline.ok()) << timeline.message();
  EXPECT_EQ(subject.run(timeline->start_order()), "") << "consumer first, four launches";
}

// Programs that are not found by it have no dependence to lose.
TEST_P(EachProgram, WithoutRelations_IsWrong) {
  Subject subject(factory());
  ASSERT_TRUE(subject.is_ready());
  LaunchChain chain = chain_of(subject.footprints, kWindow);
  bool has_dependence = false;
  for (auto& launch : chain) {
    for (auto& relation : launch.relations) {
      has_dependence |= relation->pattern != analysis::BlockPattern::kIndependent;
      auto none = std::make_shared<analysis::BlockRelation>();
      none->parents = relation->parents, none->children = relation->children;
      relation = none;
    }
  }
  EXPECT_EQ(subject.is_wrong(chain), has_dependence);
}

const ProgramFactory& factory_of(std::string_view name) {
  return *std::ranges::find(all(), name, &ProgramFactory::name);
}

// What launches write is left out of their footprints.
TEST(BrokenFootprint, IsFound) {
  for (const char* name : {"3MM", "HS", "LUD", "NW", "PATH", "SW"}) {
    Subject subject(factory_of(name));
    ASSERT_TRUE(subject.is_ready());
    for (analysis::LaunchFootprint& footprint : subject.footprints) {
      std::erase_if(footprint.accesses, [](const analysis::AccessFootprint& access) { return access.writes; });
    }
    EXPECT_TRUE(subject.is_wrong(chain_of(subject.footprints, kWindow))) << name;
  }
}

// A small mistake in one access of one launch. Where no block loses a parent by it nothing can come of it; else it is
// found most of the time, but where something else holds the block back.
TEST(BrokenFootprint, WithASmallMistake_IsFound) {
  constexpr std::uint64_t kSeed = 1;
  std::mt19937_64 random(kSeed);
  for (const Mistake mistake : kMistakes) {
    int found = 0, lost = 0, tried = 0;
    for (const char* name : {"3MM", "HS", "LUD", "NW", "PATH", "SW"}) {
      Subject subject(factory_of(name));
      ASSERT_TRUE(subject.is_ready());
      const LaunchChain whole = chain_of(subject.footprints, kWindow);
      for (int trial = 0; trial < 12; ++trial) {
        std::vector<analysis::LaunchFootprint> footprints = subject.footprints;
        if (!make_mistake(mistake, footprints, random)) continue;
        ++tried;
        const LaunchChain broken = chain_of(footprints, kWindow);
        if (!loses_a_parent(whole, broken)) continue;
        ++lost;
        found += subject.is_wrong(broken);
      }
    }
    fmt::print("{}: {} tried, {} lose a parent, {} of them found, seed {}\n", to_string(mistake), tried, lost, found,
               kSeed);
    EXPECT_GE(lost, 3) << to_string(mistake);
    EXPECT_GE(found, lost / 2) << to_string(mistake);
  }
}

// `relation` without one parent of one child; empty where there is none to leave out.
vclock::RelationPtr without_parent(const analysis::BlockRelation& relation, std::mt19937_64& random) {
  if (relation.lists.empty() || relation.edges == 0) return nullptr;
  auto broken = std::make_shared<analysis::BlockRelation>(relation);
  std::uint64_t dropped = random() % relation.edges;
  std::vector<std::vector<std::uint32_t>> parents(relation.children);
  for (std::uint32_t child = 0; child < relation.children; ++child) {
    for (const std::uint32_t p : relation.parents_of(child)) {
      if (dropped-- != 0) parents[child].push_back(p);
    }
  }
  broken->lists = analysis::ParentLists(parents);
  return broken;
}

// One parent of one block of a whole program left out: found by one of the orders wherever nothing else holds the block
// back, which is most of the time.
TEST(DroppedParent, IsFound) {
  constexpr std::uint64_t kSeed = 1;
  std::mt19937_64 random(kSeed);
  for (const char* name : {"HS", "NW", "PATH", "SW"}) {
    Subject subject(factory_of(name));
    ASSERT_TRUE(subject.is_ready());
    const LaunchChain whole = chain_of(subject.footprints, kWindow);
    int found = 0, dropped = 0;
    while (dropped < 12) {
      LaunchChain chain = whole;
      auto& relation = chain[1 + random() % (chain.size() - 1)].relations[0];
      const vclock::RelationPtr broken = without_parent(*relation, random);
      if (broken == nullptr) continue;
      relation = broken;
      ++dropped;
      found += subject.is_wrong(chain);
    }
    fmt::print("{}: {} of {} found, seed {}\n", name, found, dropped, kSeed);
    EXPECT_GE(found, dropped / 2) << name;
  }
}

}  // namespace
}  // namespace pergola::block_orders_test
