// Random chains of launches that start early (runtime/block_lowering) on a device that does as little for them as PTX
// allows (early_launches.h), block by block: bits are those of the launches one after the other when the last of them
// ends, in adversarial orders, and again in the same form. Each rule of transform/block_signals.h and of
// analysis/block_chain.h is needed for it: with that instruction, or a parent, left out a test here fails.
//
//   trigger first                 LetTheNextStart_InTheirFirstInstruction
//   wait for all                  blocks that read before the launch ahead has ended
//   wait at the end               what is in memory when the last launch ends lacks what one before it has not done
//   limit of how many run         more of them run, and what has no parent so far back reads too soon
//   epoch                         from the second run in one form on
//   fence before the counter      stores stay with their block until then (weak_memory.h)
//   acquire behind the counter    loads see memory as it was when their block last acquired
//   no ld.global.nc               these see memory as it was when their block began
//
// What this cannot show is what the block's barrier orders in memory: its threads see each other's stores at once, and
// one that acquires does so for all (weak_memory.h). That they wait there for each other it shows.
//
// PERGOLA_CHAINS: five times as many as are run here (1000). PERGOLA_SEED as elsewhere.
#include <algorithm>
#include <cstring>

#include "src/abi/block_links.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "tests/blocks/early_launches.h"
#include "tests/blocks/lowered_chains.h"

namespace pergola::runtime {
namespace {

using early_test::EarlyOrder;
using early_test::EarlyRun;
using early_test::Preference;

class EarlyChains : public LoweredChains {
 protected:
  device::DevicePtr open() override {
    return device::cpu::create_cpu_device({}, device::cpu::create_interpreter()).value();
  }

  // From the arrays' first contents on.
  EarlyRun run(const device::GraphSpec& spec, const EarlyOrder& order) {
    reset();
    auto run = early_test::run_early(device_, spec, order);
    EXPECT_TRUE(run.ok()) << run.message();
    return run.ok() ? std::move(run).value() : EarlyRun{.stuck = "It has not run"};
  }
  static bool has_bits(const EarlyRun& run, const std::vector<std::uint32_t>& right) {
    const auto bytes = std::as_bytes(std::span(right));
    return run.stuck.empty() && run.at_end.size() >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), run.at_end.begin());
  }
  // A parent in the device's memory.
  struct InList {
    abi::BlockParent* entry = nullptr;
    analysis::ChainStep::Parent named;
  };
  static std::vector<InList> in_lists(const LoweredBlocks& lowered) {
    std::vector<InList> all;
    for (std::size_t i = 0; i < lowered.steps.size(); ++i) {
      const analysis::ChainStep& step = lowered.steps[i];
      if (step.first_parent.empty()) continue;
      const auto& work = std::get<device::KernelNode>(lowered.spec.nodes[i].work);
      abi::BlockLinks links;
      std::memcpy(&links, work.parameters.data() + work.parameters.size() - sizeof links, sizeof links);
      auto* const lists = reinterpret_cast<abi::BlockParent*>(links.parents);  // addresses are the host's
      for (std::uint32_t b = 0; b + 1 < step.first_parent.size(); ++b)
        for (std::size_t k = 0; k < step.parents_of(b).size(); ++k)
          all.push_back({&lists[std::size_t{b} * links.stride + k], step.parents_of(b)[k]});
    }
    return all;
  }
  // To be run in one form one after the other, as its epochs grow.
  std::vector<EarlyOrder> orders(std::uint32_t room = ~std::uint32_t{0}) {
    return {{.room = room},
            {.preference = Preference::kRandom, .seed = random_(), .room = room},
            {.room = room, .is_weak = false},
            {.preference = Preference::kRandom, .seed = random_(), .room = room, .is_weak = false}};
  }
};

TEST_F(EarlyChains, HaveTheBitsOfTheStream) {
  const int chains = asked_chains(1000) / 5;
  const unsigned seed = start_random();
  std::size_t overlaps = 0, parents = 0, waits = 0, limits = 0, packed = 0;
  for (int chain = 0; chain < chains; ++chain) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", chain " + std::to_string(chain));
    std::vector<std::shared_ptr<BlockKernel>> kernels;
    const device::GraphSpec plain = random_chain(2 + below(7), kernels);
    const std::vector<std::uint32_t> right = in_stream_order(plain);
    const PackingOptions packing{
        .most_threads = 70, .block_threads = 40 + below(200), .fewest_blocks = 2, .least_resident = 0};
    BlockLoweringOptions options;
    options.chain.most_running = below(3) == 0 ? 1u << 20 : 2 + below(4);
    options.chain.by_block = below(4) != 0;
    if (below(2) == 0) options.packing = &packing;
    if (below(4) == 0) options.most_triggers = below(4);
    const auto lowered = lower_blocks(*device_, plain, kernels, allocations_, options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    const std::uint32_t room = below(3) == 0 ? 1 + below(8) : ~std::uint32_t{0};
    for (const EarlyOrder& order : orders(room)) {
      const EarlyRun run = this->run(lowered->spec, order);
      ASSERT_EQ(run.stuck, "");
      ASSERT_TRUE(has_bits(run, right)) << "order " << static_cast<int>(order.preference) << ", room " << room
                                        << ", weak " << order.is_weak;
      ASSERT_LE(run.most_running, options.chain.most_running);
      overlaps += static_cast<std::size_t>(std::ranges::count(run.overlaps, true));
    }
    packed += lowered->packed;
    for (const analysis::ChainStep& step : lowered->steps)
      parents += step.parents.size(), waits += step.waits_for_all, limits += step.limits;
  }
  if (chains < 100) return;
  const auto many = static_cast<std::size_t>(chains);
  EXPECT_GT(overlaps, many) << "or launches did not start early";
  EXPECT_GT(parents, many) << "or no block waited for another";
  EXPECT_GT(waits, many / 4) << "or no launch waited for all";
  EXPECT_GT(limits, many / 4) << "or nothing was limited";
  EXPECT_GT(packed, many / 40) << "or no blocks were packed";
}

// However long its blocks wait: a launch is on the device once every block of the one before has done one instruction.
TEST_F(EarlyChains, LetTheNextStart_InTheirFirstInstruction) {
  start_random();
  for (int chain = 0; chain < 50; ++chain) {
    std::vector<std::shared_ptr<BlockKernel>> kernels;
    const device::GraphSpec plain = random_chain(2 + below(7), kernels);
    BlockLoweringOptions options;
    options.chain.most_running = 1u << 20;
    options.chain.by_block = chain % 2 == 0;
    const auto lowered = lower_blocks(*device_, plain, kernels, allocations_, options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    const EarlyRun run = this->run(lowered->spec, {});
    ASSERT_EQ(run.stuck, "");
    for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
      EXPECT_EQ(run.before_trigger[i], 0u) << "launch " << i;
      EXPECT_TRUE(i == 0 || run.overlaps[i]) << "launch " << i;
    }
  }
}

// One parent of one block is taken out of the lists that the blocks read, and that one goes on as late as can be. It is
// not found where another parent holds the block back for as long, or nothing comes of it: a value that is overwritten
// before anyone reads it.
TEST_F(EarlyChains, AForgottenParent_IsFound) {
  const unsigned seed = start_random();
  int forgotten = 0, found = 0;
  while (forgotten < 100) {
    std::vector<std::shared_ptr<BlockKernel>> kernels;
    const device::GraphSpec plain = random_chain(2 + below(4), kernels);
    const std::vector<std::uint32_t> right = in_stream_order(plain);
    BlockLoweringOptions options;
    options.chain.most_running = 1u << 20;
    const auto lowered = lower_blocks(*device_, plain, kernels, allocations_, options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    const std::vector<InList> all = in_lists(*lowered);
    if (all.empty()) continue;
    const InList& parent = all[below(static_cast<std::uint32_t>(all.size()))];
    const std::uint32_t counter = std::exchange(parent.entry->counter, abi::kNoParent);
    ++forgotten;
    bool is_found = false;
    for (EarlyOrder order : orders()) {
      order.last = {parent.named.launch, parent.named.block};
      is_found |= !has_bits(run(lowered->spec, order), right);
    }
    found += is_found;
    parent.entry->counter = counter;
    EXPECT_TRUE(has_bits(run(lowered->spec, {}), right)) << "with it, seed " << seed;
  }
  std::printf("%d of %d forgotten parents are found\n", found, forgotten);
  EXPECT_GT(found, forgotten * 3 / 4) << "seed " << seed;
}

}  // namespace
}  // namespace pergola::runtime
