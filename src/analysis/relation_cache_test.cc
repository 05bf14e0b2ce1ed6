#include "src/analysis/relation_cache.h"

#include <gmock/gmock.h>

#include <thread>

#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

constexpr std::string_view kScalePtx = R"(.version 8.3
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 px, .param .u64 py) {
  .reg .b32 %r<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [py];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r5, [%rd4]; st.global.u32 [%rd5], %r5;
  ret;
}
)";

class RelationCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto parsed = ptx::parse(kScalePtx, "scale.ptx");
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    module = std::make_unique<ptx::Module>(std::move(*parsed));
    kernel = make_kernel();
  }
  std::shared_ptr<const KernelFootprints> make_kernel() const {
    return std::make_shared<const KernelFootprints>(
        std::move(KernelFootprints::of(*module, *module->find_function("scale"))).value());
  }
  static LaunchValues values(AllocationId from, AllocationId to, std::uint32_t blocks = 8) {
    LaunchValues made;
    made.grid[0] = blocks;
    made.block[0] = 32;
    made.parameters.resize(16);
    for (std::uint32_t i = 0; i < 2; ++i) made.pointers.push_back({8 * i, i == 0 ? from : to, 0, 8 * 32 * 4});
    return made;
  }

  std::unique_ptr<ptx::Module> module;
  std::shared_ptr<const KernelFootprints> kernel;
};

TEST_F(RelationCacheTest, TheSameLaunches_AreWorkedOutOnce) {
  RelationCache cache;
  const auto first = *cache.footprint(kernel, values(0, 1), true),
             second = *cache.footprint(kernel, values(1, 2), true);
  const auto relation = cache.relation(first, second, {});
  EXPECT_EQ(relation->pattern, BlockPattern::kOneToOne);
  EXPECT_EQ(cache.counters().hits, 0u);
  EXPECT_EQ(cache.counters().misses, 3u);
  EXPECT_EQ(*cache.footprint(kernel, values(0, 1), true), first);
  EXPECT_EQ(cache.relation(first, second, {}), relation);
  EXPECT_EQ(cache.counters().hits, 2u);
}

TEST_F(RelationCacheTest, WhateverDecides_IsAskedFor) {
  RelationCache cache;
  const auto first = *cache.footprint(kernel, values(0, 1), true),
             second = *cache.footprint(kernel, values(1, 2), true);
  EXPECT_NE(*cache.footprint(kernel, values(0, 2), true), first);     // another allocation
  EXPECT_NE(*cache.footprint(kernel, values(0, 1, 4), true), first);  // another grid
  EXPECT_NE(*cache.footprint(kernel, values(0, 1), false), first);    // without blocks
  LaunchValues moved = values(0, 1);
  moved.pointers[1].position = 64;
  const auto moved_footprint = *cache.footprint(kernel, moved, true);
  EXPECT_NE(moved_footprint, first);
  moved.parameters[0] = std::byte{1};
  EXPECT_NE(*cache.footprint(kernel, moved, true), moved_footprint);
  const auto relation = cache.relation(first, second, {});
  EXPECT_NE(cache.relation(second, first, {}), relation);
  EXPECT_NE(cache.relation(first, second, {.max_degree = 3}), relation);
  EXPECT_NE(cache.relation(first, second, {.raw_only = true}), relation);
  EXPECT_EQ(cache.counters().hits, 0u);
}

TEST_F(RelationCacheTest, AKernelAtTheSameAddress_IsAnother) {
  RelationCache cache;
  // Memory that outlives the kernels in it, which so lie at one address.
  std::optional<KernelFootprints> place;
  const auto emplace = [&](std::shared_ptr<void> life) {
    place.emplace(std::move(KernelFootprints::of(*module, *module->find_function("scale"))).value());
    return std::shared_ptr<const KernelFootprints>(std::move(life), &*place);
  };
  auto one = emplace(std::make_shared<int>(1));
  const auto footprint = *cache.footprint(one, values(0, 1), true);
  one.reset();
  const auto other = emplace(std::make_shared<int>(2));
  EXPECT_NE(*cache.footprint(other, values(0, 1), true), footprint);
}

TEST_F(RelationCacheTest, MoreThanFits_TheOldestGo) {
  RelationCache cache(20'000);
  std::vector<RelationCache::FootprintPtr> made;
  for (std::uint32_t i = 0; i < 40; ++i) made.push_back(*cache.footprint(kernel, values(0, i + 1), true));
  EXPECT_LE(cache.counters().bytes, 20'000u);
  EXPECT_EQ(*cache.footprint(kernel, values(0, 40), true), made.back());
  EXPECT_NE(*cache.footprint(kernel, values(0, 1), true), made.front());
  RelationCache none(1);
  EXPECT_TRUE(none.footprint(kernel, values(0, 1), true).ok());
  EXPECT_EQ(none.counters().bytes, 0u);
}

TEST_F(RelationCacheTest, AnError_IsToldAndNotKept) {
  RelationCache cache;
  LaunchValues wrong = values(0, 1);
  wrong.parameters.resize(3);
  EXPECT_EQ(cache.footprint(kernel, wrong, true).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache.footprint(kernel, wrong, true).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache.counters().bytes, 0u);
}

TEST_F(RelationCacheTest, FromSeveralThreads_AllGetTheSameAnswers) {
  RelationCache cache(8'000);  // so that things go all the time
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 200; ++i) {
        const std::uint32_t blocks = 2 + (i * 7 + static_cast<std::uint32_t>(t)) % 9;
        const auto first = *cache.footprint(kernel, values(0, 1, blocks), true);
        const auto second = *cache.footprint(kernel, values(1, 2, blocks), true);
        const auto relation = cache.relation(first, second, {});
        if (relation->pattern != BlockPattern::kOneToOne || relation->children != blocks) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace pergola::analysis
