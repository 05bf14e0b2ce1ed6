// The pass on a few lines of PTX: which loads become numbers, and what is refused. That kernels leave what they leave
// without is tests/ptx_cases' (PtxConstants) and tests/blocks'.
#include "src/transform/constant_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "src/ptx/printer.h"
#include "src/transform/kernel_fixture.h"

namespace pergola::transform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using testing::kernel_with;

// Of kernel_with()'s: x is 200, s is -2, the words of t are 7, 0xffffffff, 9 and 10, f is 1.
std::vector<std::byte> parameters() {
  std::vector<std::byte> bytes(36);
  const auto put = [&](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, std::uint64_t{200}), put(8, std::int16_t{-2}), put(32, 1.0f);
  put(16, 7u), put(20, ~0u), put(24, 9u), put(28, 10u);
  return bytes;
}

Result<std::vector<ConstantParameter>> constants_of(const std::string& body,
                                                    std::vector<std::byte> given = parameters()) {
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(kernel_with(body), "k.ptx"));
  PERGOLA_TRY(ptx::verify(module));
  PERGOLA_ASSIGN(const std::vector<ParameterPlace> places, constant_places(module, "k"));
  return constants_at(places, given);
}

std::string text_with_constants(const std::string& body) {
  const Result<std::vector<ConstantParameter>> constants = constants_of(body);
  EXPECT_TRUE(constants.ok()) << constants.message();
  if (!constants.ok()) return "";
  const Result<ptx::Module> module =
      testing::passed(kernel_with(body), [&](ptx::Module& of) { return make_constant(of, "k", *constants); });
  EXPECT_TRUE(module.ok()) << module.message();
  return module.ok() ? ptx::print(*module) : "";
}

TEST(ConstantParameters, WholeNumbers_BecomeNumbersOfTheirRegistersWidth) {
  const std::string text = text_with_constants(
      "ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [x]; ld.param.s16 %r2, [s]; ld.param.u16 %r3, [s]; "
      "ld.param.u16 %h1, [s]; ld.param.b32 %r4, [t+4]; @%p1 ld.param.u32 %r5, [t+8]; ld.param.u8 %r6, [s];");
  for (const char* line :
       {".entry k_constants(", "mov.u64 %rd1, 200;", "mov.u32 %r1, 200;", "mov.u32 %r2, -2;", "mov.u32 %r3, 65534;",
        "mov.u16 %h1, -2;", "mov.u32 %r4, -1;", "@%p1 mov.u32 %r5, 9;", "mov.u32 %r6, 254;"})
    EXPECT_THAT(text, HasSubstr(line)) << text;
  EXPECT_THAT(text, Not(HasSubstr("ld.param")));
}

TEST(ConstantParameters, WhatIsNoWholeNumber_OrAnAddress_StaysALoad) {
  const std::string text = text_with_constants(
      "ld.param.f32 %f1, [f]; ld.param.b32 %r1, [f]; mov.b32 %f2, %r1; ld.param.v2.u32 {%r2, %r3}, [t]; "
      "ld.param.u32 %r4, [t+8]; ld.param.b32 %r5, [t]; add.f32 %f3, %f1, %r5;");
  for (const char* line :
       {"ld.param.f32 %f1", "ld.param.b32 %r1", "ld.param.v2.u32", "mov.u32 %r4, 9;", "ld.param.b32 %r5"})
    EXPECT_THAT(text, HasSubstr(line)) << text;
  std::vector<std::byte> address = parameters();
  const std::uint64_t high = 0x7f00'0000'0000;
  std::memcpy(address.data(), &high, sizeof high);
  const auto constants = constants_of("ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [t];", address);
  ASSERT_TRUE(constants.ok()) << constants.message();
  EXPECT_THAT(*constants, ElementsAre(ConstantParameter{{16, 4}, 7}));
  EXPECT_THAT(*constants_of("ld.param.u64 %rd1, [x];", address), IsEmpty());
  EXPECT_THAT(*constants_of("ld.param.u32 %r1, [t];", std::vector<std::byte>(18)), IsEmpty()) << "it is not there";
}

TEST(ConstantParameters, OneThatIsLoadedTwice_IsOne) {
  EXPECT_THAT(*constants_of("ld.param.u32 %r1, [t]; ld.param.u32 %r2, [t]; ld.param.u16 %r3, [t];"),
              ElementsAre(ConstantParameter{{16, 2}, 7}, ConstantParameter{{16, 4}, 7}));
}

// ptxas makes `div.full` by a constant a product, and of a product by a constant 1 the sum's: what it does with more
// than a GPU would see is not looked for, there is just none of it.
TEST(ConstantParameters, WhereTheLastBitMightBeAnother_ItIsRefused) {
  const std::string n = "ld.param.u32 %r1, [t]; ld.param.u64 %rd1, [x]; ld.global.f32 %f1, [%rd1];\n";
  const std::pair<const char*, const char*> cases[] = {
      {"mul.f32 %f2, %f1, %f1;", "may become one operation with a sum, or not"},
      {"mul.ftz.f32 %f2, %f1, %f1;", "may become one operation with a sum, or not"},
      {"mul.f16x2 %r2, %r3, %r4;", "may become one operation with a sum, or not"},
      {"rcp.approx.f32 %f2, %f1;", "approximates"},
      {"div.full.f32 %f2, %f1, %f1;", "approximates"},
      {"ex2.approx.ftz.f32 %f2, %f1;", "approximates"},
      {"sqrt.approx.f32 %f2, %f1;", "approximates"},
  };
  for (const auto& [body, words] : cases) {
    const auto constants = constants_of(n + body);
    ASSERT_FALSE(constants.ok()) << body;
    EXPECT_EQ(constants.code(), Code::kUnsupported) << body;
    EXPECT_THAT(constants.message(), HasSubstr("k.ptx:8: whole numbers of kernel 'k' cannot be constants: `")) << body;
    EXPECT_THAT(constants.message(), HasSubstr(words)) << body;
  }
  for (const char* body : {"fma.rn.f32 %f2, %f1, %f1, %f1; add.f32 %f1, %f1, %f2; sub.f32 %f1, %f1, %f2;",
                           "mul.rn.f32 %f2, %f1, %f1; div.rn.f32 %f3, %f1, %f1; sqrt.rn.f32 %f2, %f1;",
                           "cvt.rn.f32.u32 %f2, %r1; max.f32 %f2, %f2, %f1;", "mul.lo.u32 %r2, %r1, 3;",
                           "mad.wide.u32 %rd2, %r1, 4, %rd1;"}) {
    const auto constants = constants_of(n + body);
    EXPECT_TRUE(constants.ok()) << body << constants.message();
  }
}

// What is not one number in one register, or does not lie in the parameters.
TEST(ConstantParameters, OtherLoads_StayAsTheyAre) {
  for (const char* body : {".reg .v2 .b32 %w; ld.param.v2.u32 %w, [t];", "ld.param.u32 %r1, [t+4294967276];",
                           "ld.param.u32 %r1, [t+18];", "ld.param.u32 %r1, [x-4];", "ld.param.u32 %v.x, [t];",
                           "{ .param .b32 t; ld.param.u32 %r1, [t]; }", ".reg .b128 %q; mov.b128 %q, {%rd1, %rd2};"}) {
    const Result<std::vector<ConstantParameter>> constants = constants_of(body);
    ASSERT_TRUE(constants.ok()) << body << constants.message();
    EXPECT_THAT(*constants, IsEmpty()) << body;
  }
  EXPECT_THAT(*constants_of("ld.param.u32 %r1, [f-4];"), ElementsAre(ConstantParameter{{28, 4}, 10}));
}

// Of functions those that the kernel calls.
TEST(ConstantParameters, FunctionsThatItCalls_AreLookedAt) {
  const std::string product = ".func (.reg .f32 %o) half(.reg .f32 %i) { mul.f32 %o, %i, 0f3F000000; ret; }\n";
  for (const bool calls : {false, true}) {
    const Result<ptx::Module> module = ptx::parse(
        kernel_with(std::string("ld.param.u32 %r1, [t];") + (calls ? "call (%f1), half, (%f2);" : ""), product),
        "k.ptx");
    ASSERT_TRUE(module.ok()) << module.message();
    EXPECT_EQ(constant_places(*module, "k").code(), calls ? Code::kUnsupported : Code::kOk);
    EXPECT_EQ(constant_places(*module, "half").code(), Code::kNotFound);
  }
}

TEST(ConstantParameters, WithoutSuchAKernel_ItIsSaid) {
  Result<ptx::Module> module = ptx::parse(kernel_with(""), "k.ptx");
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(constant_places(*module, "other").code(), Code::kNotFound);
  EXPECT_EQ(make_constant(*module, "other", {}).code(), Code::kNotFound);
}

}  // namespace
}  // namespace pergola::transform
