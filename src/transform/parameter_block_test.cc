// The pass on a few lines of PTX: what becomes of each use of a parameter, and what is refused. That transformed
// kernels leave the same as they did is tests/ptx_cases' (PtxInABlock).
#include "src/transform/parameter_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/signature.h"
#include "src/transform/kernel_fixture.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using testing::kernel_with;

Result<ptx::Module> transformed(const std::string& text) {
  PERGOLA_ASSIGN(ptx::Module module,
                 testing::passed(text, [](ptx::Module& each) { return to_parameter_block(each, "k"); }));
  EXPECT_TRUE(*ptx::parse(ptx::print(module), "k.ptx") == module) << ptx::print(module);
  return module;
}

std::string text_of(const std::string& body, const std::string& before = "") {
  const Result<ptx::Module> module = transformed(kernel_with(body, before));
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? ptx::print(*module) : "";
}

TEST(ParameterBlock, TheKernel_HasOneParameterOfEightBytes) {
  const Result<ptx::Module> module = transformed(kernel_with("ld.param.f32 %f1, [f];"));
  ASSERT_TRUE(module.ok()) << module.message();
  const auto signature = ptx::signature(*module, *module->find_function("k"));
  ASSERT_TRUE(signature.ok()) << signature.message();
  ASSERT_EQ(signature->parameters.size(), 1u);
  EXPECT_EQ(signature->parameter_bytes, 8u);
  EXPECT_EQ(signature->parameters[0].name, "k_block");
}

TEST(ParameterBlock, LoadsOfParameters_BecomeLoadsFromTheBlock) {
  const std::string text = text_of(
      "ld.param.u64 %rd1, [x]; ld.param.u16 %h1, [s]; ld.param.v2.f32 {%f1, %f2}, [t+8]; @%p1 ld.param.f32 %f3, [f];\n"
      "ld.param.u32 %r1, [x+32];");
  EXPECT_THAT(text, HasSubstr("ld.global.u64 %rd1, [%pergola_block];"));
  EXPECT_THAT(text, HasSubstr("ld.global.u16 %h1, [%pergola_block+8];"));
  EXPECT_THAT(text, HasSubstr("ld.global.v2.f32 {%f1, %f2}, [%pergola_block+24];"));
  EXPECT_THAT(text, HasSubstr("@%p1 ld.global.f32 %f3, [%pergola_block+32];"));
  EXPECT_THAT(text, HasSubstr("ld.global.u32 %r1, [%pergola_block+32];"));
}

TEST(ParameterBlock, Addresses_BecomeAddressesInTheBlock) {
  const std::string text = text_of(
      "mov.b64 %rd1, t; add.s64 %rd2, %rd1, 4; ld.param.u32 %r1, [%rd2+4]; @!%p1 cvta.param.u64 %rd3, %rd1;\n"
      "ld.u32 %r2, [%rd3]; cvta.to.param.u64 %rd4, %rd3;");
  EXPECT_THAT(text, HasSubstr("add.s64 %rd1, %pergola_block, 16;"));
  EXPECT_THAT(text, HasSubstr("ld.global.u32 %r1, [%rd2+4];"));
  EXPECT_THAT(text, HasSubstr("@!%p1 cvta.global.u64 %rd3, %rd1;"));
  EXPECT_THAT(text, HasSubstr("cvta.to.global.u64 %rd4, %rd3;"));
}

TEST(ParameterBlock, ParametersOfCalls_StayAsTheyAre) {
  const std::string text = text_of(
      "{ .param .b64 x; .param .b32 back; st.param.b64 [x], %rd1; call (back), g, (x); ld.param.b32 %r1, [back];\n"
      "ld.param.b64 %rd3, [x]; }\nld.param.u64 %rd2, [x];",
      ".func (.param .b32 r) g(.param .b64 x)\n{ .reg .b64 %q; ld.param.b64 %q, [x]; st.param.b32 [r], 1; ret; }\n");
  EXPECT_THAT(text, HasSubstr("ld.param.b64 %q, [x];"));
  EXPECT_THAT(text, HasSubstr("st.param.b64 [x], %rd1;"));
  EXPECT_THAT(text, HasSubstr("ld.param.b32 %r1, [back];"));
  EXPECT_THAT(text, HasSubstr("ld.param.b64 %rd3, [x];"));
  EXPECT_THAT(text, HasSubstr("ld.global.u64 %rd2, [%pergola_block];"));
}

TEST(ParameterBlock, OtherKernelsAndSections_Go) {
  const std::string text = text_of("ld.param.f32 %f1, [f];", ".visible .entry other(.param .u64 f)\n{ ret; }\n");
  EXPECT_THAT(text, Not(HasSubstr("other")));
}

TEST(ParameterBlock, ARegisterOfTheSameName_IsNotMet) {
  const std::string text = text_of(".reg .b64 %pergola_block; ld.param.u64 %pergola_block, [x];");
  EXPECT_THAT(text, HasSubstr("ld.global.u64 %pergola_block, [%pergola_block_];"));
}

TEST(ParameterBlock, WhatMemoryCannotDo_IsRefusedWithTheLine) {
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"frob.b32 %r1, f;", "is not understood"},
           {"frob.param.b32 %r1, [%rd1];", "is not understood"},
           {"isspacep.param %p1, %rd1;", "works on an address in .param"},
           {"mov.b64 %rd1, t; isspacep.global %p1, %rd1;", "asks for the space"},
           {"mov.b64 %rd1, t; prefetch.tensormap [%rd1];", "tensor map"},
       }) {
    const Result<ptx::Module> module = transformed(kernel_with(body));
    ASSERT_EQ(module.code(), Code::kUnsupported) << body;
    EXPECT_THAT(module.message(), HasSubstr("k.ptx:7: the parameters of kernel 'k' cannot lie in memory: `")) << body;
    EXPECT_THAT(module.message(), HasSubstr(why)) << body;
  }
}

TEST(ParameterBlock, AWordOfAnOpaqueInstruction_IsNoPartOfAName) {
  text_of("frob.b32 %r1, xf;");  // neither x nor f
}

TEST(ParameterBlock, NoSuchKernel_IsSaid) {
  Result<ptx::Module> module = ptx::parse(kernel_with(""), "k.ptx");
  ASSERT_TRUE(module.ok());
  const Status status = to_parameter_block(*module, "l");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("'l'"));
}

}  // namespace
}  // namespace pergola::transform
