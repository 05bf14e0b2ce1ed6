// Random graphs of launches that conflict here and there, merged (runtime/merged_lowering): every conflict is still
// ordered, no edge is there for nothing, and bits are those of the launches one after the other.
//
// PERGOLA_CHAINS, PERGOLA_SEED and PERGOLA_CHAINS_DEVICE as for lowered_chains_test.cc, whose program this is part of.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "src/runtime/merged_early.h"
#include "src/runtime/merged_lowering.h"
#include "tests/blocks/random_graphs.h"

namespace pergola::runtime {
namespace {

// All number their threads as %e through the whole grid, in three dimensions, 64 to a block.
// blend: out[e] = out[e] * 3 + in[(e + s.a) % 64 ...] + where its block is, by a struct whose address is taken; threads
//        beyond n return at once.
// spin: a block's elements of x turned round by way of shared memory, so that its threads meet at a barrier.
constexpr std::string_view kGridsPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry blend(.param .u64 out, .param .align 8 .b8 s[16], .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
  mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
  mov.u32 %r7, %tid.x; mad.lo.u32 %r7, %r6, 64, %r7;
  ld.param.u32 %r8, [n]; setp.ge.u32 %p1, %r7, %r8;
  @%p1 ret;
  mov.b64 %rd1, s; ld.param.u64 %rd2, [%rd1]; ld.param.u32 %r9, [s+8]; add.u32 %r9, %r9, %r7; and.b32 %r9, %r9, 1023;
  mul.wide.u32 %rd3, %r9, 4; add.s64 %rd2, %rd2, %rd3; ld.global.nc.u32 %r10, [%rd2];
  ld.param.u64 %rd4, [out]; mul.wide.u32 %rd5, %r7, 4; add.s64 %rd4, %rd4, %rd5; ld.global.u32 %r11, [%rd4];
  mov.u32 %r12, %nctaid.z; mad.lo.u32 %r12, %r12, 100, %r3;
  mad.lo.u32 %r12, %r12, 100, %r2; mad.lo.u32 %r12, %r12, 100, %r1;
  mad.lo.u32 %r11, %r11, 3, %r10; add.u32 %r11, %r11, %r12; st.global.u32 [%rd4], %r11;
  exit;
}
.visible .entry spin(.param .u64 x, .param .u16 add) {
  .reg .b32 %r<12>; .reg .b16 %h<2>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[256];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
  mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
  mov.u32 %r7, %tid.x; mad.lo.u32 %r8, %r6, 64, %r7;
  ld.param.u64 %rd1, [x]; mul.wide.u32 %rd2, %r8, 4; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r9, [%rd1];
  ld.param.u16 %h1, [add]; cvt.u32.u16 %r10, %h1; add.u32 %r9, %r9, %r10;
  mov.u32 %r10, tile; shl.b32 %r11, %r7, 2; add.s32 %r11, %r11, %r10; st.shared.u32 [%r11], %r9;
  bar.sync 0;
  mov.u32 %r2, %ntid.x; sub.s32 %r2, %r2, %r7; add.s32 %r2, %r2, -1; shl.b32 %r2, %r2, 2; add.s32 %r2, %r2, %r10;
  ld.shared.u32 %r2, [%r2]; st.global.u32 [%rd1], %r2;
  ret;
}
)";

constexpr std::uint32_t kMostGridBlocks = 16, kGridElements = kMostGridBlocks * 64;
constexpr std::size_t kGridArrays = 6;

class MergedGraphs : public RandomGraphs {
 protected:
  void SetUp() override { open(kGridsPtx, "grids.ptx", {"blend", "spin"}, kGridArrays, kGridElements * 4); }

  // Of 16 blocks at most, mostly of a few kinds, so that there is something to merge.
  device::Dim3 grid() {
    switch (below(6)) {
      case 0: return {1 + below(kMostGridBlocks), 1, 1};
      case 1: return {7 + below(2), 1 + below(2), 1};
      case 2: return {2, 2, 1 + below(4)};
      case 3: return {2, 1 + below(2), 4};
      default: return {9, 1, 1};
    }
  }

  void add_node(device::GraphSpec& spec) {
    Uses uses{below(kGridArrays), below(kGridArrays)};
    device::GraphNode node;
    std::shared_ptr<BlockKernel> kernel;
    const std::uint32_t kind = below(16);
    if (kind == 0 && uses.writes != uses.reads) {
      node.work = device::CopyNode{arrays_[uses.writes], 0, arrays_[uses.reads], 4, 4 * (1 + below(kGridElements - 1))};
    } else if (kind == 1) {
      uses.reads = uses.writes;
      node.work =
          device::FillNode{arrays_[uses.writes], 0, 4 * (1 + std::size_t{below(kGridElements)}), below(1000), 4};
    } else {
      const bool spins = kind < 7;
      if (spins) uses.reads = uses.writes;
      if (below(8) != 0) kernel = kernels_[spins ? 1 : 0];  // or nobody knows it
      node.work = launch(spins, uses);
    }
    RandomGraphs::add_node(spec, std::move(node), std::move(kernel), uses);
  }

  device::KernelNode launch(bool spins, const Uses& uses) {
    device::KernelNode work;
    work.module = module_;
    work.kernel = module_->kernel(spins ? "spin" : "blend").value();
    work.config.grid = grid();
    work.config.block = {below(4) == 0 ? 33u : 64u, 1, 1};
    work.parameters.resize(work.kernel->signature().parameter_bytes);
    const auto put = [&](std::size_t offset, const auto& value) {
      std::memcpy(work.parameters.data() + offset, &value, sizeof value);
    };
    put(0, arrays_[uses.writes]->address());
    if (spins) {
      put(8, static_cast<std::uint16_t>(below(1000)));
    } else {
      put(8, arrays_[uses.reads]->address());
      put(16, uses.reads == uses.writes ? 0 : below(1000));  // a thread reads its own element alone where it writes
      put(24, 1 + below(kGridElements));
    }
    return work;
  }

  // That conflicts are ordered as in the plain graph, and no edge is implied by others. `place`: by node of the plain
  // one.
  void check_edges(const device::GraphSpec& merged, const std::vector<device::NodeId>& place) {
    const auto after = reached(merged);
    for (std::size_t i = 0; i < uses_.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (conflict(uses_[i], uses_[k])) {
          EXPECT_TRUE(after[place[i]][place[k]]) << k << " before " << i;
        }
    for (const device::GraphNode& node : merged.nodes)
      for (const device::NodeId a : node.after)
        for (const device::NodeId b : node.after) EXPECT_FALSE(after[a][b]) << "the edge from " << b << " is implied";
  }

  // The same started early: where all is in layers. Launches that come after nothing wait for nobody.
  void check_early(const device::GraphSpec& plain, const LoweredMerged& merged, const std::vector<std::uint32_t>& right,
                   std::size_t& early) {
    if (std::any_of(merged.groups.begin(), merged.groups.end(),
                    [](const MergedGroup& group) { return group.in_a_row; }))
      return;
    std::vector<BlockAllocation> allocations;
    for (const device::BufferPtr& array : arrays_) allocations.push_back({array->address(), array->size_bytes()});
    const auto lowered = start_early(plain, merged, known_, allocations, nullptr, below(2) == 0 ? 1024 : 4);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    early += lowered->early;
    EXPECT_EQ(run(lowered->spec), right) << "started early";
  }

  JoinedKernels joined_;
};

TEST_F(MergedGraphs, HaveTheBitsOfTheOrder) {
  const char* const asked = std::getenv("PERGOLA_CHAINS");
  const int graphs = asked == nullptr ? 1000 : std::atoi(asked);
  const char* const given = std::getenv("PERGOLA_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
  std::printf("seed %u\n", seed);
  random_.seed(seed);
  std::size_t merged = 0, deep = 0, unequal = 0, in_rows = 0, early = 0;
  for (int graph = 0; graph < graphs && !HasFailure(); ++graph) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", graph " + std::to_string(graph));
    device::GraphSpec plain;
    plain.buffers = arrays_;
    known_.clear();
    uses_.clear();
    for (std::uint32_t k = 2 + below(14); k != 0; --k) add_node(plain);
    MergedOptions options;
    options.different_kernels = below(2) != 0;
    options.joined = &joined_;
    options.most_kernels = 1 + below(3);
    if (below(4) == 0) options.most_parameter_bytes = 128 + below(512);
    const auto lowered = lower_merged(*device_, plain, known_, options);
    ASSERT_TRUE(lowered.ok()) << lowered.message();
    if (lowered->groups.empty()) {
      EXPECT_EQ(lowered->spec.nodes.size(), plain.nodes.size());
      continue;
    }
    check_edges(lowered->spec, lowered->places);
    const std::vector<std::uint32_t> right = run(plain);
    EXPECT_EQ(run(lowered->spec), right);
    check_early(plain, *lowered, right, early);
    for (const MergedGroup& group : lowered->groups) {
      merged += group.launches.size();
      const auto grid_of = [&](std::size_t n) {
        return std::get<device::KernelNode>(plain.nodes[group.launches[n]].work).config.grid;
      };
      deep += grid_of(0).z > 1;
      unequal += !(grid_of(0) == grid_of(1));
      in_rows += group.in_a_row;
    }
  }
  if (graphs < 100) return;
  EXPECT_GT(merged, static_cast<std::size_t>(graphs) / 2) << "or nothing was merged";
  EXPECT_GT(early, static_cast<std::size_t>(graphs) / 100) << "or nothing started early";
  EXPECT_GT(in_rows, static_cast<std::size_t>(graphs) / 100) << "or no kernels were joined";
  EXPECT_GT(deep, static_cast<std::size_t>(graphs) / 100) << "or no grid had layers";
  EXPECT_GT(unequal, static_cast<std::size_t>(graphs) / 100) << "or all grids were equal";
}

}  // namespace
}  // namespace pergola::runtime
