// Random graphs of launches whose blocks follow those of others, stacked (runtime/stacked_lowering): bits are those of
// the launches one after the other, and conflicts between nodes are still ordered.
//
// PERGOLA_CHAINS, PERGOLA_SEED and PERGOLA_CHAINS_DEVICE as for lowered_chains_test.cc, whose program this is part of.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "src/device/graph_order.h"
#include "src/ptx/printer.h"
#include "src/runtime/constant_nodes.h"
#include "src/runtime/stacked_lowering.h"
#include "src/transform/merged_launches.h"
#include "src/transform/stacked_kernels.h"
#include "tests/blocks/random_graphs.h"
#include "tests/support/sanitized.h"

namespace pergola::runtime {
namespace {

// Blocks of %ntid.x threads, numbered as %e along the grid.
// blend: out[e] = out[e] * 3 + in[e + a]; threads beyond n return at once.
// spin: a block's elements of x turned round by way of shared memory, so that its threads meet at a barrier.
// early: the same, but threads beyond n return first, so that nothing can come after it in a block.
// rows: out[e] = the sum of the block's elements of in, which each thread adds up for itself.
constexpr std::string_view kStackPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry blend(.param .u64 out, .param .u64 in, .param .u32 a, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n]; setp.ge.u32 %p1, %r4, %r5;
  @%p1 ret;
  ld.param.u32 %r6, [a]; add.u32 %r6, %r6, %r4; mul.wide.u32 %rd1, %r6, 4; ld.param.u64 %rd2, [in];
  add.s64 %rd2, %rd2, %rd1; ld.global.nc.u32 %r7, [%rd2];
  mul.wide.u32 %rd3, %r4, 4; ld.param.u64 %rd4, [out]; add.s64 %rd4, %rd4, %rd3; ld.global.u32 %r8, [%rd4];
  mad.lo.u32 %r8, %r8, 3, %r7; st.global.u32 [%rd4], %r8;
  exit;
}
.visible .entry spin(.param .u64 x, .param .u32 add) {
  .reg .b32 %r<12>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[256];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u64 %rd1, [x]; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r5, [%rd1];
  ld.param.u32 %r6, [add]; add.u32 %r5, %r5, %r6;
  mov.u32 %r7, tile; shl.b32 %r8, %r3, 2; add.s32 %r8, %r8, %r7; st.shared.u32 [%r8], %r5;
  bar.sync 0;
  sub.s32 %r9, %r2, %r3; add.s32 %r9, %r9, -1; shl.b32 %r9, %r9, 2; add.s32 %r9, %r9, %r7;
  ld.shared.u32 %r9, [%r9]; st.global.u32 [%rd1], %r9;
  ret;
}
.visible .entry early(.param .u64 x, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[256];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n]; setp.ge.u32 %p1, %r4, %r5;
  @%p1 ret;
  ld.param.u64 %rd1, [x]; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r5, [%rd1];
  mov.u32 %r7, tile; shl.b32 %r8, %r3, 2; add.s32 %r8, %r8, %r7; st.shared.u32 [%r8], %r5;
  bar.sync 0;
  ld.shared.u32 %r9, [%r8]; add.u32 %r9, %r9, 1; st.global.u32 [%rd1], %r9;
  ret;
}
.visible .entry rows(.param .u64 out, .param .u64 in) {
  .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mul.lo.u32 %r4, %r1, %r2;
  ld.param.u64 %rd1, [in]; mov.u32 %r5, 0; mov.u32 %r6, 0;
AGAIN:
  add.u32 %r7, %r4, %r6; mul.wide.u32 %rd2, %r7, 4; add.s64 %rd3, %rd1, %rd2; ld.global.nc.u32 %r8, [%rd3];
  add.u32 %r5, %r5, %r8; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r2; @%p1 bra AGAIN;
  add.u32 %r7, %r4, %r3; mul.wide.u32 %rd2, %r7, 4; ld.param.u64 %rd4, [out]; add.s64 %rd4, %rd4, %rd2;
  st.global.u32 [%rd4], %r5;
  ret;
}
)";

constexpr std::uint32_t kStackBlocks = 12, kStackThreads = 64, kStackElements = kStackBlocks * kStackThreads;
constexpr std::size_t kStackArrays = 6;

class StackedGraphs : public RandomGraphs {
 protected:
  void SetUp() override {
    open(kStackPtx, "stack.ptx", {"blend", "spin", "early", "rows"}, kStackArrays, kStackElements * 8);
    for (const device::BufferPtr& array : arrays_) allocations_.push_back({array->address(), array->size_bytes()});
  }

  device::KernelNode launch(std::size_t kernel, const Uses& uses, std::uint32_t blocks, std::uint32_t shift,
                            std::uint32_t n) {
    constexpr const char* kNames[] = {"blend", "spin", "early", "rows"};
    device::KernelNode work;
    work.module = module_;
    work.kernel = module_->kernel(kNames[kernel]).value();
    work.config.grid = {blocks, 1, 1};
    work.config.block = {kStackThreads, 1, 1};
    work.parameters.resize(work.kernel->signature().parameter_bytes);
    const auto put = [&](std::size_t offset, const auto& value) {
      std::memcpy(work.parameters.data() + offset, &value, sizeof value);
    };
    put(0, arrays_[uses.writes]->address());
    if (kernel == 0) {
      put(8, arrays_[uses.reads]->address());
      put(16, shift);
      put(20, n);
    } else if (kernel == 3) {
      put(8, arrays_[uses.reads]->address());
    } else {
      put(8, n);
    }
    return work;
  }

  void add_node(device::GraphSpec& spec) {
    Uses uses{below(kStackArrays), below(kStackArrays)};
    const std::uint32_t drawn = below(10);
    const std::size_t kernel = drawn < 4 ? 0 : drawn < 7 ? 1 : drawn == 7 ? 2 : 3;
    if (kernel == 1 || kernel == 2) uses.reads = uses.writes;
    if (uses.reads == uses.writes && (kernel == 0 || kernel == 3)) uses.reads = (uses.writes + 1) % kStackArrays;
    const std::uint32_t shift = below(4) != 0 ? 0 : 1 + below(kStackThreads + 3);
    device::GraphNode node;
    node.work = launch(kernel, uses, below(6) == 0 ? kStackBlocks / 2 : kStackBlocks, shift, 1 + below(kStackElements));
    RandomGraphs::add_node(spec, std::move(node), below(10) == 0 ? nullptr : kernels_[kernel], uses);
  }

  std::size_t constants_ = 0;  // launches that had some
  // Stacks of kernels that have their numbers as constants, of several sets of them: the same stacks, the same bits.
  void expect_same_with_constants(const device::GraphSpec& plain, const StackedOptions& options) {
    const auto usual = lower_stacked(*device_, plain, known_, allocations_, options);
    const ConstantNodes constants = make_constant(plain, known_);
    constants_ += constants.launches;
    const auto lowered = lower_stacked(*device_, constants.spec, constants.kernels, allocations_, options);
    ASSERT_TRUE(usual.ok() && lowered.ok()) << lowered.message();
    EXPECT_EQ(lowered->members, usual->members);
    EXPECT_EQ(run(lowered->spec), run(plain));
  }
  // That conflicts between nodes are ordered as in the plain graph, and inside of a node by the order of its members.
  void check_edges(const LoweredStacked& lowered) {
    std::vector<std::size_t> place(uses_.size()), within(uses_.size());
    for (std::size_t i = 0; i < lowered.spec.nodes.size(); ++i) {
      for (std::size_t k = 0; k < lowered.members[i].size(); ++k)
        place[lowered.members[i][k]] = i, within[lowered.members[i][k]] = k;
      for (const device::NodeId earlier : lowered.spec.nodes[i].after) ASSERT_LT(earlier, i);
    }
    const auto after = reached(lowered.spec);
    for (std::size_t i = 0; i < uses_.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (conflict(uses_[i], uses_[k])) {
          EXPECT_TRUE(place[i] == place[k] ? within[k] < within[i] : after[place[i]][place[k]]) << k << " before " << i;
        }
  }

  std::vector<BlockAllocation> allocations_;
  StackedKernels stacked_;
  analysis::RelationCache cache_;
};

TEST_F(StackedGraphs, HaveTheBitsOfTheOrder) {
  const char* const asked = std::getenv("PERGOLA_CHAINS");
  const int graphs = asked == nullptr ? 300 : std::atoi(asked);
  const char* const given = std::getenv("PERGOLA_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
  std::printf("seed %u\n", seed);
  random_.seed(seed);
  std::size_t stacks = 0, tall = 0, with_barrier = 0;
  for (int graph = 0; graph < graphs && !HasFailure(); ++graph) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", graph " + std::to_string(graph));
    device::GraphSpec plain;
    plain.buffers = arrays_;
    known_.clear();
    uses_.clear();
    for (std::uint32_t k = 2 + below(10); k != 0; --k) add_node(plain);
    StackedOptions options{.stacked = &stacked_, .cache = &cache_};
    if (below(4) == 0) options.most_launches = 2;
    if (below(2) == 0)
      for (std::size_t i = 0; i < plain.nodes.size(); ++i) options.expected_ns.push_back(1 + below(20));
    if (below(2) == 0) options.order = device::longest_first(plain, options.expected_ns);
    options.waits_for_nothing_else = below(3) == 0;
    const auto lowered = lower_stacked(*device_, plain, known_, allocations_, options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    check_edges(*lowered);
    if (lowered->stacks == 0) continue;
    EXPECT_EQ(run(lowered->spec), run(plain));
    if (below(test_support::kSanitized ? 10 : 6) == 0) expect_same_with_constants(plain, options);
    stacks += lowered->stacks;
    for (const std::vector<device::NodeId>& members : lowered->members) {
      EXPECT_LE(members.size(), options.most_launches);
      tall += members.size() > 2;
      for (std::size_t k = 0; k + 1 < members.size(); ++k) {
        EXPECT_NE(known_[members[k]], kernels_[2]) << "threads that have returned would be waited for";
        with_barrier += known_[members[k]] == kernels_[1];
      }
    }
  }
  if (graphs < 100) return;
  EXPECT_GT(constants_, static_cast<std::size_t>(graphs) / 100) << "or no launch had constants";
  EXPECT_GT(stacks, static_cast<std::size_t>(graphs) / 3) << "or nothing was stacked";
  EXPECT_GT(tall, static_cast<std::size_t>(graphs) / 20) << "or never more than two";
  EXPECT_GT(with_barrier, static_cast<std::size_t>(graphs) / 20) << "or no kernel with a barrier";
}

// A block that needs its neighbour's: stacked in spite of it the bits must differ, or the test above shows nothing.
TEST_F(StackedGraphs, WhatNeedsANeighbour_IsNotStacked_AndWouldBeWrong) {
  device::GraphSpec plain;
  plain.buffers = arrays_;
  plain.nodes.push_back({launch(3, {1, 0}, kStackBlocks, 0, 0), {}, std::nullopt});
  plain.nodes.push_back(
      {launch(0, {2, 1}, kStackBlocks, kStackThreads, kStackElements - kStackThreads), {0}, std::nullopt});
  known_ = {kernels_[3], kernels_[0]};
  const auto lowered = lower_stacked(*device_, plain, known_, allocations_);
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  EXPECT_EQ(lowered->stacks, 0u);
  if (device_->info().kind != device::DeviceKind::kCpu) return;

  const auto first = kernels_[3]->merged_module({.launches = 1}), second = kernels_[0]->merged_module({.launches = 1});
  ASSERT_TRUE(first.ok() && second.ok());
  const transform::StackedPart parts[] = {{first->get(), "rows_merged"}, {second->get(), "blend_merged"}};
  const auto module = transform::stack_kernels(parts, {kStackThreads, 1, 1});
  ASSERT_TRUE(module.ok()) << module.message();
  device::KernelNode work;
  work.module = device_->load({&*module, ptx::print(*module), "wrong.ptx"}).value();
  work.kernel = work.module->kernel(transform::kStackedKernel).value();
  work.config = std::get<device::KernelNode>(plain.nodes[0].work).config;
  for (const device::GraphNode& node : plain.nodes) {
    const auto& own = std::get<device::KernelNode>(node.work).parameters;
    work.parameters.insert(work.parameters.end(), own.begin(), own.end());
  }
  work.parameters.resize(work.kernel->signature().parameter_bytes);
  device::GraphSpec wrong;
  wrong.buffers = arrays_;
  wrong.nodes.push_back({std::move(work), {}, std::nullopt});
  EXPECT_NE(run(wrong), run(plain));
}

}  // namespace
}  // namespace pergola::runtime
