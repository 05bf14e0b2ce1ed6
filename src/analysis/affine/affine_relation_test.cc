// Affine sets of launches whose relations are known by hand, and what bounds them. tests/footprints holds them against
// what kernels really access.
#include "src/analysis/affine/affine_relation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

// write: a[i] of 4 bytes a thread. choose: half of a block's threads read the block's own 32 elements, half those of
// the block that mirrors it. triangle: block b reads rows 0 to b of 128 bytes.
constexpr std::string_view kPtx = R"(.version 8.3
.target sm_80
.address_size 64
.visible .entry write(.param .u64 a) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [a]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 32, %r2;
  mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3; ret;
}
.visible .entry choose(.param .u64 a, .param .u64 b) {
  .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd5, [b]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r9, %nctaid.x;
  sub.s32 %r4, %r9, %r1; add.s32 %r4, %r4, -1; setp.lt.s32 %p1, %r2, 16; selp.b32 %r5, %r1, %r4, %p1;
  mad.lo.s32 %r3, %r5, 32, %r2; mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3];
  mad.lo.s32 %r7, %r1, 32, %r2; mul.wide.s32 %rd6, %r7, 4; add.s64 %rd7, %rd5, %rd6; st.global.u32 [%rd7], %r6; ret;
}
)";

class AffineRelations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_affine_sets()) GTEST_SKIP() << "this build has no libisl";
    auto parsed = ptx::parse(kPtx, "affine.ptx");
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    module_ = std::move(*parsed);
    for (const char* name : {"write", "choose"}) {
      auto kernel = KernelFootprints::of(module_, *module_.find_function(name));
      ASSERT_TRUE(kernel.ok()) << kernel.message();
      kernels_.push_back(std::move(*kernel));
    }
    writes_ = values(1);
    chooses_ = values(2);
  }
  static LaunchValues values(std::uint32_t arrays) {
    LaunchValues made;
    made.grid[0] = 64;
    made.block[0] = 32;
    made.parameters.resize(std::size_t{8} * arrays);
    for (std::uint32_t i = 0; i < arrays; ++i) made.pointers.push_back({8 * i, i, 0, 64 * 32 * 4});
    return made;
  }

  ptx::Module module_;
  std::vector<KernelFootprints> kernels_;
  LaunchValues writes_, chooses_;
};

TEST_F(AffineRelations, Choices_AreKeptApart) {
  const auto related = affine_dependencies({&kernels_[0], &writes_}, {&kernels_[1], &chooses_});
  ASSERT_TRUE(related.ok()) << related.message();
  EXPECT_EQ(related->reason, "");
  EXPECT_EQ(related->relation.pattern, BlockPattern::kGroups);  // a block and its mirror wait for both
  EXPECT_EQ(related->relation.max_degree, 2u);
  const BlockView parents = related->relation.parents_of(5);
  EXPECT_THAT(std::vector<std::uint32_t>(parents.begin(), parents.end()), testing::ElementsAre(5, 58));
  // The closed form joins them to all blocks from the one to the other.
  const auto before = kernels_[0].at(writes_), after = kernels_[1].at(chooses_);
  EXPECT_GT(block_dependencies(*before, *after).max_degree, 32u);
}

TEST_F(AffineRelations, TooFewOperations_GiveTheClosedForm) {
  const auto related = affine_dependencies({&kernels_[0], &writes_}, {&kernels_[1], &chooses_}, {}, {.operations = 20});
  ASSERT_TRUE(related.ok()) << related.message();
  EXPECT_THAT(related->reason, testing::HasSubstr("more than 20 operations"));
  const auto before = kernels_[0].at(writes_), after = kernels_[1].at(chooses_);
  EXPECT_EQ(related->relation.edges, block_dependencies(*before, *after).edges);
  // The thread's next question is its own.
  EXPECT_EQ(affine_dependencies({&kernels_[0], &writes_}, {&kernels_[1], &chooses_})->reason, "");
}

TEST_F(AffineRelations, TooManyPairs_GiveTheClosedForm) {
  const auto related = affine_dependencies({&kernels_[0], &writes_}, {&kernels_[1], &chooses_}, {}, {.pairs = 30});
  ASSERT_TRUE(related.ok()) << related.message();
  EXPECT_EQ(related->reason, "there are more than 30 pairs of blocks");
}

TEST_F(AffineRelations, Bytes_AreThoseOfTheBlock) {
  const AffineLaunch launch{&kernels_[1], &chooses_};
  const auto excluded = [&](const AffineByte& byte) { return find_excluded(launch, {&byte, 1}).has_value(); };
  EXPECT_FALSE(excluded({.block = 5, .allocation = 0, .byte = 5 * 128 + 60}));
  EXPECT_FALSE(excluded({.block = 5, .allocation = 0, .byte = 58 * 128 + 64}));
  EXPECT_TRUE(excluded({.block = 5, .allocation = 0, .byte = 30 * 128}));
  EXPECT_TRUE(excluded({.block = 5, .allocation = 0, .byte = 5 * 128, .is_write = true}));
  EXPECT_FALSE(excluded({.block = 5, .allocation = 1, .byte = 5 * 128, .is_write = true}));
}

TEST_F(AffineRelations, EachThread_HasAContextOfItsOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const std::uint64_t operations = (i + t) % 2 == 0 ? 20 : 20'000'000;
        const auto related =
            affine_dependencies({&kernels_[0], &writes_}, {&kernels_[1], &chooses_}, {}, {.operations = operations});
        right += related.ok() && related->reason.empty() == (operations > 20);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
}

}  // namespace
}  // namespace pergola::analysis
