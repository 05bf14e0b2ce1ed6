// Footprints of small kernels whose bytes are known by hand. tests/footprints has the soundness of it all.
#include "src/analysis/footprints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

constexpr std::uint32_t kNoAccess = AccessFootprint::kNoShape;

// A kernel of (a, b, n): two arrays of 64 KiB and a number.
class Footprint : public ::testing::Test {
 protected:
  LaunchFootprint of(const std::string& body, std::uint32_t n = 1000, std::array<std::uint32_t, 3> grid = {4, 1, 1},
                     std::array<std::uint32_t, 3> block = {256, 1, 1}, const std::string& before = "") {
    auto parsed =
        ptx::parse(fmt::format(".version 8.3\n.target sm_90\n.address_size 64\n{}\n.visible .entry k(.param .u64 a, "
                               ".param .u64 b, .param .u32 n)\n"
                               "{{\n.reg .pred %p<8>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<40>;\n"
                               "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u32 %r1, [n];\n"
                               "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, "
                               "%r2, %r3, %r4;\n{}\nret;\n}}\n",
                               before, body));
    EXPECT_TRUE(parsed.ok()) << parsed.message();
    if (!parsed.ok()) return {};
    module_ = std::move(parsed).value();
    const auto kernel = KernelFootprints::of(module_, *module_.find_function("k"));
    EXPECT_TRUE(kernel.ok()) << kernel.message();
    if (!kernel.ok()) return {};
    LaunchValues values;
    std::copy_n(grid.begin(), 3, values.grid);
    std::copy_n(block.begin(), 3, values.block);
    values.parameters.resize(20);
    std::memcpy(values.parameters.data() + 16, &n, 4);
    values.pointers = {{0, 0, 0, 65536}, {8, 1, 0, 65536}};
    const auto footprint = kernel->at(values);
    EXPECT_TRUE(footprint.ok()) << footprint.message();
    return footprint.ok() ? *footprint : LaunchFootprint{};
  }

  // "first width countxstride ..." of a block; "none" where it makes no such access.
  static std::string bytes(const AccessFootprint& access, std::uint32_t block) {
    const auto place = access.places[block];
    if (place.shape == kNoAccess) return "none";
    std::string text = fmt::format("{} {}", place.first, access.shapes[place.shape].width);
    for (const auto& dimension : access.shapes[place.shape].dimensions) {
      text += fmt::format(" {}x{}", dimension.count, dimension.stride);
    }
    return text;
  }

  ptx::Module module_;
};

TEST_F(Footprint, GuardedElementAThread_IsCutInTheLastBlock) {
  const auto f =
      of("setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra END;\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
         "ld.global.f32 %r6, [%rd4];\nadd.s64 %rd5, %rd2, %rd3;\nst.global.f32 [%rd5], %r6;\nEND:",
         900);
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_TRUE(f.accesses[0].reads && !f.accesses[0].writes && f.accesses[0].allocation == 0);
  EXPECT_TRUE(!f.accesses[1].reads && f.accesses[1].writes && f.accesses[1].allocation == 1);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 1024");
  EXPECT_EQ(bytes(f.accesses[1], 2), "2048 1024");
  EXPECT_EQ(bytes(f.accesses[1], 3), "3072 528");  // 900 - 768 elements
}

TEST_F(Footprint, ThreadsThatHaveReturned_MakeNoAccess) {
  for (const std::string end : {"@%p1 ret;", "@%p1 exit;", "@!%p2 ret;", "@%p1 trap;"}) {
    const auto f = of("setp.ge.s32 %p1, %r5, %r1;\nsetp.lt.s32 %p2, %r5, %r1;\n" + end +
                          "\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 1;",
                      300);
    ASSERT_EQ(f.accesses.size(), 1u) << end;
    EXPECT_EQ(bytes(f.accesses[0], 0), "0 1024") << end;
    EXPECT_EQ(bytes(f.accesses[0], 1), "1024 176") << end;
    EXPECT_EQ(bytes(f.accesses[0], 2), "none") << end;
  }
  const auto wrong_way =
      of("setp.ge.s32 %p1, %r5, %r1;\n@!%p1 ret;\nmul.wide.s32 %rd3, %r5, 4;\n"
         "add.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 1;",
         300);
  EXPECT_EQ(bytes(wrong_way.accesses[0], 0), "none");
  EXPECT_EQ(bytes(wrong_way.accesses[0], 1), "1200 848");
}

// Which of them the name is is not looked for.
// Compilers load an `int` by .u32.
TEST_F(Footprint, ANegativeNumber_GoesBackwards) {  // a[2000 + i * n]
  const std::string store =
      "mad.lo.s32 %r7, %r5, %r1, 2000;\nmul.wide.s32 %rd3, %r7, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
      "st.global.u32 [%rd4], 1;";
  const auto f = of(store, ~0u);
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(f.accesses[0].whole_reason, "");
  EXPECT_EQ(bytes(f.accesses[0], 0), "6980 1024");  // 4 * (2000 - 255)
  EXPECT_EQ(bytes(f.accesses[0], 3), "3908 1024");
  EXPECT_EQ(bytes(of(store, ~0u - 1).accesses[0], 1), "3912 4 256x8");  // 4 * (2000 - 2 * 511)
}

TEST_F(Footprint, ALargeNumber_IsNoNegativeOneWhereItCountsAsUnsigned) {  // i < n, i * 4 + (n as 64 bits) * 0
  const std::string guarded =
      "setp.ge.u32 %p1, %r5, %r1;\n@%p1 bra END;\nmul.wide.s32 %rd3, %r5, 4;\n"
      "add.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 1;\nEND:";
  const auto all = of(guarded, ~0u);
  ASSERT_EQ(all.accesses.size(), 1u);
  EXPECT_EQ(bytes(all.accesses[0], 0), "0 1024");
  EXPECT_EQ(bytes(all.accesses[0], 3), "3072 1024");
  // As a signed one it is less than every index.
  const auto none = of("setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra END;\nst.global.u32 [%rd1], 1;\nEND:", ~0u);
  EXPECT_TRUE(none.accesses.empty() || bytes(none.accesses[0], 0) == "none");
  // 2^32 - 16 bytes from its base: behind the array, so that nothing is in it, but not 16 before it.
  const auto wide = of("cvt.u64.u32 %rd3, %r1;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4+32], 1;", ~0u - 15);
  EXPECT_TRUE(wide.accesses.empty() || bytes(wide.accesses[0], 0) == "none" || !wide.accesses[0].whole_reason.empty())
      << bytes(wide.accesses[0], 0);
}

TEST_F(Footprint, ANameOfSeveralVariables_IsNone) {
  const auto f = of("mov.u64 %rd9, g;\nst.u32 [%rd9], 1;\n{ .shared .b8 g[16]; }", 1000, {4, 1, 1}, {256, 1, 1},
                    ".global .align 4 .b8 g[16];");
  EXPECT_TRUE(f.writes_anything);
}

TEST_F(Footprint, BlocksBehindTheEnd_MakeNoAccess) {
  const auto f =
      of("setp.lt.u32 %p1, %r5, %r1;\nmul.wide.u32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
         "@%p1 st.global.u32 [%rd4], 1;",
         300);
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "1024 176");
  EXPECT_EQ(bytes(f.accesses[0], 2), "none");
}

TEST_F(Footprint, RowsOfATile_AreStrided) {  // tid & 15 and tid >> 4, rows of 512 bytes
  const auto f =
      of("and.b32 %r6, %r4, 15;\nshr.u32 %r7, %r4, 4;\nshl.b32 %r8, %r2, 4;\nadd.s32 %r9, %r8, %r6;\n"
         "mad.lo.s32 %r10, %r7, 128, %r9;\nmul.wide.s32 %rd3, %r10, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
         "st.global.u32 [%rd4], %r6;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 64 16x512");
  EXPECT_EQ(bytes(f.accesses[0], 3), "192 64 16x512");
}

TEST_F(Footprint, PointerThatALoopMovesOn_CoversItsColumn) {  // n times, 4 at once, `n - 4, until 0`
  const auto f =
      of("mul.wide.u32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nmov.u32 %r6, %r1;\n"
         "L:\nld.global.u32 %r7, [%rd4];\nld.global.u32 %r8, [%rd4+4096];\nadd.s64 %rd4, %rd4, 8192;\n"
         "add.s32 %r6, %r6, -2;\nsetp.ne.s32 %p1, %r6, 0;\n@%p1 bra L;",
         12);
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "1024 1024 12x4096");
}

TEST_F(Footprint, LoopThatMayNotRun_IsBoundedByItsTest) {  // for (i = tid; i < n; i += ntid)
  const auto f =
      of("mov.u32 %r6, %r4;\nHEAD:\nsetp.ge.s32 %p1, %r6, %r1;\n@%p1 bra END;\nmul.wide.s32 %rd3, %r6, 4;\n"
         "add.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 0;\nadd.s32 %r6, %r6, %r3;\nbra HEAD;\nEND:",
         700);
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(f.accesses[0].whole_reason, "");
  EXPECT_EQ(bytes(f.accesses[0], 2), "0 3072");  // to the end of the third round, of which 700 are made
}

TEST_F(Footprint, NotEqualThatIsNeverMet_IsNoBound) {  // from 3 in steps of 2 until 0: round the end, or never
  const auto f =
      of("mov.u32 %r6, 3;\nmov.u64 %rd3, %rd1;\nL:\nst.global.u32 [%rd3], 0;\nadd.s64 %rd3, %rd3, 4;\n"
         "add.s32 %r6, %r6, -2;\nsetp.ne.s32 %p1, %r6, 0;\n@%p1 bra L;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 65536");
  EXPECT_NE(f.accesses[0].whole_reason, "");
}

TEST_F(Footprint, NotEqualThatIsPassedAtTheStart_IsNoBound) {  // from -4 in steps of -4 until 0
  const auto f =
      of("mov.u32 %r6, -4;\nmov.u64 %rd3, %rd1;\nL:\nst.global.u32 [%rd3], 0;\nadd.s64 %rd3, %rd3, 4;\n"
         "add.s32 %r6, %r6, -4;\nsetp.ne.s32 %p1, %r6, 0;\n@%p1 bra L;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 65536");
}

TEST_F(Footprint, EndThatIsLoadedAnewEachTime_IsNoBound) {
  const auto f =
      of("mov.u32 %r6, 0;\nmov.u64 %rd3, %rd1;\nL:\nld.global.u32 %r7, [%rd2];\nand.b32 %r8, %r7, 3;\n"
         "st.global.u32 [%rd3], 0;\nadd.s64 %rd3, %rd3, 4;\n"
         "add.s32 %r6, %r6, 1;\nsetp.ne.s32 %p1, %r6, %r8;\n@%p1 bra L;");
  for (const AccessFootprint& access : f.accesses) {
    if (access.writes) {
      EXPECT_EQ(bytes(access, 0), "0 65536");
    }
  }
}

TEST_F(Footprint, DivisionOfWhatMayBeNegative_IsUnknown) {  // (tid - 100) / 8 rounds towards zero
  const auto f =
      of("add.s32 %r6, %r4, -100;\ndiv.s32 %r7, %r6, 8;\nadd.s32 %r8, %r7, 20;\nmul.wide.s32 %rd3, %r8, 4;\n"
         "add.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 0;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 65536");
}

TEST_F(Footprint, IndexThatMayWrap_IsUnknown) {
  const auto f =
      of("mul.lo.s32 %r6, %r5, 4194304;\nmul.wide.s32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
         "st.global.u32 [%rd4], 0;",
         1, {4, 1, 1});  // 1023 * 2^22 is more than 2^31
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 65536");
  EXPECT_NE(f.accesses[0].whole_reason.find("may wrap at"), std::string::npos) << f.accesses[0].whole_reason;
}

TEST_F(Footprint, LoadedIndex_CoversTheWholeOfItsBaseAlone) {
  const auto f =
      of("mul.wide.u32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.u32 %r6, [%rd4];\n"
         "mul.wide.u32 %rd5, %r6, 4;\nadd.s64 %rd6, %rd2, %rd5;\nred.global.add.u32 [%rd6], 1;");
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "1024 1024");
  EXPECT_TRUE(f.accesses[1].reads && f.accesses[1].writes);
  EXPECT_EQ(bytes(f.accesses[1], 1), "0 65536");
  EXPECT_NE(f.accesses[1].whole_reason.find("loaded at"), std::string::npos) << f.accesses[1].whole_reason;
  EXPECT_FALSE(f.writes_anything);
}

// Whatever an instruction reads it as: that it may wrap is only because it was loaded.
TEST_F(Footprint, WhatIsMadeOfALoadedNumber_IsUnknownBecauseItWasLoaded) {
  for (const std::string use :
       {"mul.wide.s32 %rd5, %r6, 4;", "cvt.s64.s32 %rd3, %r6;\nshl.b64 %rd5, %rd3, 2;",
        "add.s32 %r7, %r6, %r5;\nmul.wide.s32 %rd5, %r7, 4;", "div.s32 %r7, %r6, 3;\nmul.wide.s32 %rd5, %r7, 4;",
        "xor.b32 %r7, %r6, %r5;\nmul.wide.s32 %rd5, %r7, 4;",
        "ld.global.u64 %rd3, [%rd1];\nshl.b64 %rd4, %rd3, 2;\nshr.u64 %rd5, %rd4, 1;"}) {
    const auto f = of("ld.global.u32 %r6, [%rd1];\n" + use + "\nadd.s64 %rd6, %rd2, %rd5;\nst.global.u32 [%rd6], 1;");
    ASSERT_GE(f.accesses.size(), 2u) << use;
    EXPECT_NE(f.accesses.back().whole_reason.find("loaded at"), std::string::npos)
        << use << ": " << f.accesses.back().whole_reason;
  }
}

TEST_F(Footprint, LoadedByteAsIndex_CoversItsRange) {
  const auto f =
      of("cvt.u64.u32 %rd3, %r5;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.u8 %r6, [%rd4];\n"
         "mul.wide.u32 %rd5, %r6, 4;\nadd.s64 %rd6, %rd2, %rd5;\nred.global.add.u32 [%rd6], 1;");
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(bytes(f.accesses[1], 3), "0 1024");
}

TEST_F(Footprint, LoadedPointer_IsAnything) {
  const auto f = of("ld.global.u64 %rd3, [%rd1];\nst.global.u32 [%rd3], 0;");
  EXPECT_TRUE(f.writes_anything && !f.reads_anything);
  EXPECT_NE(f.anything_reason.find("loaded at"), std::string::npos) << f.anything_reason;
}

TEST_F(Footprint, SharedAndLocalMemory_AreNotInIt) {
  const auto f =
      of(".shared .align 4 .b8 s[1024];\n.local .align 4 .b8 l[16];\nmov.u32 %r6, s;\nst.shared.u32 [%r6], 0;\n"
         "mov.u64 %rd3, l;\ncvta.local.u64 %rd4, %rd3;\nst.u32 [%rd4+4], 0;\nst.global.u32 [%rd1], 0;");
  EXPECT_EQ(f.accesses.size(), 1u);
  EXPECT_FALSE(f.writes_anything) << f.anything_reason;
}

// What is loaded may be the sum of the two, and less the one it is the other.
TEST_F(Footprint, LessThanASharedAddress_IsAnything) {
  const auto f =
      of(".shared .align 4 .b8 s[1024];\nmov.u64 %rd3, s;\ncvta.shared.u64 %rd4, %rd3;\n"
         "ld.global.u64 %rd5, [%rd1];\nsub.s64 %rd6, %rd5, %rd4;\nst.u32 [%rd6], 0;");
  EXPECT_TRUE(f.writes_anything);
}

TEST_F(Footprint, SpinOnMemory_MayWaitForAnybody) {
  const auto f =
      of("L:\nld.acquire.gpu.global.u32 %r6, [%rd1];\nsetp.eq.u32 %p1, %r6, 0;\n@%p1 bra L;\nst.global.u32 [%rd2], 0;");
  EXPECT_TRUE(f.reads_anything && f.writes_anything);
  EXPECT_NE(f.anything_reason.find("may wait"), std::string::npos) << f.anything_reason;
}

// q[i] = 0, with the arguments in .param memory.
constexpr const char* kPut =
    ".func put(.param .b64 q, .param .b32 i) { .reg .b64 %rd<4>; .reg .b32 %r<2>; ld.param.b64 %rd1, [q]; "
    "ld.param.b32 %r1, [i]; mul.wide.s32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.u32 [%rd3], 0; ret; }";
std::string put(const std::string& array, const std::string& index, const std::string& guard = "") {
  return fmt::format(
      "{{\n.param .b64 p0;\n.param .b32 p1;\nst.param.b64 [p0+0], {};\nst.param.b32 [p1+0], {};\n{} call.uni put, "
      "(p0, p1);\n}}\n",
      array, index, guard);
}

TEST_F(Footprint, CalledFunction_HasTheFootprintOfEachCall) {
  const auto f = of(put("%rd2", "%r5") + put("%rd1", "%r2"), 1, {4, 1, 1}, {32, 1, 1}, kPut);
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(f.accesses[0].allocation, 1u);
  EXPECT_EQ(bytes(f.accesses[0], 2), "256 128");
  EXPECT_EQ(f.accesses[1].allocation, 0u);
  EXPECT_EQ(bytes(f.accesses[1], 2), "8 4");
  EXPECT_TRUE(f.instructions.empty());  // a line of a function is not one instruction of the kernel
}

TEST_F(Footprint, CallUnderAGuard_IsMadeWhereTheGuardHolds) {
  const auto f = of("setp.lt.s32 %p1, %r2, 2;\n" + put("%rd2", "%r5", "@%p1"), 1, {4, 1, 1}, {32, 1, 1}, kPut);
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "128 128");
  EXPECT_EQ(bytes(f.accesses[0], 2), "none");
}

TEST_F(Footprint, ResultOfACall_IsAnIndex) {  // 2 * i, of a function that calls another
  const auto f = of(
      "{\n.param .b32 p0;\n.param .b32 back;\nst.param.b32 [p0], %r5;\ncall (back), twice, (p0);\nld.param.b32 %r6, "
      "[back];\n}\nmul.wide.s32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.u32 %r7, [%rd4];",
      1, {4, 1, 1}, {32, 1, 1},
      ".func (.param .b32 r) plus(.param .b32 a, .param .b32 b) { .reg .b32 %r<4>; ld.param.b32 %r1, [a]; ld.param.b32 "
      "%r2, [b]; add.s32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; }\n"
      ".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<4>; ld.param.b32 %r1, [a]; { .param .b32 p0; .param "
      ".b32 p1; .param .b32 back; st.param.b32 [p0], %r1; st.param.b32 [p1], %r1; call (back), plus, (p0, p1); "
      "ld.param.b32 %r2, [back]; } st.param.b32 [r], %r2; ret; }");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "256 4 32x8");
}

TEST_F(Footprint, CalledFunctionWithAnArrayOfItsOwn_AddsNothing) {  // as the slow way of a sine
  const auto f = of("call own, ();\nst.global.u32 [%rd1], 0;", 1, {4, 1, 1}, {32, 1, 1},
                    ".func own() { .local .align 8 .b8 depot[16]; .reg .b64 %rd<4>; mov.u64 %rd1, depot; "
                    "cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+8], 0; ret; }");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(f.accesses[0].whole_reason, "");
  EXPECT_FALSE(f.writes_anything) << f.anything_reason;
}

TEST_F(Footprint, FunctionThatCallsItself_TakesItsArraysWhole) {
  const auto f = of("{\n.param .b64 p;\nst.param.b64 [p], %rd2;\ncall down, (p);\n}", 1, {4, 1, 1}, {32, 1, 1},
                    ".func down(.param .b64 q) { .reg .b64 %rd<2>; .param .b64 p; ld.param.b64 %rd1, [q]; st.u32 "
                    "[%rd1], 0; st.param.b64 [p], %rd1; call down, (p); ret; }");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(f.accesses[0].allocation, 1u);
  EXPECT_EQ(bytes(f.accesses[0], 2), "0 65536");
  EXPECT_NE(f.accesses[0].whole_reason.find("down calls itself"), std::string::npos) << f.accesses[0].whole_reason;
}

TEST_F(Footprint, CallThroughAPointer_IsNotFollowed) {
  const auto f =
      of("mov.u64 %rd3, put;\n{\n.param .b64 p0;\n.param .b32 p1;\nst.param.b64 [p0], %rd2;\nst.param.b32 "
         "[p1], %r5;\nproto: .callprototype _ (.param .b64 _, .param .b32 _);\ncall %rd3, (p0, p1), proto;\n}",
         1, {4, 1, 1}, {32, 1, 1}, kPut);
  ASSERT_FALSE(f.accesses.empty() && !f.writes_anything);
  const std::string reason = f.accesses.empty() ? f.anything_reason : f.accesses[0].whole_reason;
  EXPECT_NE(reason.find("calls a function that is not known"), std::string::npos) << reason;
}

TEST_F(Footprint, ResultInARegister_IsNotFollowed) {
  const auto f =
      of("call (%r6), seven, ();\nmul.wide.s32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
         "ld.global.u32 %r7, [%rd4];",
         1, {4, 1, 1}, {32, 1, 1}, ".func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "0 65536");  // it touches no memory, so that its result alone is not known
}

TEST_F(Footprint, ClampedRow_StaysInItsBlocksRange) {  // max(min(y + 1, 15), 0) rows of 1 KiB, y by block
  const auto f =
      of("add.s32 %r6, %r2, 1;\nmin.s32 %r7, %r6, 2;\nmax.s32 %r8, %r7, 0;\nmad.lo.s32 %r9, %r8, 256, %r4;\n"
         "mul.wide.s32 %rd3, %r9, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.u32 %r10, [%rd4];");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "1024 1024");
  EXPECT_EQ(bytes(f.accesses[0], 1), "2048 1024");
  EXPECT_EQ(bytes(f.accesses[0], 3), "2048 1024");
}

TEST_F(Footprint, TriangleByBlock_EndsAtTheBlock) {  // for (i = 0; i < ctaid; i++): as far as the block's own row
  const auto f =
      of("mov.u32 %r6, 0;\nHEAD:\nsetp.ge.s32 %p1, %r6, %r2;\n@%p1 bra END;\nmad.lo.s32 %r7, %r6, 256, %r4;\n"
         "mul.wide.s32 %rd3, %r7, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.u32 %r8, [%rd4];\nadd.s32 %r6, %r6, 1;\n"
         "bra HEAD;\nEND:");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "none");
  EXPECT_EQ(bytes(f.accesses[0], 1), "0 1024");
  EXPECT_EQ(bytes(f.accesses[0], 3), "0 3072");
}

TEST_F(Footprint, TwoChoicesBetweenTheSameTwo_AreTwo) {  // 100 or tid, less 100 or tid
  const auto f =
      of("setp.lt.u32 %p1, %r4, 5;\nsetp.lt.u32 %p2, %r2, 2;\nselp.b32 %r6, 100, %r4, %p1;\n"
         "selp.b32 %r7, 100, %r4, %p2;\nsub.s32 %r8, %r6, %r7;\nadd.s32 %r9, %r8, 300;\nmul.wide.u32 %rd3, %r9, 4;\n"
         "add.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 0;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "180 2044");  // 300 - 255 to 300 + 255
}

TEST_F(Footprint, EndThatIsChosenAnewEachTime_IsNoBound) {  // until i is 4 or 8: at 4 it may be 8, at 8 it may be 4
  const std::string choice = "ld.global.u32 %r7, [%rd2];\nsetp.eq.u32 %p2, %r7, 0;\nselp.b32 %r8, 4, 8, %p2;\n";
  const std::string before = "mov.u32 %r6, 0;\nmov.u64 %rd3, %rd1;\n";
  const std::string round =
      "st.global.u32 [%rd3], 0;\nadd.s64 %rd3, %rd3, 4;\nadd.s32 %r6, %r6, 1;\nsetp.ne.s32 %p1, %r6, %r8;\n"
      "@%p1 bra L;";
  const auto inside = of(before + "L:\n" + choice + round), outside = of(before + choice + "L:\n" + round);
  ASSERT_EQ(inside.accesses.size(), 2u);
  EXPECT_EQ(bytes(inside.accesses[1], 0), "0 65536");
  ASSERT_EQ(outside.accesses.size(), 2u);
  EXPECT_EQ(bytes(outside.accesses[1], 0), "0 32");
}

TEST_F(Footprint, UnsignedMaximum_IsNoSignedNumber) {  // of 2^64 - 5 and 0, as a signed number below 100
  const auto f =
      of("ld.global.u64 %rd3, [%rd2];\nmax.u64 %rd4, %rd3, 0;\nsetp.lt.s64 %p1, %rd4, 100;\n@!%p1 bra END;\n"
         "add.s64 %rd5, %rd1, %rd4;\nst.global.u8 [%rd5+8], 0;\nEND:");
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(bytes(f.accesses[1], 0), "0 65536");
}

TEST_F(Footprint, AddressThatComesRound_SaysNothingOfItsOffset) {  // tid * 2^60 is 0 for 16, 32, ...
  const auto f =
      of("cvt.u64.u32 %rd3, %r4;\nshl.b64 %rd4, %rd3, 60;\nadd.s64 %rd5, %rd1, %rd4;\n"
         "add.s64 %rd6, %rd1, 2305843009213693952;\nsetp.lt.u64 %p1, %rd5, %rd6;\n@!%p1 bra END;\n"
         "shl.b64 %rd7, %rd3, 2;\nadd.s64 %rd8, %rd1, %rd7;\nst.global.u32 [%rd8], 0;\nEND:");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 1024");
}

// 40 more each time, of 8 bits, never reaches 250; that it does in seven rounds is what is assumed first.
TEST_F(Footprint, EndThatIsNotConfirmed_LeavesNoBounds) {
  const auto f =
      of("mov.u32 %r6, 0;\nmov.u32 %r7, 0;\nL:\nand.b32 %r8, %r6, -4;\nsetp.ge.u32 %p2, %r8, 5000;\n@%p2 ret;\n"
         "mul.wide.u32 %rd3, %r8, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 0;\nadd.s32 %r6, %r6, 1;\n"
         "add.s32 %r7, %r7, 40;\ncvt.u32.u8 %r7, %r7;\nsetp.lt.u32 %p1, %r7, 250;\n@%p1 bra L;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 0), "0 65536");
}

TEST_F(Footprint, AccessesAtBothEndsOfAllNumbers_StayApart) {  // the first of them is not made
  const auto f =
      of("ld.global.u32 %r6, [%rd2];\nsetp.eq.u32 %p2, %r6, 7;\nsetp.eq.xor.u32 %p1, %r6, 0, %p2;\nadd.s64 %rd3, %rd1, "
         "-9223372036854775807;\n"
         "@%p1 ld.global.u8 %r7, [%rd3];\nld.global.u32 %r8, [%rd1+32];");
  std::string of_a;
  for (const AccessFootprint& access : f.accesses)
    if (access.allocation == 0) of_a += bytes(access, 0);
  EXPECT_EQ(of_a, "32 4");
}

// 3 less k * (2^63 - 1), for k = 2, is 5: more than it was at first.
TEST_F(Footprint, OneOfTwoThatCameRound_HasNoHighest) {
  const auto f =
      of("mov.u64 %rd3, 3;\nL:\nld.global.u32 %r6, [%rd2];\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra DONE;\n"
         "add.s64 %rd3, %rd3, -9223372036854775807;\nsetp.ne.u32 %p3, %r6, 7;\n@%p3 bra L;\nDONE:\n"
         "setp.ge.s64 %p4, %rd3, 0;\nsetp.lt.and.s64 %p5, %rd3, 1000, %p4;\n@!%p5 bra END;\n"
         "add.s64 %rd5, %rd1, %rd3;\nst.global.u8 [%rd5], 0;\nEND:");
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(bytes(f.accesses[1], 0), "0 65536");
}

// a[i <what> n], where i is the thread's number in the launch.
constexpr const char* kStoreR6 = "mul.wide.u32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 1;";

TEST_F(Footprint, XorWithANumber_StaysInItsAlignedGroup) {
  const std::string body = std::string("xor.b32 %r6, %r5, %r1;\n") + kStoreR6;
  for (const std::uint32_t n : {1u, 2u, 96u, 255u}) {
    const auto f = of(body, n);
    ASSERT_EQ(f.accesses.size(), 1u);
    EXPECT_EQ(bytes(f.accesses[0], 0), "0 1024") << n;
    EXPECT_EQ(bytes(f.accesses[0], 3), "3072 1024") << n;
    EXPECT_EQ(f.accesses[0].boxes, 1u) << n;
  }
  const auto next_but_one = of(body, 512);
  EXPECT_EQ(bytes(next_but_one.accesses[0], 0), "2048 1024");
  EXPECT_EQ(bytes(next_but_one.accesses[0], 3), "1024 1024");
  // All bits: backwards.
  EXPECT_EQ(bytes(of("xor.b32 %r7, %r5, -1;\nadd.s32 %r6, %r7, 2048;\n" + std::string(kStoreR6)).accesses[0], 1),
            "6144 1024");
}

TEST_F(Footprint, XorOfASmallNumber_KeepsWhatIsAboveIt) {  // the second number is not known, but below 32
  const auto f =
      of("ld.global.u32 %r7, [%rd2];\nand.b32 %r8, %r7, 31;\nxor.b32 %r6, %r5, %r8;\n" + std::string(kStoreR6));
  ASSERT_EQ(f.accesses.size(), 2u);
  EXPECT_EQ(bytes(f.accesses[1], 2), "2048 1024");
}

TEST_F(Footprint, XorOfStridedBytes_KeepsTheirStride) {  // (16 * i) ^ 32, of addresses
  const auto f =
      of("shl.b32 %r7, %r5, 4;\nxor.b32 %r8, %r7, 32;\ncvt.u64.u32 %rd3, %r8;\nadd.s64 %rd4, %rd1, %rd3;\n"
         "st.global.u32 [%rd4], 1;");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_EQ(bytes(f.accesses[0], 1), "4096 4 256x16");
}

TEST_F(Footprint, OrAndMaskOfSeveralBits_AreBounded) {
  const auto either = of(std::string("or.b32 %r6, %r5, %r1;\n") + kStoreR6, 3);
  EXPECT_EQ(bytes(either.accesses[0], 1), "1036 1012");
  const auto masked = of(std::string("and.b32 %r6, %r5, %r1;\n") + kStoreR6, 0x305);
  EXPECT_EQ(bytes(masked.accesses[0], 0), "0 24");
  EXPECT_EQ(bytes(masked.accesses[0], 3), "3072 24");
}

TEST_F(Footprint, ProductOf24Bits_IsOneWhereNumbersAreSmall) {
  const auto f = of("mad24.lo.s32 %r6, %r2, %r3, %r4;\n" + std::string(kStoreR6));
  EXPECT_EQ(bytes(f.accesses[0], 2), "2048 1024");
  const auto large = of("mul24.lo.u32 %r7, %r1, 4;\nand.b32 %r6, %r7, 1023;\n" + std::string(kStoreR6), 1u << 24);
  EXPECT_NE(bytes(large.accesses[0], 2), "0 4");  // the bits above are left out: it is 0
}

TEST_F(Footprint, WrongValues_AreRefused) {
  auto parsed =
      ptx::parse(".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a) { ret; }\n");
  ASSERT_TRUE(parsed.ok());
  const auto kernel = KernelFootprints::of(*parsed, *parsed->find_function("k"));
  ASSERT_TRUE(kernel.ok());
  LaunchValues values;
  EXPECT_NE(kernel->at(values).message().find("8 bytes and 0 were given"), std::string::npos);
  values.parameters.resize(8);
  EXPECT_TRUE(kernel->at(values).ok());
  values.grid[1] = 0;
  EXPECT_NE(kernel->at(values).message().find("along y"), std::string::npos);
  values.grid[0] = values.grid[1] = 65536;
  EXPECT_NE(kernel->at(values).message().find("at most"), std::string::npos);
}

// What would never end if each way to a term, a predicate or a loop were gone anew.
TEST_F(Footprint, LongChains_AreToldAtOnce) {
  const std::string store = "mul.wide.s32 %rd3, %r10, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 1;\n";
  const auto told = [&](const std::string& body) {
    const auto begin = std::chrono::steady_clock::now();
    const auto f = of(body);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "in place of years";
    EXPECT_EQ(f.accesses.size(), 1u);
    return f.accesses.empty()                   ? ""
           : f.accesses[0].whole_reason.empty() ? bytes(f.accesses[0], 0)
                                                : f.accesses[0].whole_reason;
  };
  std::string choices = "mov.u32 %r10, 0;\n", sums = choices, predicates = "setp.gt.f32 %p1, 0f00000000, 0f00000000;\n";
  for (int step = 0; step < 200; ++step)
    choices += fmt::format(
        "setp.gt.s32 %p1, %r5, {};\nadd.s32 %r11, %r10, %r4;\nand.b32 %r11, %r11, 1023;\n@%p1 mov.u32 %r10, %r11;\n",
        step * 5);
  EXPECT_NE(told(choices + store), "");
  for (int step = 0; step < 200; ++step)
    sums += fmt::format(
        "add.s32 %r11, %r10, %r5;\ndiv.s32 %r12, %r11, {};\nadd.s32 %r10, %r12, %r10;\nand.b32 %r10, "
        "%r10, 1023;\n",
        step % 7 + 2);
  EXPECT_NE(told(sums + store), "");
  for (int step = 0; step < 40; ++step) predicates += "and.pred %p1, %p1, %p1;\n";
  EXPECT_EQ(told(predicates + "mov.u32 %r10, %r4;\n@!%p1 bra E;\n" + store + "E:\n"), "0 1024");
  std::string loops = "mov.u32 %r10, 0;\n", ends;
  for (int depth = 0; depth < 30; ++depth) {
    loops += fmt::format("mov.u32 %i{0}, 0;\nL{0}:\n", depth);
    ends = fmt::format("add.s32 %i{0}, %i{0}, 1;\nsetp.lt.s32 %p1, %i{0}, 3;\n@%p1 bra L{0};\n", depth) + ends;
  }
  std::string at = "mov.u32 %r10, %i0;\n";
  for (int depth = 1; depth < 30; ++depth) at += fmt::format("add.s32 %r10, %r10, %i{};\n", depth);
  EXPECT_NE(told(".reg .b32 %i<30>;\n" + loops + at + store + ends), "");
}

TEST_F(Footprint, RegisterThatIsLoadedTwiceAtOnce_IsUnknown) {
  const auto f =
      of("ld.param.v2.u32 {%r8, %r8}, [a];\nand.b32 %r8, %r8, 63;\nadd.s32 %r9, %r5, %r8;\n"
         "mul.wide.s32 %rd3, %r9, 4;\nadd.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], 1;\n");
  ASSERT_EQ(f.accesses.size(), 1u);
  EXPECT_NE(f.accesses[0].whole_reason.find("loaded"), std::string::npos) << f.accesses[0].whole_reason;
}

}  // namespace
}  // namespace pergola::analysis
