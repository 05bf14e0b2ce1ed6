#include "src/executor/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"

namespace pergola::executor {
namespace {

using testing::HasSubstr;

transform::TaskBody body_of(const std::string& version, const std::string& target, const std::string& statement) {
  const std::string text = ".version " + version + "\n.target " + target + R"(
.address_size 64
.const .align 4 .u32 table[2] = {1, 2};
.func (.param .b32 result) helper(.param .b32 given) {
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [given];
)" + statement + R"(
  ld.const.u32 %r2, [table+4];
  add.u32 %r1, %r1, %r2;
  st.param.b32 [result], %r1;
  ret;
}
.visible .entry kernel(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], 3; call.uni (b), helper, (a); ld.param.b32 %r1, [b]; }
  st.global.u32 [%rd1], %r1;
  ret;
}
)";
  const auto module = ptx::parse(text, "test");
  EXPECT_TRUE(module.ok()) << module.message();
  auto body = transform::entry_to_task(*module, "kernel", task_config(8, 48 * 1024));
  EXPECT_TRUE(body.ok()) << body.message();
  return *body;
}

TEST(GenerationTest, WithoutBodies_IsAModule) {
  const auto text = generation_text({}, 2);
  ASSERT_TRUE(text.ok()) << text.message();
  const auto module = ptx::parse(*text, "generation");
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_TRUE(ptx::verify(*module).ok());
  EXPECT_EQ(module->find_function(kExecutorKernel)->min_blocks_per_sm, 2u);
}

TEST(GenerationTest, BodiesWithTheSameNames_EachHaveTheirOwn) {
  const std::vector bodies{body_of("8.3", "sm_90", "add.u32 %r1, %r1, 100;"),
                           body_of("8.3", "sm_90", "add.u32 %r1, %r1, 200;")};
  const auto text = generation_text(bodies, 1);
  ASSERT_TRUE(text.ok()) << text.message();
  const auto module = ptx::parse(*text, "generation");
  ASSERT_TRUE(module.ok()) << module.message();
  const Status verified = ptx::verify(*module);
  EXPECT_TRUE(verified.ok()) << verified.message();
  for (const char* name : {"helper__0", "helper__1"}) EXPECT_NE(module->find_function(name), nullptr) << name;
  for (const char* name : {"table__0", "table__1"}) EXPECT_NE(module->find_variable(name), nullptr) << name;
  EXPECT_EQ(module->find_function("helper"), nullptr);
  EXPECT_EQ(module->find_function("pergola_run_body"), nullptr);
  EXPECT_THAT(*text, HasSubstr("call.uni (b), helper__1, (a)"));
  EXPECT_THAT(*text, HasSubstr("[table__0+4]"));
  EXPECT_THAT(*text, HasSubstr("brx.idx"));
  EXPECT_EQ(module->find_function(kExecutorKernel)->min_blocks_per_sm, 1u);
}

TEST(GenerationTest, TheNewestVersionAndTargetCount) {
  const std::vector bodies{body_of("9.0", "sm_90a", ""), body_of("8.3", "sm_80", "")};
  const auto text = generation_text(bodies, 2);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_THAT(*text, testing::AllOf(HasSubstr(".version 9.0"), HasSubstr(".target sm_90a")));
}

}  // namespace
}  // namespace pergola::executor
