// The pass on a few lines of PTX: what becomes of a thread's place, and what is refused. That packed blocks leave what
// they leave one by one is tests/ptx_cases' (PtxPacked) and tests/blocks'.
#include "src/transform/packed_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/transform/kernel_fixture.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using testing::kernel_with;

Result<ptx::Module> packed(const std::string& text, const PackedShape& shape = {4, 4, 1, 16}) {
  return testing::passed(text, [&](ptx::Module& module) { return pack_blocks(module, "k", shape); });
}

std::string packed_text(const std::string& body, const PackedShape& shape = {4, 4, 1, 16}) {
  const Result<ptx::Module> module = packed(kernel_with(body), shape);
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? ptx::print(*module) : "";
}

TEST(PackedBlocks, TheGrid_IsTheLastParameter) {
  const Result<ptx::Module> module = packed(kernel_with("ld.param.f32 %f1, [f];"));
  ASSERT_TRUE(module.ok()) << module.message();
  const auto before = ptx::signature(*module, *module->find_function("k_packed"));
  ASSERT_TRUE(before.ok()) << before.message();
  EXPECT_EQ(before->parameters.back().name, "k_blocks");
  EXPECT_EQ(before->parameters.back().size_bytes, 12u);
  EXPECT_EQ(before->parameters.back().align_bytes, 4u);
  EXPECT_EQ(before->max_threads, (std::array<std::uint32_t, 3>{256, 1, 1}));
}

TEST(PackedBlocks, PlacesAreThoseOfTheLaunchsOwnBlocks) {
  const std::string text = packed_text(
      "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r3, %ntid.x, %ctaid.x, %r1; mov.u32 %r3, %nctaid.z;");
  EXPECT_THAT(text, HasSubstr("mov.u32 %r1, %pergola_packed_tid_x;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r2, %pergola_packed_ctaid_y;"));
  EXPECT_THAT(text, HasSubstr("mad.lo.u32 %r3, %pergola_packed_ntid_x, %pergola_packed_ctaid_x, %r1;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r3, %pergola_packed_nctaid_z;"));
  EXPECT_THAT(text, HasSubstr("div.u32 %t, %inner, 16;"));
  EXPECT_THAT(text, HasSubstr("mad.lo.u32 %number, %number, 16, %t;"));
}

TEST(PackedBlocks, WhatABlockIsBesides_IsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"bar.sync 0;", "its threads meet at a barrier"},
      {".shared .b8 box[16]; mov.u32 %r1, box;", "it has shared memory"},
      {"shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", "its warps do something together"},
      {"bar.warp.sync -1;", "its warps do something together"},
      {"mov.u32 %r1, %laneid;", "reads what a thread of another block has otherwise"},
      {"mov.u32 %r1, %warpid;", "reads what a thread of another block has otherwise"},
      {"mov.u64 %rd1, {%tid.x, %tid.y};", "reads its place as a part of an operand"},
      {"mov.u16 %h1, %tid.x;", "reads its place in another form"},
      {"griddepcontrol.wait;", "orders whole launches"},
      {"mov.u32 %r1, %clusterid.x;", "reads what a thread of another block has otherwise"},
  };
  for (const auto& [body, words] : cases) {
    const Result<ptx::Module> module = packed(kernel_with(body));
    ASSERT_FALSE(module.ok()) << body;
    EXPECT_EQ(module.code(), Code::kUnsupported) << body;
    EXPECT_THAT(module.message(), HasSubstr("cannot be packed: ")) << body;
    EXPECT_THAT(module.message(), HasSubstr(words)) << body;
  }
  EXPECT_THAT(packed_text("mov.u32 %r1, %smid; mov.u64 %rd1, %globaltimer;"), Not(HasSubstr("%pergola_packed_smid")));
}

}  // namespace
}  // namespace pergola::transform
