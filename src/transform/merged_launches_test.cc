// The pass on a few lines of PTX: what becomes of parameters and indices, and what is refused. That merged launches
// leave what they leave one by one is tests/ptx_cases' (PtxMerged) and src/runtime/merged_lowering_test.cc's.
#include "src/transform/merged_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/signature.h"
#include "src/transform/kernel_fixture.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using testing::kernel_with;

Result<ptx::Module> merged(const std::string& text, const MergedShape& shape) {
  return testing::passed(text, [&](ptx::Module& module) { return merge_launches(module, "k", shape); });
}

std::string merged_text(const std::string& body, const MergedShape& shape = {}, const std::string& before = "") {
  const Result<ptx::Module> module = merged(kernel_with(body, before), shape);
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? ptx::print(*module) : "";
}

constexpr MergedShape kDeep{.launches = 4, .deep = true}, kBounded{.launches = 4, .bounded = true};
constexpr MergedShape kDeepAndBounded{.launches = 4, .deep = true, .bounded = true};

TEST(MergedLaunches, TheKernel_HasAnArrayOfItsParameters) {
  for (const auto& [shape, bytes] :
       {std::pair(MergedShape{.launches = 3}, 3 * 48u), {kDeep, 4 * 64u}, {kBounded, 4 * 64u}}) {
    const Result<ptx::Module> module = merged(kernel_with("ld.param.f32 %f1, [f];"), shape);
    ASSERT_TRUE(module.ok()) << module.message();
    const auto signature = ptx::signature(*module, *module->find_function("k_merged"));
    ASSERT_TRUE(signature.ok()) << signature.message();
    ASSERT_EQ(signature->parameters.size(), 1u);
    EXPECT_EQ(signature->parameter_bytes, bytes);
    EXPECT_EQ(signature->parameters[0].align_bytes, 16u);
    EXPECT_EQ(signature->parameters[0].name, "k_launches");
  }
}

TEST(MergedLaunches, Parameters_AreLoadedFromTheLaunchsElement) {
  const std::string text = merged_text(
      "ld.param.u64 %rd1, [x]; ld.param.u16 %h1, [s]; ld.param.v2.f32 {%f1, %f2}, [t+8]; @%p1 ld.param.f32 %f3, [f];");
  EXPECT_THAT(text, HasSubstr("mad.wide.u32 %element, %launch, 48, %element;"));
  EXPECT_THAT(text, HasSubstr("ld.param.u64 %rd1, [%pergola_launch_parameters];"));
  EXPECT_THAT(text, HasSubstr("ld.param.u16 %h1, [%pergola_launch_parameters+8];"));
  EXPECT_THAT(text, HasSubstr("ld.param.v2.f32 {%f1, %f2}, [%pergola_launch_parameters+24];"));
  EXPECT_THAT(text, HasSubstr("@%p1 ld.param.f32 %f3, [%pergola_launch_parameters+32];"));
}

TEST(MergedLaunches, Headers_LieBeforeTheParameters) {
  const std::string text = merged_text("ld.param.u64 %rd1, [x];", kBounded);
  EXPECT_THAT(text, HasSubstr("mad.wide.u32 %element, %launch, 64, %element;"));
  EXPECT_THAT(text, HasSubstr("add.s64 %pergola_launch_parameters, %element, 16;"));
}

TEST(MergedLaunches, Addresses_AreTakenInTheElement) {
  const std::string text = merged_text(
      "mov.b64 %rd1, t; add.s64 %rd2, %rd1, 4; ld.param.u32 %r1, [%rd2+4]; @!%p1 cvta.param.u64 %rd3, t;\n"
      "cvta.param.u64 %rd4, %rd1; ld.u32 %r2, [%rd4]; cvta.to.param.u64 %rd5, %rd4; isspacep.param %p2, %rd4;");
  EXPECT_THAT(text, HasSubstr("add.s64 %rd1, %pergola_launch_parameters, 16;"));
  EXPECT_THAT(text, HasSubstr("ld.param.u32 %r1, [%rd2+4];"));
  EXPECT_THAT(text, HasSubstr("@!%p1 add.s64 %rd3, %pergola_launch_parameters, 16;"));
  EXPECT_THAT(text, HasSubstr("@!%p1 cvta.param.u64 %rd3, %rd3;"));
  EXPECT_THAT(text, HasSubstr("cvta.param.u64 %rd4, %rd1;"));
}

TEST(MergedLaunches, ParametersOfCallsAndHiddenNames_StayAsTheyAre) {
  const std::string text = merged_text(
      "{ .param .b64 x; .param .b32 back; st.param.b64 [x], %rd1; call (back), g, (x); ld.param.b32 %r1, [back];\n"
      "ld.param.b64 %rd3, [x]; }\nld.param.u64 %rd2, [x];",
      {},
      ".func (.param .b32 r) g(.param .b64 x)\n{ .reg .b64 %q; ld.param.b64 %q, [x]; st.param.b32 [r], 1; ret; }\n");
  EXPECT_THAT(text, HasSubstr("ld.param.b64 %q, [x];"));
  EXPECT_THAT(text, HasSubstr("st.param.b64 [x], %rd1;"));
  EXPECT_THAT(text, HasSubstr("ld.param.b64 %rd3, [x];"));
  EXPECT_THAT(text, HasSubstr("ld.param.u64 %rd2, [%pergola_launch_parameters];"));
}

constexpr const char* kReadsAll =
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.z; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mov.u32 %r5, "
    "%nctaid.z;";

TEST(MergedLaunches, OfOneLayerAndOneSize_HaveTheirGridsAsItIs) {
  const std::string text = merged_text(kReadsAll);
  EXPECT_THAT(text, HasSubstr("mov.u32 %r1, %ctaid.x;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r2, %pergola_launch_block_z;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %pergola_launch_block_z, 0;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r3, %nctaid.x;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r5, %pergola_launch_grid_z;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %pergola_launch_grid_z, 1;"));
  EXPECT_THAT(text, Not(HasSubstr("div.u32")));
  EXPECT_THAT(text, Not(HasSubstr("setp")));
}

TEST(MergedLaunches, OfSeveralLayers_Divide) {
  const std::string text = merged_text(kReadsAll, kDeep);
  EXPECT_THAT(text, HasSubstr("ld.param.u32 %place, [k_launches+12];"));
  EXPECT_THAT(text, HasSubstr("div.u32 %launch, %launch, %place;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %pergola_launch_grid_z, %place;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r3, %nctaid.x;"));
  EXPECT_THAT(text, Not(HasSubstr("setp")));
}

TEST(MergedLaunches, OfSeveralSizes_LeaveOutside) {
  const std::string flat = merged_text(kReadsAll, kBounded), deep = merged_text(kReadsAll, kDeepAndBounded);
  EXPECT_THAT(flat, HasSubstr("setp.ge.u32 %p, %x, %pergola_launch_grid_x;"));
  EXPECT_THAT(flat, HasSubstr("mov.u32 %r3, %pergola_launch_grid_x;"));
  EXPECT_THAT(flat, HasSubstr("mov.u32 %r4, %pergola_launch_grid_y;"));
  EXPECT_THAT(flat, HasSubstr("mov.u32 %pergola_launch_grid_z, 1;"));
  EXPECT_THAT(flat, Not(HasSubstr("div.u32")));
  EXPECT_THAT(deep, HasSubstr("ld.param.u32 %pergola_launch_grid_z, [%element+8];"));
  EXPECT_THAT(deep, HasSubstr("setp.ge.u32 %p, %pergola_launch_block_z, %pergola_launch_grid_z;"));
}

TEST(MergedLaunches, InARow_LookForTheirLaunch) {
  const std::string row = merged_text(kReadsAll, {.launches = 4, .flat = true});
  EXPECT_THAT(row, HasSubstr("ld.param.u32 %place, [%element+140];\n    setp.ge.u32 %p, %x, %place;\n"
                             "    @%p add.s64 %element, %element, 128;"));
  EXPECT_THAT(row, HasSubstr("@%p add.s64 %element, %element, 64;"));
  EXPECT_THAT(row, HasSubstr("mov.u32 %r1, %pergola_launch_block_x;"));
  EXPECT_THAT(row, HasSubstr("mov.u32 %pergola_launch_block_z, 0;"));
  EXPECT_THAT(row, HasSubstr("mov.u32 %pergola_launch_grid_y, 1;"));
  EXPECT_THAT(row, Not(HasSubstr("div.u32")));
  const std::string deep = merged_text(kReadsAll, {.launches = 4, .deep = true, .flat = true});
  EXPECT_THAT(deep, HasSubstr("div.u32 %y, %x, %pergola_launch_grid_x;"));
  EXPECT_THAT(deep, HasSubstr("ld.param.u32 %pergola_launch_grid_z, [%element+8];"));
}

TEST(MergedLaunches, VectorsOfIndices_AreMovedByComponents) {
  const std::string text = merged_text(
      "mov.v4.u32 {%r1, %r2, %r3, %r4}, %ctaid; @%p1 mov.v4.u32 {%r5, _, _, _}, %nctaid; mov.v4.u32 %v, %nctaid;",
      kDeepAndBounded);
  EXPECT_THAT(text, HasSubstr("mov.u32 %r2, %ctaid.y;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r3, %pergola_launch_block_z;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r4, %ctaid.w;"));
  EXPECT_THAT(text, HasSubstr("@%p1 mov.u32 %r5, %pergola_launch_grid_x;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %v.z, %pergola_launch_grid_z;"));
}

TEST(MergedLaunches, IndicesOfOtherSizesAndInOtherInstructions) {
  const std::string text = merged_text(
      "mov.u16 %h1, %ctaid.z; mov.u64 %rd1, %nctaid.z; cvt.u64.u32 %rd2, %ctaid.z; add.u32 %r1, %ctaid.z, %nctaid.z;");
  EXPECT_THAT(text, HasSubstr("cvt.u16.u32 %h1, %pergola_launch_block_z;"));
  EXPECT_THAT(text, HasSubstr("cvt.u64.u32 %rd1, %pergola_launch_grid_z;"));
  EXPECT_THAT(text, HasSubstr("cvt.u64.u32 %rd2, %pergola_launch_block_z;"));
  EXPECT_THAT(text, HasSubstr("add.u32 %r1, %pergola_launch_block_z, %pergola_launch_grid_z;"));
}

constexpr const char* kAsks =
    ".func (.reg .b32 %z) g()\n{ .reg .b32 %y; mov.u32 %y, %nctaid.x; mov.u32 %z, %ctaid.z; ret; }\n";

TEST(MergedLaunches, Functions_ReadWhatIsTheSameForAll) {
  const std::string text = merged_text("call (%r1), g, ();", {}, kAsks);
  EXPECT_THAT(text, HasSubstr("mov.u32 %y, %nctaid.x;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %z, %pergola_launch_block_z;"));
  const Result<ptx::Module> deep = merged(kernel_with("call (%r1), g, ();", kAsks), kDeep);
  ASSERT_EQ(deep.code(), Code::kUnsupported);
  EXPECT_THAT(deep.message(),
              HasSubstr("k.ptx:5: launches of kernel 'k' cannot be merged: `mov.u32 %z, %ctaid.z;` asks in a "
                        "function for what only the kernel knows"));
  const Result<ptx::Module> bounded = merged(kernel_with("call (%r1), g, ();", kAsks), kBounded);
  ASSERT_EQ(bounded.code(), Code::kUnsupported);
  EXPECT_THAT(bounded.message(), HasSubstr("`mov.u32 %y, %nctaid.x;`"));
  merged_text("", kDeep, kAsks);  // nobody calls it
}

TEST(MergedLaunches, OtherKernels_Go) {
  EXPECT_THAT(merged_text("", {}, ".visible .entry other(.param .u64 f)\n{ ret; }\n"), Not(HasSubstr("other")));
}

TEST(MergedLaunches, WhatBlocksCouldTell_IsRefusedWithTheLine) {
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"frob.b32 %r1, f;", "is not understood, and mentions a parameter"},
           {"frob.param.b32 %r1, [%rd1];", "is not understood, and mentions a parameter"},
           {"frob.b32 %r1, %nctaid;", "is not understood, and mentions its grid"},
           {"st.global.u64 [x], %rd1;", "uses a parameter otherwise"},
           {"griddepcontrol.wait;", "orders whole launches"},
           {"mov.u64 %rd1, %gridid;", "asks for the number of its launch"},
           {"mov.u32 %r1, %envreg2;", "may be part of a grid-wide barrier"},
           {"mov.u32 %r1, %clusterid.x;", "asks for its cluster"},
           {"mov.u32 %r1, %cluster_nctarank;", "asks for its cluster"},
       }) {
    const Result<ptx::Module> module = merged(kernel_with(body), {});
    ASSERT_EQ(module.code(), Code::kUnsupported) << body << module.message();
    EXPECT_THAT(module.message(), HasSubstr("k.ptx:7: launches of kernel 'k' cannot be merged: `")) << body;
    EXPECT_THAT(module.message(), HasSubstr(why)) << body;
  }
}

TEST(MergedLaunches, Clusters_AreRefused) {
  const Result<ptx::Module> module = merged(kernel_with("", "", "\n.reqnctapercluster 2, 1, 1"), {});
  ASSERT_EQ(module.code(), Code::kUnsupported);
  EXPECT_THAT(module.message(),
              HasSubstr("k.ptx:4: launches of kernel 'k' cannot be merged: it is launched in clusters."));
}

TEST(MergedLaunches, WhatIsNotUnderstoodAndMentionsNothing_Stays) {
  merged_text("frob.b32 %r1, %r2;");
}

TEST(MergedLaunches, NoSuchKernel_IsSaid) {
  Result<ptx::Module> module = ptx::parse(kernel_with(""), "k.ptx");
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(merge_launches(*module, "l", {}).code(), Code::kNotFound);
}

}  // namespace
}  // namespace pergola::transform
