// Random chains of launches whose blocks wait for blocks (runtime/block_lowering): all launches at once, the last
// first, and as a graph run again and again; bits are those of the launches one after the other.
//
// PERGOLA_CHAINS: how many (600). Prints its seed; PERGOLA_SEED takes one. PERGOLA_CHAINS_DEVICE: another device than
// the CPU's, where launches start in order as a graph alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/runtime/fused_lowering.h"
#include "src/runtime/trimmed_grids.h"
#include "tests/blocks/lowered_chains.h"

namespace pergola::runtime {
namespace {

TEST_F(LoweredChains, HaveTheBitsOfTheStream) {
  const int chains = asked_chains(600);
  const unsigned seed = start_random();
  std::size_t by_block = 0, in_fused = 0, barriers = 0, in_columns = 0, left_out = 0, in_packed = 0, packed_early = 0;
  std::size_t without_memory = 0;
  for (int chain = 0; chain < chains; ++chain) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", chain " + std::to_string(chain));
    std::vector<std::shared_ptr<BlockKernel>> kernels;
    device::GraphSpec plain = random_chain(2 + below(7), kernels);
    const std::vector<std::uint32_t> right = in_stream_order(plain);

    // And what follows, of the smaller grids by turns.
    const TrimmedGrids trimmed = trim_grids(plain, kernels, allocations_);
    left_out += trimmed.before - trimmed.after;
    if (trimmed.launches != 0) expect_as_graph(trimmed.spec, right, "trimmed");
    if (HasFatalFailure()) return;
    if (chain % 2 == 0) plain = trimmed.spec;

    PackingOptions packing{
        .most_threads = 70, .block_threads = 40 + below(200), .fewest_blocks = 2, .least_resident = 0};
    const PackedNodes packed = pack_nodes(*device_, plain, kernels, packing);
    in_packed += packed.launches;
    if (packed.launches != 0) expect_as_graph(packed.spec, right, "packed");
    if (HasFatalFailure()) return;

    BlockLoweringOptions options;
    options.chain.most_running = 1u << 20;  // nothing has ended by itself
    const auto lowered = lower_blocks(*device_, plain, kernels, allocations_, options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    for (const analysis::ChainStep& step : lowered->steps) by_block += step.parents.size();
    if (device_->info().kind == device::DeviceKind::kCpu) expect_at_once(*lowered, right);
    if (HasFatalFailure()) return;

    options.chain.most_running = 2 + below(4);
    options.chain.by_block = below(4) != 0;
    if (below(2) == 0) options.packing = &packing;
    if (below(4) == 0) options.most_triggers = below(4);
    const auto again = lower_blocks(*device_, plain, kernels, allocations_, options);
    ASSERT_TRUE(again.ok()) << again.message();
    for (const analysis::ChainStep& step : again->steps) by_block += step.parents.size();
    packed_early += again->packed;
    const bool signals = std::ranges::any_of(again->steps, &analysis::ChainStep::signals);
    without_memory += signals ? 0 : 1;
    ASSERT_EQ(again->memory_bytes != 0, signals);
    ASSERT_EQ(again->spec.buffers.size(), plain.buffers.size() + (signals ? 1 : 0));
    expect_as_graph(again->spec, right, "as a graph");
    if (HasFatalFailure()) return;

    FusedOptions fused_options;
    fused_options.blocks = std::max(1u, std::min(device_->info().max_cluster_blocks, 1u << below(4)));
    fused_options.most_warps = 3 + below(30);
    fused_options.shortest = 1;
    const auto fused = lower_fused(*device_, plain, kernels, allocations_, fused_options);
    ASSERT_TRUE(fused.ok()) << fused.message();
    for (const FusedSegment& segment : fused->segments) in_fused += segment.count, barriers += segment.barriers;
    expect_as_graph(fused->spec, right, "fused");
    if (HasFatalFailure()) return;

    FusedOptions column_options;
    column_options.columns = true;
    column_options.shortest = 2;
    const auto columns = lower_fused(*device_, plain, kernels, allocations_, column_options);
    ASSERT_TRUE(columns.ok()) << columns.message();
    for (const FusedSegment& segment : columns->segments) in_columns += segment.count;
    expect_as_graph(columns->spec, right, "in columns");
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(in_fused, static_cast<std::size_t>(chains)) << "or nothing was fused";
  EXPECT_GT(in_packed, static_cast<std::size_t>(chains) / 4) << "or no blocks were packed";
  EXPECT_GT(packed_early, static_cast<std::size_t>(chains) / 40) << "or none that start early";
  EXPECT_GT(without_memory, static_cast<std::size_t>(chains) / 10) << "or all had memory of their own";
  EXPECT_GT(left_out, static_cast<std::size_t>(chains)) << "or no blocks were left out";
  EXPECT_GT(in_columns, static_cast<std::size_t>(chains) / 4) << "or there were no columns";
  EXPECT_GT(in_fused, barriers + static_cast<std::size_t>(chains)) << "or no launch was found to need no barrier";
  EXPECT_GT(by_block, static_cast<std::size_t>(chains)) << "or nothing was tested";
}

}  // namespace
}  // namespace pergola::runtime
