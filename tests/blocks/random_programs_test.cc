// Random chains of random affine kernels (tests/block_orders/random_chain.h), whose launches stand in all patterns of
// Table I, in every way that a graph of launches is made: bits are those of the launches one after the other, and
// chains of early launches have them in adversarial orders (early_launches.h).
//
// PERGOLA_CHAINS: of so many as other tests run (1000) 6 in 100 are run here. PERGOLA_SEED takes the first seed; each
// chain's is printed where it fails.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "bench/blocks/forms/program_on_device.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "tests/block_orders/random_chain.h"
#include "tests/blocks/early_launches.h"

namespace pergola::bench::blocks {
namespace {

using early_test::EarlyOrder;
using early_test::Preference;

// As small blocks are packed here: of any threads, however few the device then has.
constexpr runtime::PackingOptions kPacking{
    .most_threads = 70, .block_threads = 100, .fewest_blocks = 2, .least_resident = 0};

class RandomPrograms : public testing::Test {
 protected:
  void run_chain(std::uint64_t seed) {
    block_orders_test::RandomChain chain = block_orders_test::random_chain(seed, seed % 2 == 0);
    chain.program.check = [this](const Results& results) { return compare(results); };
    right_.clear();
    auto loaded = ProgramOnDevice::make(device_, chain.program, chain.ptx);
    ASSERT_TRUE(loaded.ok()) << loaded.message() << chain.ptx;
    loaded_ = &*loaded;
    random_.seed(seed);
    run("plain", loaded_->chain(), 1, 1);
    all_ways("");
    if (HasFatalFailure()) return;
    const runtime::ConstantNodes constants = loaded_->constants();
    run("constants", constants.spec, constants.launches, 2);
    if (constants.launches == 0 || HasFatalFailure() || random_() % 4 != 0) return;
    loaded_->use_constants();
    all_ways("constants, ");
  }

  // Each where it differs from the plain graph.
  void all_ways(const std::string& on) {
    const runtime::TrimmedGrids trimmed = loaded_->trimmed();
    run(on + "trimmed", trimmed.spec, trimmed.launches, 2);
    const runtime::PackedNodes packed = loaded_->packed(trimmed, kPacking);
    run(on + "packed", packed.spec, packed.launches, 2);
    early_ways(on);
    const runtime::FusedOptions fused{.blocks = 1, .most_warps = 32, .shortest = 2};  // there are no clusters here
    run_made(on + "fused", loaded_->fused(fused), [](const auto& made) { return made.segments.size(); });
    run_made(on + "columns", loaded_->fused(runtime::FusedOptions::in_columns()),
             [](const auto& made) { return made.segments.size(); });
    const auto stacks = [](const runtime::LoweredStacked& made) { return made.stacks; };
    run_made(on + "stacked", loaded_->stacked(), stacks);
    run_made(on + "stacked-alone", loaded_->stacked({.waits_for_nothing_else = true}), stacks);
    const auto groups = [](const runtime::LoweredMerged& made) { return made.groups.size(); };
    run_made(on + "merged-kernels", loaded_->merged({.different_kernels = true}), groups);
    const auto merged = loaded_->merged({});
    run_made(on + "merged", merged, groups);
    if (HasFatalFailure() || merged->groups.empty()) return;
    run_made(on + "merged-stacked", loaded_->merged_stacked(*merged), stacks);
    const auto early = loaded_->merged_early(*merged);
    run_made(on + "merged-early", early, [](const auto& made) { return made.early; });
    if (!HasFatalFailure() && early->early != 0) run_early(on + "merged-early", early->spec);
  }

  void early_ways(const std::string& on) {
    runtime::BlockLoweringOptions options;
    options.chain.most_running = 2 + random_() % 4;
    if (random_() % 4 == 0) options.most_triggers = random_() % 4;
    const auto by_block = loaded_->lowered(options);
    run_made(on + "by-block", by_block, [](const runtime::LoweredBlocks& made) {
      return std::ranges::count_if(made.steps, [](const auto& step) { return !step.parents.empty(); });
    });
    if (HasFatalFailure()) return;
    for (std::size_t i = 1; i < by_block->steps.size(); ++i) ++patterns_[by_block->steps[i].pattern];
    run_early(on + "by-block", by_block->spec);
    options.chain.by_block = false;
    const auto launches = [](const runtime::LoweredBlocks& made) { return made.spec.nodes.size(); };
    const auto early = loaded_->lowered(options);
    run_made(on + "early", early, launches);
    if (!HasFatalFailure()) run_early(on + "early", early->spec);
    options.packing = &kPacking;
    const auto packed = loaded_->lowered(options);
    run_made(on + "packed-early", packed, [](const runtime::LoweredBlocks& made) { return made.packed; });
    if (!HasFatalFailure()) run_early(on + "packed-early", packed->spec);
  }

  template <typename Made, typename Count>
  void run_made(const std::string& way, const Result<Made>& made, Count count) {
    if (HasFatalFailure()) return;
    ASSERT_TRUE(made.ok()) << way << ": " << made.message();
    run(way, made->spec, static_cast<std::size_t>(count(*made)), 2);
  }
  // So many times, where there is anything made this way.
  void run(const std::string& way, const device::GraphSpec& spec, std::size_t made, int rounds) {
    if (made == 0 || HasFatalFailure()) return;
    ++ways_[way];
    const auto graph = device_->instantiate(spec);
    ASSERT_TRUE(graph.ok()) << way << ": " << graph.message();
    for (int round = 0; round < rounds; ++round) {
      ASSERT_TRUE(loaded_->reset().ok());
      ASSERT_TRUE((*graph)->launch(loaded_->queue()).ok());
      const Status status = loaded_->queue().synchronize();
      ASSERT_TRUE(status.ok()) << way << ": " << status.message();
      ASSERT_EQ(loaded_->check().value(), "") << way << ", round " << round;
    }
  }
  // In adversarial orders; twice in one form.
  void run_early(const std::string& way, const device::GraphSpec& spec) {
    for (const EarlyOrder& order :
         {EarlyOrder{.room = 1 + static_cast<std::uint32_t>(random_() % 40)},
          EarlyOrder{.preference = Preference::kRandom, .seed = random_()}, EarlyOrder{.is_weak = false}}) {
      ASSERT_TRUE(loaded_->reset().ok());
      const auto run = early_test::run_early(device_, spec, order);
      ASSERT_TRUE(run.ok()) << way << ": " << run.message();
      ASSERT_EQ(run->stuck, "") << way;
      ASSERT_TRUE(std::equal(right_.begin(), right_.end(), run->at_end.begin()))
          << way << ", order " << static_cast<int>(order.preference) << ", weak " << order.is_weak;
    }
  }

  // With what the first run has given.
  std::string compare(const Results& results) {
    std::vector<std::byte> all;
    for (const auto& part : results) all.insert(all.end(), part.begin(), part.end());
    if (right_.empty()) right_ = all;
    return all == right_ ? "" : "other bits than in stream order";
  }

  device::DevicePtr device_ = device::cpu::create_cpu_device({}, device::cpu::create_interpreter()).value();
  ProgramOnDevice* loaded_ = nullptr;
  std::mt19937_64 random_;
  std::vector<std::byte> right_;
  std::map<analysis::BlockPattern, std::size_t> patterns_;  // of launches on those before them
  std::map<std::string, std::size_t> ways_;                 // chains in which anything was made this way
};

TEST_F(RandomPrograms, HaveTheBitsOfTheStream_InEveryWay) {
  const char* const asked = std::getenv("PERGOLA_CHAINS");
  const std::uint64_t chains = (asked == nullptr ? 1000 : std::strtoull(asked, nullptr, 10)) * 6 / 100;
  const char* const given = std::getenv("PERGOLA_SEED");
  const std::uint64_t first = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  fmt::print("seed {}\n", first);
  for (std::uint64_t chain = 0; chain < chains && !HasFailure(); ++chain) {
    // Two of three are the same each time, so that what must occur does.
    const std::uint64_t seed = given != nullptr ? first + chain
                               : chain % 3 == 2 ? first + chain / 3
                                                : chain / 3 * 2 + chain % 3;
    SCOPED_TRACE(fmt::format("PERGOLA_SEED={} PERGOLA_CHAINS=20", seed));
    run_chain(seed);
  }
  for (const auto& [pattern, count] : patterns_) fmt::print("{} {}, ", to_string(pattern), count);
  for (const auto& [way, count] : ways_) fmt::print("{} {}, ", way, count);
  fmt::print("\n");
  if (chains < 60 || given != nullptr) return;
  EXPECT_EQ(patterns_.size(), 7u) << "or a pattern of Table I was not there";
  for (const char* way : {"trimmed", "packed", "early", "by-block", "packed-early", "fused", "columns", "merged",
                          "merged-kernels", "merged-early", "stacked", "stacked-alone", "merged-stacked", "constants",
                          "constants, by-block", "constants, stacked"})
    EXPECT_NE(ways_[way], 0u) << way;
}

}  // namespace
}  // namespace pergola::bench::blocks
