// Grids without the blocks that write nothing, and the kernels of which they may be left out. That results stay the
// same is tests/blocks.
#include "src/analysis/idle_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/analysis/footprints.h"
#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A kernel of (a, n): an array of 64 KiB and a number; %r5 and %r6 are the thread's x and y in the grid.
ptx::Module kernel_of(const std::string& body, const std::string& before = "") {
  auto parsed = ptx::parse(fmt::format(R"(.version 8.3
.target sm_90
.address_size 64
{}
.visible .entry k(.param .u64 a, .param .u32 n)
{{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ntid.y; mov.u32 %r4, %tid.y; mad.lo.s32 %r6, %r2, %r3, %r4;
{}
ret;
}}
)",
                                       before, body),
                           "k.ptx");
  EXPECT_TRUE(parsed.ok()) << parsed.message();
  return std::move(parsed).value();
}

std::array<std::uint32_t, 3> grid_of(const std::string& body, std::uint32_t n, std::array<std::uint32_t, 3> grid) {
  const ptx::Module module = kernel_of(body);
  const auto kernel = KernelFootprints::of(module, *module.find_function("k"));
  EXPECT_TRUE(kernel.ok()) << kernel.message();
  LaunchValues values;
  std::copy_n(grid.begin(), 3, values.grid);
  values.block[0] = values.block[1] = 8;
  values.block[2] = 1;
  values.parameters.resize(12);
  std::memcpy(values.parameters.data() + 8, &n, 4);
  values.pointers = {{0, 0, 0, 65536}};
  const auto footprint = kernel->at(values);
  EXPECT_TRUE(footprint.ok()) << footprint.message();
  return writing_grid(*footprint);
}

// a[64 * y + x] is set where x < n and y < n - 3.
const std::string kSquare = R"(
setp.ge.s32 %p1, %r5, %r1; @%p1 ret;
add.s32 %r7, %r1, -3; setp.ge.s32 %p1, %r6, %r7; @%p1 ret;
mad.lo.s32 %r8, %r6, 64, %r5; mul.wide.s32 %rd2, %r8, 4; add.s64 %rd3, %rd1, %rd2;
)";

TEST(IdleBlocks, BehindTheGuards_AreLeftOut) {
  const std::string writes = kSquare + "st.global.u32 [%rd3], %r5;";
  EXPECT_THAT(grid_of(writes, 64, {8, 8, 1}), ElementsAre(8, 8, 1));
  EXPECT_THAT(grid_of(writes, 33, {8, 8, 1}), ElementsAre(5, 4, 1));
  EXPECT_THAT(grid_of(writes, 32, {8, 8, 1}), ElementsAre(4, 4, 1));
  EXPECT_THAT(grid_of(writes, 4, {8, 8, 1}), ElementsAre(1, 1, 1));
  EXPECT_THAT(grid_of(writes, 3, {8, 8, 1}), ElementsAre(1, 1, 1)) << "none writes, and one stays";
  EXPECT_THAT(grid_of(writes, 64, {2, 3, 1}), ElementsAre(2, 3, 1)) << "never a larger one";
}

TEST(IdleBlocks, ThatOnlyRead_AreLeftOut) {
  EXPECT_THAT(
      grid_of(kSquare + "ld.global.u32 %r9, [%rd3]; setp.ge.s32 %p1, %r5, 9; @%p1 ret; st.global.u32 [%rd3], %r9;", 64,
              {8, 8, 1}),
      ElementsAre(2, 8, 1));
}

TEST(IdleBlocks, OfAtomics_AndOfWhatIsNotKnown_AllStay) {
  EXPECT_THAT(grid_of(kSquare + "red.global.add.u32 [%rd3], 1;", 16, {8, 8, 1}), ElementsAre(2, 2, 1));
  EXPECT_THAT(grid_of("ld.global.u32 %r9, [%rd1]; mul.wide.s32 %rd2, %r9, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 "
                      "[%rd3], %r9;",
                      16, {8, 8, 1}),
              ElementsAre(8, 8, 1));
  EXPECT_THAT(grid_of("ld.global.u64 %rd3, [%rd1]; st.global.u32 [%rd3], %r5;", 16, {8, 8, 1}), ElementsAre(8, 8, 1));
}

// Numbers that are not what they look like: each of these writes in every block.
TEST(IdleBlocks, WhatIsTakenForAnotherNumber_LeavesNoneOut) {
  const std::string store = "mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;\n";
  const std::string all_ones = std::to_string(~0u);
  const std::pair<const char*, std::string> cases[] = {
      {"a count of shifts beyond its register",  // n is 2^32 - 1, so that n + 1 is 0
       "add.u32 %r7, %r1, 1; add.u32 %r8, %r5, 1; shl.b32 %r8, %r8, %r7; setp.eq.u32 %p1, %r8, 0; @%p1 ret;\n"},
      {"a maximum that is not negative", "max.s32.relu %r7, -5, -7; setp.lt.s32 %p1, %r7, 0; @%p1 ret;\n"},
      {"two addresses of shared memory",
       ".shared .b8 sa[16]; .shared .b8 sb[16]; mov.u64 %rd10, sa; mov.u64 %rd11, sb; setp.eq.u64 %p1, %rd10, %rd11; "
       "@%p1 ret;\n"},
      {"the distance of two of them",
       ".shared .b8 sa[4096]; mov.u64 %rd10, sa; cvta.shared.u64 %rd11, %rd10; mul.wide.u32 %rd12, %r5, 4; "
       "add.s64 %rd13, %rd10, %rd12; cvta.shared.u64 %rd14, %rd13; sub.s64 %rd15, %rd14, %rd11; setp.eq.s64 %p1, "
       "%rd15, 0; "
       "@%p1 ret;\n"},
      {"two halves that are added",
       "mov.u32 %r7, 65528; add.u16x2 %r8, %r7, 8; setp.ge.u32 %p1, %r8, 65536; @%p1 ret;\n"},
      {"a conversion into a wider register",
       "mov.u64 %rd9, 4294967297; cvt.u32.u64 %rd10, %rd9; setp.gt.u64 %p1, %rd10, 5; @%p1 ret;\n"},
      {"one that extends first",
       ".reg .b16 %h1; mov.b16 %h1, 255; cvt.u32.s8 %rd10, %h1; setp.lt.s64 %p1, %rd10, 0; @%p1 ret;\n"},
      {"a parameter in a wider register", "ld.param.b32 %rd9, [n]; setp.lt.s64 %p1, %rd9, 0; @%p1 ret;\n"},
  };
  for (const auto& [what, before] : cases)
    EXPECT_THAT(grid_of(before + store, ~0u, {8, 8, 1}), ElementsAre(8, 8, 1)) << what;
}

std::string why_not(const std::string& body, const std::string& before = "") {
  const ptx::Module module = kernel_of(body, before);
  return may_leave_blocks_out(module, *module.find_function("k")).message();
}

TEST(IdleBlocks, OfKernelsThatDoMore_OrCountThem_AllStay) {
  EXPECT_EQ(why_not(kSquare + "st.global.u32 [%rd3], %r5; bar.sync 0;"), "");
  EXPECT_EQ(why_not("mov.u32 %r9, %laneid; mov.u64 %rd5, %clock64;"), "");
  EXPECT_THAT(why_not("mov.u32 %r9, %nctaid.x;"), HasSubstr("k.ptx:11: it can tell how many blocks there are"));
  EXPECT_THAT(why_not("mov.u64 %rd5, %gridid;"), HasSubstr("how many blocks"));
  EXPECT_THAT(why_not("mov.b64 %rd9, {%nctaid.x, %nctaid.y};"), HasSubstr("how many blocks"));
  EXPECT_THAT(why_not("call f;", ".func f() { .reg .b32 %r<2>; mov.u32 %r1, %nctaid.y; ret; }"),
              HasSubstr("k.ptx:4: it can tell how many blocks there are"));
  EXPECT_THAT(why_not("trap;"), HasSubstr("it may end the launch with an error"));
  EXPECT_THAT(why_not("call f;", ".extern .func f();"), HasSubstr("it calls 'f'"));
  EXPECT_THAT(why_not("griddepcontrol.launch_dependents;"), HasSubstr("when the next launch may start"));
  EXPECT_THAT(why_not("barrier.cluster.arrive; barrier.cluster.wait;"), HasSubstr("its blocks wait for each other"));
  EXPECT_THAT(why_not("call (), %rd1, ();"), HasSubstr("it calls what is not known"));
}

}  // namespace
}  // namespace pergola::analysis
