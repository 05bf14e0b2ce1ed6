// Signatures: what reads as one, what is said of what does not, and what becomes of a kernel that is taken with one.
#include "src/session/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pergola::session {
namespace {

using ::testing::HasSubstr;

// As it is understood, or the error.
std::string read(std::string_view text) {
  const auto signature = parse_signature(text);
  return signature.ok() ? to_string(*signature) : signature.message();
}

TEST(ParseSignature, EveryLanguage_IsOne) {
  EXPECT_EQ(read("saxpy(x: in pointer float, y: inout pointer float, n: sint32, a: float)"),
            "saxpy(x: in pointer float, y: inout pointer float, n: sint32, a: float)");
  EXPECT_EQ(read("in pointer float, inout pointer float, sint32, float"),
            "(in pointer float, inout pointer float, sint32, float)");
  EXPECT_EQ(read("pointer, const pointer, pointer const, sint32, const float"),
            "(pointer, in pointer, in pointer, sint32, float)");
  EXPECT_EQ(read("input pointer, output pointer double, out pointer void, pointer char8"),
            "(in pointer, out pointer double, out pointer, pointer uint8)");
  EXPECT_EQ(read("cxx math::norm<float, 3>(\n  in: pointer sll64, out: half\n) : void"),
            "math::norm<float, 3>(in: pointer sint64, out: half)");
  EXPECT_EQ(read(""), "()");
  EXPECT_EQ(read(" ( ) "), "()");
  EXPECT_EQ(read("k()"), "k()");
}

TEST(ParseSignature, TypesAreThoseOfGrCuda) {
  EXPECT_EQ(read("bool, char, sint8, uint8, char8, sint16, uint16, char16, sint32, wchar, uint32, char32"),
            "(bool, sint8, sint8, uint8, uint8, sint16, uint16, uint16, sint32, sint32, uint32, uint32)");
  EXPECT_EQ(read("sint64, sll64, uint64, ull64, half, float, double"),
            "(sint64, sint64, uint64, uint64, half, float, double)");
}

struct Wrong {
  const char* text;
  const char* message;
};

TEST(ParseSignature, WhatIsWrong_IsToldWithColumnAndMend) {
  const Wrong cases[] = {
      {"in pointer float, int", "column 19: 'int' is no type of NIDL: write 'sint32'."},
      {"x: in pointer flaot", "column 15: a type should stand here, not 'flaot': bool, char, sint8,"},
      {"pointer,, float", "column 9: a type should stand here, not ','"},
      {"pointer,", "column 9: a type should stand here, not the end"},
      {"in sint32", "column 1: a number has no direction: leave 'in' out, or write 'in pointer sint32'."},
      {"n: output float", "column 4: a number has no direction: leave 'out' out, or write 'out pointer float'."},
      {"void", "column 1: no parameter is 'void': leave it out, or write 'pointer'."},
      {"in pointer pointer", "column 12: a pointer to pointers has no type here"},
      {"pointer in", "column 9: 'in' should stand ahead of 'pointer'."},
      {"in pointer float const", "column 18: the parameter has two directions: leave one out."},
      {"in out pointer", "column 4: a type should stand here, not 'out'"},
      {"k(pointer", "column 10: ',' or ')' should stand here, not the end."},
      {"k(pointer) float", "column 12: nothing should stand here, not 'float'."},
      {"k(pointer): sint32", "column 13: a kernel returns nothing: 'void' should stand here, not 'sint32'."},
      {"pointer float)", "column 14: ',' should stand here, not ')'."},
      {"k[3](pointer)", "column 2: '[' is in no kernel's name"},
      {"cxx (pointer)", "column 1: after 'cxx' the kernel's name should stand."},
      {"pointer float,\n  n: long", "line 2, column 6: 'long' is no type of NIDL: write 'sint64'."},
      {"pointer \x80", "column 9: ',' should stand here, not a byte 0x80."},
      {"string", "column 1: 'string' is no type of NIDL: write 'pointer char'."},
  };
  for (const Wrong& wrong : cases) {
    const auto signature = parse_signature(wrong.text);
    EXPECT_EQ(signature.code(), Code::kParseError) << wrong.text;
    if (!signature.ok()) {
      EXPECT_THAT(signature.message(), HasSubstr(std::string("The signature is wrong at ") + wrong.message));
    }
  }
}

ParameterInfo parameter(const char* name, ParameterKind kind, std::uint32_t size, Access access = Access::kNone) {
  ParameterInfo info;
  info.name = name;
  info.kind = kind;
  info.size_bytes = size;
  info.access = access;
  return info;
}

// gather(table, y, n, a): table is read beyond doubt, y written; rows are reached through addresses in table.
KernelInfo gather() {
  KernelInfo kernel;
  kernel.name = "gather";
  kernel.parameters = {parameter("p0", ParameterKind::kInteger, 8, Access::kRead),
                       parameter("p1", ParameterKind::kInteger, 8, Access::kWrite),
                       parameter("p2", ParameterKind::kInteger, 4), parameter("p3", ParameterKind::kFloat, 4)};
  kernel.parameters[0].surely_read = "`ld.global.u64 %rd4, [%rd1];` at g.ptx:9:1";
  kernel.parameters[0].reason = "read by " + kernel.parameters[0].surely_read;
  kernel.parameters[1].surely_written = "`st.global.f32 [%rd2], %f1;` at g.ptx:12:1";
  kernel.universal_access = Access::kRead;
  kernel.universal_reason = "read by something";
  return kernel;
}

Result<KernelInfo> apply(const KernelInfo& kernel, std::string_view text) {
  PERGOLA_ASSIGN(const Signature signature, parse_signature(text));
  return apply_signature(kernel, signature);
}

std::string refusal(const KernelInfo& kernel, std::string_view text) {
  const auto applied = apply(kernel, text);
  EXPECT_EQ(applied.code(), Code::kInvalidArgument);
  return applied.ok() ? "applied" : applied.message();
}

TEST(ApplySignature, DirectionForEachPointer_EndsUniversality) {
  const auto all = apply(gather(), "x: in pointer uint64, out pointer float, sint32, float");
  ASSERT_TRUE(all.ok()) << all.message();
  EXPECT_EQ(all->universal_access, Access::kNone);
  EXPECT_EQ(all->universal_reason, "");
  EXPECT_EQ(all->parameters[0].access, Access::kRead);
  EXPECT_EQ(all->parameters[0].kind, ParameterKind::kPointer);
  EXPECT_EQ(all->parameters[0].direction, Direction::kIn);
  EXPECT_EQ(all->parameters[0].declaration, "x: in pointer uint64");
  EXPECT_EQ(all->parameters[0].reason, "declared 'in'; in the PTX read by `ld.global.u64 %rd4, [%rd1];` at g.ptx:9:1");
  EXPECT_EQ(all->parameters[1].access, Access::kWrite);

  for (const char* text : {"in pointer, pointer, sint32, float", "pointer, pointer, sint32, float"}) {
    const auto some = apply(gather(), text);
    ASSERT_TRUE(some.ok()) << some.message();
    EXPECT_EQ(some->universal_access, Access::kRead) << text;
    EXPECT_EQ(some->universal_reason, "read by something");
    EXPECT_EQ(some->parameters[1].access, Access::kWrite) << "as in the PTX";
  }
}

TEST(ApplySignature, NumberInThePtx_IsNoArgument) {
  KernelInfo kernel = gather();
  kernel.absolute_access = Access::kWrite;
  kernel.absolute_reason = "written at 4096";
  const auto applied = apply(kernel, "in pointer, out pointer, sint32, float");
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(applied->universal_access, Access::kWrite);
  EXPECT_EQ(applied->universal_reason, "written at 4096");
}

TEST(ApplySignature, WithoutPointers_NothingIsSaidOfMemory) {
  KernelInfo kernel = gather();
  kernel.parameters.erase(kernel.parameters.begin(), kernel.parameters.begin() + 2);
  const auto applied = apply(kernel, "n: sint32, a: float");
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(applied->universal_access, Access::kRead);
}

TEST(ApplySignature, WhatThePtxLeavesOpen_IsBelieved) {
  KernelInfo kernel = gather();
  for (ParameterInfo& open : kernel.parameters) {
    open.surely_read.clear();
    open.surely_written.clear();
  }
  kernel.parameters[0].access = kernel.parameters[1].access = Access::kReadWrite;
  kernel.parameters[1].is_sole_base = true;
  const auto applied = apply(kernel, "in pointer, n: uint64, sint32, float");
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(applied->parameters[0].access, Access::kRead);
  EXPECT_EQ(applied->parameters[1].access, Access::kNone);
  EXPECT_FALSE(applied->parameters[1].is_sole_base);
  EXPECT_EQ(applied->parameters[1].kind, ParameterKind::kInteger);
}

TEST(ApplySignature, DirectionThatThePtxContradicts_IsRefusedWithTheInstruction) {
  EXPECT_EQ(
      refusal(gather(), "in pointer, y: const pointer float, sint32, float"),
      "The signature declares parameter 1 (p1) of kernel 'gather' as 'y: in pointer float', and the kernel writes "
      "through it, by `st.global.f32 [%rd2], %f1;` at g.ptx:12:1: declare it 'out'.");
  EXPECT_EQ(refusal(gather(), "out pointer, pointer float, sint32, float"),
            "The signature declares parameter 0 (p0) of kernel 'gather' as 'out pointer', and the kernel reads through "
            "it, by `ld.global.u64 %rd4, [%rd1];` at g.ptx:9:1: declare it 'in'.");
  EXPECT_EQ(refusal(gather(), "pointer, y: uint64, sint32, float"),
            "The signature declares parameter 1 (p1) of kernel 'gather' as 'y: uint64', and the kernel writes through "
            "it, by `st.global.f32 [%rd2], %f1;` at g.ptx:12:1: declare it 'out pointer'.");
  KernelInfo both = gather();
  both.parameters[1].access = Access::kReadWrite;
  EXPECT_THAT(refusal(both, "in pointer, in pointer, sint32, float"), HasSubstr("declare it 'inout'."));
  EXPECT_TRUE(apply(gather(), "inout pointer, inout pointer, sint32, float").ok());
}

// Integers may be the bits of anything.
TEST(ApplySignature, FloatsForDoubles_AreRefusedWithTheInstruction) {
  KernelInfo kernel = gather();
  kernel.parameters[1].surely_f32 = kernel.parameters[1].surely_written;
  EXPECT_TRUE(apply(kernel, "in pointer, pointer double, sint32, float").ok()) << "something else may be there, too";
  kernel.parameters[1].is_all_f32 = true;
  EXPECT_EQ(
      refusal(kernel, "in pointer, y: out pointer double, sint32, float"),
      "The signature declares parameter 1 (p1) of kernel 'gather' as 'y: out pointer double', and the kernel uses "
      "floats there alone, by `st.global.f32 [%rd2], %f1;` at g.ptx:12:1: declare it 'y: out pointer float'.");
  for (const char* const type : {"", " float", " sint32", " uint64", " uint8"}) {
    const std::string text = std::string("in pointer, out pointer") + type + ", sint32, float";
    EXPECT_TRUE(apply(kernel, text.c_str()).ok()) << type;
  }
  kernel.parameters[1].surely_f64 = std::exchange(kernel.parameters[1].surely_f32, "");
  std::swap(kernel.parameters[1].is_all_f32, kernel.parameters[1].is_all_f64);
  EXPECT_THAT(
      refusal(kernel, "in pointer, pointer float, sint32, float"),
      HasSubstr(
          "uses doubles there alone, by `st.global.f32 [%rd2], %f1;` at g.ptx:12:1: declare it 'pointer double'."));
  kernel.parameters[1].is_all_f64 = false;
  EXPECT_TRUE(apply(kernel, "in pointer, pointer float, sint32, float").ok());
}

TEST(ParseSignature, TwoOfOneName_AreRefused) {
  EXPECT_THAT(parse_signature("x: pointer, y: pointer, x: sint32").message(),
              HasSubstr("column 34: two parameters before here are called 'x'."));
  EXPECT_TRUE(parse_signature("pointer, pointer").ok());
}

TEST(ApplySignature, OtherShapes_AreRefused) {
  EXPECT_EQ(refusal(gather(), "pointer, pointer, sint32"),
            "The signature declares 3 parameters; kernel 'gather' has 4: p0 (an array or an 8-byte integer), p1 (an "
            "array or an 8-byte integer), p2 (a 4-byte integer), p3 (a float). Declare each.");
  EXPECT_EQ(refusal(gather(), "pointer, pointer, sint64, float"),
            "The signature declares parameter 2 (p2) of kernel 'gather' as 'sint64', and in the PTX it is a 4-byte "
            "integer: declare it 'sint32'.");
  EXPECT_THAT(refusal(gather(), "pointer, pointer, sint32, double"), HasSubstr("it is a float: declare it 'float'."));
  EXPECT_THAT(refusal(gather(), "pointer, pointer, in pointer, float"),
              HasSubstr("as 'in pointer', and in the PTX it is a 4-byte integer: declare it 'sint32'."));
  EXPECT_THAT(refusal(gather(), "float, pointer, sint32, float"), HasSubstr("declare it 'pointer' or 'sint64'."));
  KernelInfo kernel = gather();
  kernel.parameters[3] = parameter("p3", ParameterKind::kStruct, 24);
  EXPECT_THAT(
      refusal(kernel, "pointer, pointer, sint32, float"),
      HasSubstr("it is a struct of 24 bytes: no signature has a word for that, so take the kernel without one."));
}

TEST(ApplySignature, WhatPtxDoesNotTell_IsTold) {
  KernelInfo kernel = gather();
  kernel.parameters[2].kind = kernel.parameters[3].kind = ParameterKind::kBits;
  const auto applied = apply(kernel, "pointer, pointer, uint32, float");
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(applied->parameters[2].kind, ParameterKind::kInteger);
  EXPECT_EQ(applied->parameters[3].kind, ParameterKind::kFloat);
  kernel.parameters[3] = parameter("p3", ParameterKind::kStruct, 2);
  EXPECT_TRUE(apply(kernel, "pointer, pointer, uint32, half").ok()) << "CUDA's __half is a struct";
}

}  // namespace
}  // namespace pergola::session
