// Each mechanism of the pointer analysis on a few lines of PTX. An answer is written as one letter a parameter
// (- neither, r read, w write, b both), then, after a bar, the universal mode: "rw|-".
#include "src/analysis/pointer_modes.h"

#include <gtest/gtest.h>

#include <span>

#include "src/ptx/parser.h"

namespace pergola::analysis {
namespace {

char letter(AccessMode mode) { return "-rwb"[static_cast<int>(mode)]; }

// What `describe` says of the pointers of the first kernel, or why there are none.
std::string described(const std::string& text, std::string (*describe)(const PointerModes& modes)) {
  const auto module = ptx::parse(text, "test.ptx");
  if (!module.ok()) return module.message();
  const auto modes = pointer_modes(*module, *module->entries().at(0));
  return modes.ok() ? describe(*modes) : modes.message();
}

std::string modes_of(const std::string& text) {
  return described(text, [](const auto& modes) {
    std::string answer;
    for (const PointerParameter& parameter : modes.parameters) answer += letter(parameter.mode);
    return answer + "|" + letter(modes.universal);
  });
}

constexpr const char* kHeader = ".version 8.3\n.target sm_90\n.address_size 64\n";

// A kernel of four .u64 parameters a, b, c, d (in %rd1..%rd4, as global pointers) and a .u32 n (%r1, %rd5 widened).
std::string kernel(const std::string& body, const std::string& module_scope = "") {
  return kHeader + module_scope +
         ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 n)\n{\n"
         ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .f32 %f<8>;\n.reg .f64 %fd<8>;\n"
         ".reg .b64 %rd<32>;\n"
         "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [c];\nld.param.u64 %rd4, [d];\n"
         "ld.param.u32 %r1, [n];\ncvt.u64.u32 %rd5, %r1;\nsetp.eq.u32 %p1, %r1, 0;\n" +
         body + "\nret;\n}\n";
}

struct Case {
  const char* name;
  const char* body;
  const char* expected;
  const char* module_scope = "";
};

class PointerModes : public testing::TestWithParam<Case> {};

TEST_P(PointerModes, Answer_IsExpected) {
  EXPECT_EQ(modes_of(kernel(GetParam().body, GetParam().module_scope)), GetParam().expected);
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Arithmetic, PointerModes, testing::Values(
    Case{"Nothing", "", "----|-"},
    Case{"Plain", "ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd2+4], %f1;", "rw--|-"},
    Case{"Generic", "cvta.to.global.u64 %rd6, %rd1; ld.f32 %f1, [%rd6]; st.f32 [%rd2], %f1;", "rw--|-"},
    Case{"Index", "mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd1, %rd6; ld.global.f32 %f1, [%rd7];", "r---|-"},
    Case{"MadWide", "mad.wide.u32 %rd6, %r1, 4, %rd1; st.global.u32 [%rd6], %r1;", "w---|-"},
    Case{"MadLo", "mad.lo.s64 %rd6, %rd5, 4, %rd1; st.global.u32 [%rd6], %r1;", "w---|-"},
    Case{"IndexLoaded32", "ld.global.u32 %r2, [%rd1]; mad.wide.s32 %rd6, %r2, 4, %rd2; st.global.u32 [%rd6], %r1;",
         "rw--|-"},
    Case{"IndexLoaded64Scaled",
         "ld.global.u64 %rd6, [%rd1]; shl.b64 %rd7, %rd6, 2; add.s64 %rd8, %rd2, %rd7; st.global.u32 [%rd8], %r1;",
         "rw--|-"},
    Case{"IndexLoaded64MayBeThePointer",
         "ld.global.u64 %rd6, [%rd1]; add.s64 %rd7, %rd2, %rd6; st.global.u8 [%rd7], %r1;", "rw--|w"},
    Case{"IndexIsParameter", "add.s64 %rd6, %rd1, %rd2; st.global.u8 [%rd6], %r1;", "ww--|-"},
    Case{"IndexIsScaledParameter", "shl.b64 %rd6, %rd2, 2; add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], %r1;",
         "w---|-"},
    Case{"ScaledTwiceIsNotScaled",
         "mul.lo.s64 %rd6, %rd2, 3; shl.b64 %rd7, %rd2, 1; sub.s64 %rd8, %rd6, %rd7; add.s64 %rd9, %rd8, %rd1;"
         "st.global.u32 [%rd9], %r1;", "ww--|-"},
    Case{"FactorTakenBack",
         "mul.lo.s64 %rd6, %rd2, 3; mad.lo.s64 %rd6, %rd1, -3, %rd6; mul.lo.s64 %rd6, %rd6, 0xAAAAAAAAAAAAAAAB;"
         "add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], %r1;", "ww--|-"},
    Case{"Difference",
         "sub.s64 %rd6, %rd2, %rd1; add.s64 %rd7, %rd3, %rd6; st.global.u8 [%rd7], %r1;", "www-|-"},
    Case{"DifferenceOfElements",
         "sub.s64 %rd6, %rd2, %rd1; shr.s64 %rd7, %rd6, 2; shl.b64 %rd8, %rd7, 2; add.s64 %rd9, %rd1, %rd8;"
         "st.global.u32 [%rd9], %r1;", "ww--|-"},
    Case{"Xor", "xor.b64 %rd6, %rd1, %rd2; st.global.u8 [%rd6], %r1;", "ww--|w"},
    Case{"XorTwice", "xor.b64 %rd6, %rd1, %rd2; xor.b64 %rd7, %rd6, %rd1; st.global.u8 [%rd7], %r1;", "ww--|w"},
    Case{"XorWithLoaded",
         "ld.global.u64 %rd6, [%rd2]; xor.b64 %rd7, %rd1, %rd6; st.global.u8 [%rd7], %r1;", "wr--|w"},
    Case{"Align", "add.s64 %rd6, %rd1, 15; and.b64 %rd7, %rd6, -16; st.global.u32 [%rd7], %r1;", "w---|-"},
    Case{"Tagged", "shl.b64 %rd6, %rd1, 16; shr.u64 %rd7, %rd6, 16; ld.global.u32 %r2, [%rd7];", "r---|-"},
    Case{"UntagByMask", "and.b64 %rd6, %rd1, 0xffffffffffff; add.s64 %rd7, %rd6, %rd5; ld.global.u32 %r2, [%rd7];",
         "r---|-"},
    Case{"Misalignment", "and.b64 %rd6, %rd2, 15; add.s64 %rd7, %rd1, %rd6; ld.global.u8 %h1, [%rd7];", "r---|-"},
    Case{"TopHalfOfOne",
         "and.b64 %rd6, %rd1, 0xffffffff00000000; ld.global.u32 %r2, [%rd2]; cvt.u64.u32 %rd7, %r2;"
         "or.b64 %rd8, %rd6, %rd7; ld.global.u32 %r3, [%rd8];", "rr--|r"},
    Case{"Quotient",
         "ld.global.u64 %rd6, [%rd1]; rem.u64 %rd7, %rd6, %rd5; add.s64 %rd8, %rd2, %rd7; st.global.u8 [%rd8], %r1;",
         "rw--|-"},
    Case{"HashedKey",
         "ld.global.u64 %rd6, [%rd1]; xor.b64 %rd7, %rd6, 12345; and.b64 %rd8, %rd7, %rd5; shl.b64 %rd9, %rd8, 2;"
         "add.s64 %rd10, %rd2, %rd9; st.global.u32 [%rd10], %r1;", "rw--|-"},
    Case{"Histogram",
         "ld.global.u32 %r2, [%rd1]; shr.u32 %r3, %r2, 4; and.b32 %r4, %r3, 255; mad.wide.u32 %rd6, %r4, 4, %rd2;"
         "red.global.add.u32 [%rd6], 1;", "rb--|-"},
    Case{"FloatIndex",
         "ld.global.f64 %fd1, [%rd1]; add.f64 %fd2, %fd1, 0d3FF0000000000000; cvt.rzi.s64.f64 %rd6, %fd2;"
         "shl.b64 %rd7, %rd6, 2; add.s64 %rd8, %rd2, %rd7; st.global.u32 [%rd8], %r1;", "rw--|-"},
    Case{"AbsoluteAddress", "mov.u64 %rd6, 4096; st.global.u32 [%rd6], %r1;", "----|w"},
    Case{"CompiledInAddress", "mov.u64 %rd6, 0x7f1200000000; add.s64 %rd7, %rd6, %rd1; st.global.u32 [%rd7], %r1;",
         "w---|w"},
    Case{"NeverAssigned", "st.global.u32 [%rd20], %r1;", "----|w"},
    Case{"UndefinedIndex",
         "mad.wide.u32 %rd6, %r20, 4, %rd1; ld.global.u32 %r2, [%rd6]; add.u32 %r21, %r21, 1;"
         "mul.wide.u32 %rd7, %r21, 4; add.s64 %rd8, %rd2, %rd7; st.global.u32 [%rd8], %r2;", "rw--|-"},
    Case{"ThroughDouble",
         "cvt.rn.f64.u64 %fd1, %rd1; cvt.rzi.u64.f64 %rd6, %fd1; st.global.u32 [%rd6], %r1;", "w---|-"}),
    case_name);

// A 64-bit value out of memory may be the address, and the parameter that is added to it the offset.
INSTANTIATE_TEST_SUITE_P(LoadedAddress, PointerModes, testing::Values(
    Case{"Tagged",
         "ld.global.u64 %rd6, [%rd1]; shr.u64 %rd7, %rd6, 16; add.s64 %rd8, %rd7, %rd2; st.global.u32 [%rd8], %r1;",
         "rw--|w"},
    Case{"TaggedBehindShiftLeft",
         "ld.global.u64 %rd6, [%rd1]; shl.b64 %rd7, %rd6, 16; shr.s64 %rd7, %rd7, 16; add.s64 %rd8, %rd7, %rd2;"
         "st.global.u32 [%rd8], %r1;", "rw--|w"},
    Case{"Remainder",
         "ld.global.u64 %rd6, [%rd1]; rem.u64 %rd7, %rd6, 281474976710656; add.s64 %rd8, %rd7, %rd2;"
         "st.global.u32 [%rd8], %r1;", "rw--|w"},
    Case{"Quotient",
         "ld.global.u64 %rd6, [%rd1]; div.u64 %rd7, %rd6, 65536; add.s64 %rd8, %rd7, %rd2; st.global.u32 [%rd8], %r1;",
         "rw--|w"},
    Case{"Double",
         "ld.global.f64 %fd1, [%rd1]; cvt.rzi.u64.f64 %rd7, %fd1; add.s64 %rd8, %rd7, %rd2; st.global.u32 [%rd8], %r1;",
         "rw--|w"},
    Case{"HalvesByProducts",
         "ld.global.v2.u32 {%r2, %r3}, [%rd1]; cvt.u64.u32 %rd6, %r2; cvt.u64.u32 %rd7, %r3;"
         "mul.lo.u64 %rd7, %rd7, 65535; mul.lo.u64 %rd8, %rd7, 65537; add.u64 %rd8, %rd8, %rd7;"
         "add.u64 %rd6, %rd6, %rd8; add.u64 %rd6, %rd6, %rd2; st.global.u32 [%rd6], %r1;", "rw--|w"},
    Case{"SmallRemainderIsAnIndex",
         "ld.global.u64 %rd6, [%rd1]; rem.u64 %rd7, %rd6, 1000; add.s64 %rd8, %rd7, %rd2; st.global.u8 [%rd8], %r1;",
         "rw--|-"},
    Case{"UpperHalfIsAnIndex",
         "ld.global.u64 %rd6, [%rd1]; shr.u64 %rd7, %rd6, 32; add.s64 %rd8, %rd7, %rd2; st.global.u8 [%rd8], %r1;",
         "rw--|-"},
    Case{"QuotientOfElements",
         "ld.global.u64 %rd6, [%rd1]; div.u64 %rd7, %rd6, 1000; shl.b64 %rd7, %rd7, 2; add.s64 %rd8, %rd7, %rd2;"
         "st.global.u32 [%rd8], %r1;", "rw--|-"},
    Case{"HashOf32Bits",
         "ld.global.u32 %r2, [%rd1]; cvt.u64.u32 %rd6, %r2; mul.lo.u64 %rd6, %rd6, 0x100000001b3;"
         "rem.u64 %rd7, %rd6, %rd5; shl.b64 %rd7, %rd7, 2; add.s64 %rd8, %rd7, %rd2; st.global.u32 [%rd8], %r1;",
         "rw--|-"},
    Case{"StrideOf32Bits",
         "ld.global.u32 %r2, [%rd1]; mul.wide.u32 %rd6, %r2, 12; mad.lo.s64 %rd7, %rd6, 5, %rd2;"
         "st.global.u32 [%rd7], %r1;", "rw--|-"}),
    case_name);

// Either of two addends may be null, and the other the address.
INSTANTIATE_TEST_SUITE_P(Null, PointerModes, testing::Values(
    Case{"OtherIsLoaded",
         "selp.b64 %rd6, %rd1, 0, %p1; ld.global.u64 %rd7, [%rd2]; shr.u64 %rd7, %rd7, 16;"
         "selp.b64 %rd8, 0, %rd7, %p1; add.s64 %rd9, %rd6, %rd8; ld.global.u32 %r2, [%rd9];", "rr--|r"},
    Case{"OtherIsLoadedAndScaled",
         "selp.b64 %rd6, %rd1, 0, %p1; ld.global.u64 %rd7, [%rd2]; shl.b64 %rd7, %rd7, 3; add.s64 %rd8, %rd7, %rd6;"
         "ld.global.u32 %r2, [%rd8];", "rr--|r"},
    Case{"OtherIsAScaledParameter",
         "selp.b64 %rd6, %rd1, 0, %p1; shl.b64 %rd7, %rd2, 3; add.s64 %rd8, %rd6, %rd7; ld.global.u32 %r2, [%rd8];",
         "rr--|-"},
    Case{"ByBranch",
         "mov.u64 %rd6, 0; @%p1 bra L; mov.b64 %rd6, %rd1; L: ld.global.u64 %rd7, [%rd2];"
         "mad.lo.s64 %rd8, %rd7, 8, %rd6; ld.global.u32 %r2, [%rd8];", "rr--|r"},
    Case{"NumberInstead", "selp.b64 %rd6, %rd1, 4096, %p1; ld.global.u32 %r2, [%rd6];", "r---|r"},
    Case{"NullInstead", "selp.b64 %rd6, %rd1, 0, %p1; ld.global.u32 %r2, [%rd6+8];", "r---|-"}),
    case_name);

// A pointer that is rebuilt by branches on its bits: the flow of data does not show it.
INSTANTIATE_TEST_SUITE_P(Exposed, PointerModes, testing::Values(
    Case{"BitByBit",
         "mov.u64 %rd6, %rd2; mov.u64 %rd8, 1; L: xor.b64 %rd7, %rd1, %rd2; and.b64 %rd7, %rd7, %rd8;"
         "setp.eq.s64 %p2, %rd7, 0; @%p2 bra M; xor.b64 %rd6, %rd6, %rd8; M: shl.b64 %rd8, %rd8, 1;"
         "setp.ne.s64 %p3, %rd8, 0; @%p3 bra L; st.global.u32 [%rd6], %r1;", "-w--|w"},
    Case{"ByOrder", "setp.gt.u64 %p2, %rd1, %rd5; selp.b64 %rd6, 1, 2, %p2; xor.b64 %rd7, %rd2, %rd6;"
         "st.global.u32 [%rd7], %r1;", "-w--|w"},
    Case{"ByShiftAmount", "shr.u64 %rd6, 12345, %rd1; xor.b64 %rd7, %rd2, %rd6; st.global.u32 [%rd7], %r1;",
         "-w--|w"},
    Case{"ByCarry", "add.cc.u64 %rd6, %rd1, 12345; addc.u64 %rd6, 0, 0; xor.b64 %rd7, %rd2, %rd6;"
         "st.global.u32 [%rd7], %r1;", "-w--|w"},
    Case{"ByLocalTable",
         ".local .align 8 .b8 l[64]; st.local.u64 [l], 1; mov.u64 %rd6, l; and.b64 %rd7, %rd1, 56;"
         "add.s64 %rd6, %rd6, %rd7; ld.local.u64 %rd8, [%rd6]; xor.b64 %rd9, %rd2, %rd8; st.global.u32 [%rd9], %r1;",
         "-w--|w"},
    Case{"ByCount", "popc.b64 %r2, %rd1; cvt.u64.u32 %rd6, %r2; xor.b64 %rd7, %rd2, %rd6; st.global.u32 [%rd7], %r1;",
         "-w--|w"},
    Case{"PlainBaseStays", "setp.gt.u64 %p2, %rd1, %rd5; @%p2 bra L; mad.lo.s64 %rd6, %rd5, 4, %rd2;"
         "st.global.u32 [%rd6], %r1; L:", "-w--|-"},
    Case{"NullTestIsNoLook", "setp.eq.s64 %p2, %rd1, 0; @%p2 bra L; shl.b64 %rd6, %rd2, 16; shr.u64 %rd6, %rd6, 16;"
         "st.global.u32 [%rd6], %r1; L:", "-w--|-"},
    Case{"EndOfRangeIsNoLook",
         "mad.lo.s64 %rd6, %rd5, 4, %rd1; setp.ge.u64 %p2, %rd1, %rd6; @%p2 bra L; shl.b64 %rd7, %rd2, 16;"
         "shr.u64 %rd7, %rd7, 16; st.global.u32 [%rd7], %r1; L:", "-w--|-"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(ParameterBuffer, PointerModes, testing::Values(
    Case{"NextParameter", "ld.param.u64 %rd6, [a+8]; st.global.u32 [%rd6], %r1;", "-w--|-"},
    Case{"NextByRegister", "mov.b64 %rd6, a; ld.param.u64 %rd7, [%rd6+16]; st.global.u32 [%rd7], %r1;", "--w-|-"},
    Case{"Previous", "ld.param.u64 %rd6, [b+-8]; st.global.u32 [%rd6], %r1;", "w---|-"},
    Case{"Both", "ld.param.v2.u64 {%rd6, %rd7}, [b]; ld.global.u32 %r2, [%rd6]; st.global.u32 [%rd7], %r2;",
         "-rw-|-"},
    Case{"Halves", "ld.param.u32 %r2, [a+8]; ld.param.u32 %r3, [a+12]; mov.b64 %rd6, {%r2, %r3};"
         "st.global.u32 [%rd6], %r1;", "-w--|-"},
    Case{"Between", "ld.param.u64 %rd6, [a+4]; st.global.u32 [%rd6], %r1;", "ww--|w"},
    Case{"Outside", "ld.param.u64 %rd6, [a+4096]; st.global.u32 [%rd6], %r1;", "----|w"},
    Case{"AtAnIndex", "mov.b64 %rd6, a; mad.wide.u32 %rd7, %r1, 8, %rd6; ld.param.u64 %rd8, [%rd7];"
         "st.global.u32 [%rd8], %r1;", "w---|w"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(Flow, PointerModes, testing::Values(
    Case{"Select", "selp.b64 %rd6, %rd1, %rd2, %p1; st.global.u32 [%rd6], %r1;", "ww--|-"},
    Case{"SelectNull", "selp.b64 %rd6, %rd1, 0, %p1; ld.global.u32 %r2, [%rd2]; mad.wide.u32 %rd7, %r2, 4, %rd6;"
         "st.global.u32 [%rd7], %r1;", "wr--|-"},
    Case{"SelectNumberOutOfMemory",
         "ld.global.u32 %r2, [%rd2]; cvt.u64.u32 %rd6, %r2; selp.b64 %rd7, %rd1, %rd6, %p1; st.global.u32 [%rd7], %r1;",
         "wr--|w"},
    Case{"Branch",
         "mov.b64 %rd6, %rd1; @%p1 bra L; mov.b64 %rd6, %rd2; L: st.global.u32 [%rd6], %r1;", "ww--|-"},
    Case{"Guarded", "mov.b64 %rd6, %rd1; @%p1 mov.b64 %rd6, %rd2; st.global.u32 [%rd6], %r1;", "ww--|-"},
    Case{"Overwritten", "mov.b64 %rd6, %rd1; mov.b64 %rd6, %rd2; st.global.u32 [%rd6], %r1;", "-w--|-"},
    Case{"ReusedRegister",
         "mov.b64 %rd6, %rd1; ld.global.u32 %r2, [%rd6]; mov.b64 %rd6, %rd2; st.global.u32 [%rd6], %r2;", "rw--|-"},
    Case{"LoopIncrement",
         "L: ld.global.u32 %r2, [%rd1]; add.s64 %rd1, %rd1, 4; setp.ne.u32 %p2, %r2, 0; @%p2 bra L;", "r---|-"},
    Case{"LoopSwap",
         "L: ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2; mov.b64 %rd6, %rd1; mov.b64 %rd1, %rd2;"
         "mov.b64 %rd2, %rd6; setp.ne.u32 %p2, %r2, 0; @%p2 bra L;", "bb--|-"},
    Case{"LoopRotateThree",
         "L: st.global.u32 [%rd1], %r1; mov.b64 %rd6, %rd1; mov.b64 %rd1, %rd2; mov.b64 %rd2, %rd3;"
         "mov.b64 %rd3, %rd6; @%p1 bra L;", "www-|-"},
    Case{"ListWalk", "L: ld.global.u64 %rd1, [%rd1+8]; setp.ne.u64 %p2, %rd1, 0; @%p2 bra L;", "r---|r"},
    Case{"DeadCode", "bra L; st.global.u32 [%rd1], %r1; L:", "----|-"},
    Case{"MinMax", "max.u64 %rd6, %rd1, %rd2; st.global.u32 [%rd6], %r1;", "ww--|-"},
    Case{"Halves", "mov.b64 {%r2, %r3}, %rd1; mov.b64 %rd6, {%r2, %r3}; st.global.u32 [%rd6], %r1;", "w---|-"},
    Case{"HalvesOfTwo",
         "mov.b64 {%r2, %r3}, %rd1; mov.b64 {%r4, %r5}, %rd2; mov.b64 %rd6, {%r2, %r5}; st.global.u32 [%rd6], %r1;",
         "ww--|w"},
    Case{"HalvesByParam",
         "ld.param.u32 %r2, [a]; ld.param.u32 %r3, [a+4]; mov.b64 %rd6, {%r2, %r3}; st.global.u32 [%rd6], %r1;",
         "w---|-"},
    Case{"HalvesByShift",
         "cvt.u32.u64 %r2, %rd1; shr.u64 %rd6, %rd1, 32; cvt.u32.u64 %r3, %rd6; cvt.u64.u32 %rd7, %r3;"
         "shl.b64 %rd8, %rd7, 32; cvt.u64.u32 %rd9, %r2; or.b64 %rd10, %rd8, %rd9; st.global.u32 [%rd10], %r1;",
         "w---|-"},
    Case{"HalvesOutOfMemory",
         "ld.global.v2.u32 {%r2, %r3}, [%rd1]; mov.b64 %rd6, {%r2, %r3}; add.s64 %rd7, %rd6, %rd2;"
         "st.global.u32 [%rd7], %r1;", "rw--|w"},
    Case{"HalvesOutOfMemoryByShift",
         "ld.global.v2.u32 {%r2, %r3}, [%rd1]; mul.wide.u32 %rd6, %r3, 0x80000000; shl.b64 %rd6, %rd6, 1;"
         "cvt.u64.u32 %rd7, %r2; add.s64 %rd8, %rd6, %rd7; add.s64 %rd9, %rd8, %rd2; st.global.u32 [%rd9], %r1;",
         "rw--|w"},
    Case{"ShuffledPointer",
         "mov.b64 {%r2, %r3}, %rd1; shfl.sync.idx.b32 %r4, %r2, 0, 31, -1; shfl.sync.idx.b32 %r5, %r3, 0, 31, -1;"
         "mov.b64 %rd6, {%r4, %r5}; st.global.u32 [%rd6], %r1;", "w---|-"},
    Case{"PointerToPointer", "ld.global.u64 %rd6, [%rd1]; st.global.u32 [%rd6], %r1;", "r---|w"},
    Case{"ThroughMemory", "st.global.u64 [%rd1], %rd2; ld.global.u64 %rd6, [%rd1]; st.global.u32 [%rd6], %r1;",
         "b---|w"},
    Case{"ThroughShared",
         ".shared .align 8 .b8 s[64]; st.shared.u64 [s], %rd1; ld.shared.u64 %rd6, [s]; st.global.u32 [%rd6], %r1;",
         "----|w"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(Local, PointerModes, testing::Values(
    Case{"Spill",
         ".local .align 8 .b8 l[32]; st.local.u64 [l+8], %rd1; ld.local.u64 %rd6, [l+8]; st.global.u32 [%rd6], %r1;",
         "w---|-"},
    Case{"SpillGeneric",
         ".local .align 8 .b8 l[32]; mov.u64 %rd6, l; cvta.local.u64 %rd7, %rd6; st.u64 [%rd7+16], %rd1;"
         "add.u64 %rd8, %rd7, 8; ld.u64 %rd9, [%rd8+8]; st.u32 [%rd9], %r1;", "w---|-"},
    Case{"TwoCells",
         ".local .align 8 .b8 l[32]; st.local.v2.u64 [l], {%rd1, %rd2}; ld.local.u64 %rd6, [l];"
         "ld.local.u64 %rd7, [l+8]; ld.global.u32 %r2, [%rd6]; st.global.u32 [%rd7], %r2;", "rw--|-"},
    Case{"DynamicLoad",
         ".local .align 8 .b8 l[32]; st.local.u64 [l], %rd1; st.local.u64 [l+8], %rd2; mov.u64 %rd6, l;"
         "mad.wide.u32 %rd7, %r1, 8, %rd6; ld.local.u64 %rd8, [%rd7]; st.global.u32 [%rd8], %r1;", "ww--|-"},
    Case{"DynamicStore",
         ".local .align 8 .b8 l[32]; st.local.u64 [l], %rd1; mov.u64 %rd6, l; mad.wide.u32 %rd7, %r1, 8, %rd6;"
         "st.local.u64 [%rd7], %rd2; ld.local.u64 %rd8, [l]; st.global.u32 [%rd8], %r1;", "ww--|-"},
    Case{"Narrower",
         ".local .align 8 .b8 l[32]; st.local.u64 [l], %rd1; ld.local.v2.u32 {%r2, %r3}, [l];"
         "st.local.u32 [l+8], %r2; st.local.u32 [l+12], %r3; ld.local.u64 %rd6, [l+8]; st.global.u32 [%rd6], %r1;",
         "w---|-"},
    Case{"StraddlingLoad",
         ".local .align 8 .b8 l[32]; st.local.u64 [l], %rd1; st.local.u64 [l+8], %rd2; ld.local.u64 %rd6, [l+4];"
         "st.global.u32 [%rd6], %r1;", "ww--|w"},
    Case{"PointerToLocalInLocal",
         ".local .align 8 .b8 l[32]; mov.u64 %rd6, l; cvta.local.u64 %rd7, %rd6; add.s64 %rd8, %rd7, 16;"
         "st.u64 [%rd7], %rd8; st.u64 [%rd8], %rd1; ld.u64 %rd9, [%rd7]; ld.u64 %rd10, [%rd9]; st.u32 [%rd10], %r1;",
         "w---|-"},
    Case{"EscapedLocal",
         ".local .align 8 .b8 l[32]; mov.u64 %rd6, l; cvta.local.u64 %rd7, %rd6; st.local.u64 [l], %rd1;"
         "st.global.u64 [%rd2], %rd7; ld.global.u64 %rd8, [%rd2]; st.u64 [%rd8], %rd3; ld.local.u64 %rd9, [l];"
         "ld.global.u32 %r2, [%rd9];", "rbr-|w"},
    Case{"Alloca",
         "alloca.u64 %rd6, 32; st.local.u64 [%rd6], %rd1; ld.local.u64 %rd7, [%rd6]; st.global.u32 [%rd7], %r1;",
         "w---|-"},
    Case{"Swapped64BitExchange",
         ".local .align 8 .b8 l[8]; mov.u64 %rd6, l; cvta.local.u64 %rd7, %rd6; st.u64 [%rd7], %rd1;"
         "atom.exch.b64 %rd8, [%rd7], %rd2; ld.u64 %rd9, [%rd7]; st.u32 [%rd8], %r1; ld.u32 %r2, [%rd9];", "bb--|-"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(Instructions, PointerModes, testing::Values(
    Case{"AtomicReadsAndWrites", "atom.global.add.u32 %r2, [%rd1], 1; red.global.add.u32 [%rd2], 1;", "bb--|-"},
    Case{"ReadOnlyCache", "ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", "r---|-"},
    Case{"Prefetch", "prefetch.global.L2 [%rd1];", "----|-"},
    Case{"Discard", "discard.global.L2 [%rd1], 128;", "w---|-"},
    Case{"CopyAsync",
         ".shared .align 16 .b8 s[64]; mov.u32 %r2, s; cp.async.ca.shared.global [%r2], [%rd1], 16;", "r---|-"},
    Case{"CopyBulkOut",
         ".shared .align 16 .b8 s[64]; mov.u32 %r2, s; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 64;",
         "w---|-"},
    Case{"CopyTensor",
         ".shared .align 16 .b8 s[64]; mov.u32 %r2, s;"
         "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r1}], [%r2];", "----|b"},
    Case{"SharedIsNotCounted",
         ".shared .align 4 .b8 s[64]; mov.u64 %rd6, s; cvta.shared.u64 %rd7, %rd6; st.u32 [%rd7], %r1;"
         "ld.shared.u32 %r2, [s];", "----|-"},
    Case{"SelectSharedOrGlobal",
         ".shared .align 4 .b8 s[64]; mov.u64 %rd6, s; cvta.shared.u64 %rd7, %rd6; selp.b64 %rd8, %rd7, %rd1, %p1;"
         "st.u32 [%rd8], %r1;", "w---|-"},
    Case{"OpaqueWithoutAddress", "vadd.s32.s32.s32 %r2, %r1, %r1;", "----|-"},
    Case{"OpaqueWithAddress", "fancy.new.thing.b32 %r2, [%rd1];", "----|b"},
    Case{"OpaqueResultIsUnknown", "fancy.new.b64 %rd6, %rd1; ld.global.u32 %r2, [%rd6];", "----|r"},
    Case{"Texture", "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];", "----|r"},
    Case{"SurfaceStore", "sust.b.1d.b32.trap [%rd1, {%r1}], {%r1};", "----|w"},
    Case{"ConstBank", "ld.const.u32 %r2, [t+4];", "----|-", ".const .align 4 .b8 t[16];\n"},
    Case{"ModuleVariable", "mov.u64 %rd6, v; ld.global.u32 %r2, [%rd6]; st.global.u32 [v+4], %r2;", "----|-",
         ".global .align 4 .b8 v[16];\n"},
    Case{"PointerInModuleVariable", "ld.global.u64 %rd6, [v]; st.global.u32 [%rd6], %r1;", "----|w",
         ".global .align 8 .u64 w = 1;\n.global .align 8 .u64 v = generic(w);\n"}),
    case_name);

constexpr const char* kFunctions = R"(
.func store(.param .b64 p, .param .b32 v) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>;
  ld.param.b64 %rd1, [p]; ld.param.b32 %r1, [v]; st.b32 [%rd1], %r1; ret;
}
.func (.param .b64 out) same(.param .b64 p) {
  .reg .b64 %rd<4>;
  ld.param.b64 %rd1, [p]; add.s64 %rd2, %rd1, 4; st.param.b64 [out], %rd2; ret;
}
.func (.reg .b64 %o) regs(.reg .b64 %x, .reg .b32 %y) {
  .reg .b64 %t;
  mul.wide.u32 %t, %y, 4; add.s64 %o, %x, %t; ret;
}
.func (.param .b64 out) walk(.param .b64 p, .param .b64 q, .param .b32 n) {
  .reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.b64 %rd1, [p]; ld.param.b64 %rd2, [q]; ld.param.b32 %r1, [n];
  setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
  sub.u32 %r2, %r1, 1;
  { .param .b64 a0; .param .b64 a1; .param .b32 a2; .param .b64 r;
    st.param.b64 [a0], %rd2; st.param.b64 [a1], %rd1; st.param.b32 [a2], %r2;
    call (r), walk, (a0, a1, a2); ld.param.b64 %rd3, [r]; }
  st.param.b64 [out], %rd3; ret;
END: st.param.b64 [out], %rd1; ret;
}
.func fill(.param .b64 slot, .param .b64 v) {
  .reg .b64 %rd<4>;
  ld.param.b64 %rd1, [slot]; ld.param.b64 %rd2, [v]; st.b64 [%rd1+8], %rd2; ret;
}
.func bystruct(.param .align 8 .b8 s[24]) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.b64 %rd1, [s+8]; ld.param.b64 %rd2, [s+16]; ld.b32 %r1, [%rd1]; st.b32 [%rd2], %r1; ret;
}
.extern .func elsewhere(.param .b64 p);
.extern .func (.param .b32 r) __pergola_sinf(.param .b32 x);
.extern .func (.param .b64 r) __nv_modf(.param .b64 x, .param .b64 p);
.extern .func (.param .b64 r) malloc(.param .b64 n);
)";

INSTANTIATE_TEST_SUITE_P(Calls, PointerModes, testing::Values(
    Case{"Store",
         "{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1; call store, (p0, p1); }",
         "w---|-", kFunctions},
    Case{"EachCallOnItsOwn",
         "{ .param .b64 p0; .param .b64 r0; st.param.b64 [p0], %rd1; call (r0), same, (p0); ld.param.b64 %rd6, [r0]; }"
         "{ .param .b64 p0; .param .b64 r0; st.param.b64 [p0], %rd2; call (r0), same, (p0); ld.param.b64 %rd7, [r0]; }"
         "ld.global.u32 %r2, [%rd6]; st.global.u32 [%rd7], %r2;", "rw--|-", kFunctions},
    Case{"Registers", "call (%rd6), regs, (%rd1, %r1); st.global.u32 [%rd6], %r1;", "w---|-", kFunctions},
    Case{"Recursion",
         "{ .param .b64 a0; .param .b64 a1; .param .b32 a2; .param .b64 r; st.param.b64 [a0], %rd1;"
         "st.param.b64 [a1], %rd2; st.param.b32 [a2], %r1; call (r), walk, (a0, a1, a2); ld.param.b64 %rd6, [r]; }"
         "st.global.u32 [%rd6], %r1;", "ww--|-", kFunctions},
    Case{"LocalByPointer",
         ".local .align 8 .b8 l[32]; mov.u64 %rd6, l; cvta.local.u64 %rd7, %rd6;"
         "{ .param .b64 p0; .param .b64 p1; st.param.b64 [p0], %rd7; st.param.b64 [p1], %rd1; call fill, (p0, p1); }"
         "ld.local.u64 %rd8, [l+8]; st.global.u32 [%rd8], %r1;", "w---|-", kFunctions},
    Case{"StructByValue",
         "{ .param .align 8 .b8 p0[24]; st.param.b64 [p0], %rd1; st.param.b64 [p0+8], %rd2; st.param.b64 [p0+16], %rd3;"
         "call bystruct, (p0); }", "-rw-|-", kFunctions},
    Case{"Extern", "{ .param .b64 p0; st.param.b64 [p0], %rd1; call elsewhere, (p0); }", "----|b", kFunctions},
    Case{"ExternMayFillALocal",
         ".local .align 8 .b8 l[32]; mov.u64 %rd6, l; cvta.local.u64 %rd7, %rd6; st.local.u64 [l], %rd1;"
         "{ .param .b64 p0; st.param.b64 [p0], %rd7; call elsewhere, (p0); }"
         "ld.local.u64 %rd8, [l]; st.global.u32 [%rd8], %r1;", "w---|b", kFunctions},
    Case{"Math",
         "{ .param .b32 p0; .param .b32 r0; ld.global.b32 %r2, [%rd1]; st.param.b32 [p0], %r2;"
         "call (r0), __pergola_sinf, (p0); ld.param.b32 %r3, [r0]; } st.global.b32 [%rd2], %r3;", "rw--|-", kFunctions},
    Case{"MathThroughPointer",
         "{ .param .b64 p0; .param .b64 p1; .param .b64 r0; ld.global.b64 %rd6, [%rd1]; st.param.b64 [p0], %rd6;"
         "st.param.b64 [p1], %rd2; call (r0), __nv_modf, (p0, p1); }", "rb--|-", kFunctions},
    Case{"Malloc",
         "{ .param .b64 p0; .param .b64 r0; st.param.b64 [p0], 64; call (r0), malloc, (p0); ld.param.b64 %rd6, [r0]; }"
         "st.u32 [%rd6], %r1;", "----|-", kFunctions},
    Case{"CallbackKnown",
         "mov.u64 %rd6, store; P: .callprototype _ (.param .b64 _, .param .b32 _);"
         "{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1;"
         "call %rd6, (p0, p1), P; }", "w---|-", kFunctions},
    Case{"CallbackOutOfMemory",
         "ld.global.u64 %rd6, [%rd2]; P: .callprototype _ (.param .b64 _, .param .b32 _);"
         "{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1;"
         "call %rd6, (p0, p1), P; }", "-r--|b", kFunctions},
    Case{"CallTargets",
         "ld.global.u64 %rd6, [%rd2]; T: .calltargets store;"
         "{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1;"
         "call %rd6, (p0, p1), T; }", "wr--|-", kFunctions}),
    case_name);

// What a caller has to know where numbers are given: which of them can be the address.
TEST(PointerModesOfSums, OfASelectEachIsSole_OfASumNeither) {
  const auto modes_of = [](const std::string& body) {
    const auto module =
        ptx::parse(std::string(kHeader) +
                   ".visible .entry k(.param .u64 x, .param .u64 n, .param .u64 m) {\n.reg .b64 %rd<9>; .reg .b32 "
                   "%r<3>; .reg .pred %p1;\nld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; ld.param.u64 %rd3, [m]; "
                   "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;\n" +
                   body + " ret; }");
    EXPECT_TRUE(module.ok()) << module.message();
    return *pointer_modes(*module, *module->entries()[0]);
  };
  const auto soles = [](const analysis::PointerModes& modes) {
    std::string text;
    for (const PointerParameter& parameter : modes.parameters) text += parameter.is_sole ? 's' : '-';
    for (const SummedParameters& sum : modes.sums) {
      text += " {";
      for (const std::uint32_t parameter : sum.parameters) text += std::to_string(parameter);
      text += sum.has_other_base ? "+" : "";
      text += "} " + std::string(to_string(sum.mode));
      text += sum.surely_written.empty() ? "" : ", surely written";
    }
    return text;
  };
  EXPECT_EQ(soles(modes_of("selp.b64 %rd4, %rd1, %rd2, %p1; st.global.u32 [%rd4], %r1;")),
            "ss- {01} write, surely written");
  EXPECT_EQ(soles(modes_of("add.s64 %rd4, %rd1, %rd2; st.global.u32 [%rd4], %r1;")), "--- {01} write, surely written");
  EXPECT_EQ(soles(modes_of("add.s64 %rd4, %rd1, %rd2; add.s64 %rd4, %rd4, %rd3; ld.global.u32 %r2, [%rd4];")),
            "--- {012} read");
  EXPECT_EQ(soles(modes_of("selp.b64 %rd4, %rd2, 0, %p1; add.s64 %rd4, %rd1, %rd4; ld.global.u32 %r2, [%rd4];")),
            "s-- {01} read")
      << "x alone, and x + n";
  EXPECT_EQ(soles(modes_of("shl.b64 %rd4, %rd2, 2; add.s64 %rd4, %rd1, %rd4; ld.global.u32 %r2, [%rd4];")), "s--")
      << "what is scaled is no base beside one";
  EXPECT_EQ(soles(modes_of("mul.lo.s64 %rd4, %rd2, %rd3; add.s64 %rd4, %rd1, %rd4; ld.global.u32 %r2, [%rd4];")),
            "s--");
  EXPECT_EQ(
      soles(modes_of("LOOP: ld.global.u32 %r2, [%rd1]; add.s64 %rd1, %rd1, %rd2; setp.ne.u32 %p1, %r2, 0; @%p1 bra "
                     "LOOP;")),
      "s-- {01} read");
}

TEST(PointerModesOfStructs, Field_HasItsOwnEntry) {
  const auto module = ptx::parse(std::string(kHeader) + R"(.visible .entry k(.param .align 8 .b8 s[32], .param .u64 x) {
    .reg .b64 %rd<8>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [s+8]; ld.param.u32 %r1, [s+16]; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1;
    mov.b64 %rd3, s; ld.param.u64 %rd4, [%rd3+24]; ld.global.u32 %r2, [%rd4]; ret; })");
  ASSERT_TRUE(module.ok()) << module.message();
  const auto modes = pointer_modes(*module, *module->entries()[0]);
  ASSERT_TRUE(modes.ok()) << modes.message();
  ASSERT_EQ(modes->parameters.size(), 3u);
  EXPECT_EQ(modes->parameters[0].offset_bytes, 8u);
  EXPECT_EQ(modes->parameters[0].mode, AccessMode::kWrite);
  EXPECT_TRUE(modes->parameters[0].is_sole);
  EXPECT_EQ(modes->parameters[1].offset_bytes, 24u);
  EXPECT_EQ(modes->parameters[1].mode, AccessMode::kRead);
  EXPECT_EQ(modes->parameters[2].parameter, 1u);
  EXPECT_EQ(modes->parameters[2].mode, AccessMode::kNeither);
  EXPECT_EQ(modes->universal, AccessMode::kNeither);
}

TEST(PointerModesOfStructs, DynamicIndex_IsAnyField) {
  EXPECT_EQ(modes_of(std::string(kHeader) + R"(.visible .entry k(.param .align 8 .b8 s[24], .param .u32 n) {
    .reg .b64 %rd<8>; .reg .b32 %r<4>;
    ld.param.u32 %r1, [n]; mov.b64 %rd3, s; mad.wide.u32 %rd2, %r1, 8, %rd3; ld.param.u64 %rd4, [%rd2];
    st.global.u32 [%rd4], %r1; ret; })"), "www|-");
}

TEST(PointerModesReason, NamesInstructionPlaceAndOrigin) {
  const auto module = ptx::parse(kernel("\nld.global.u64 %rd6, [%rd1];\nst.global.u32 [%rd6], %r1;"), "dir/some.ptx");
  ASSERT_TRUE(module.ok()) << module.message();
  const auto modes = pointer_modes(*module, *module->entries()[0]);
  ASSERT_TRUE(modes.ok()) << modes.message();
  EXPECT_EQ(modes->parameters[0].reason, "read by `ld.global.u64 %rd6, [%rd1];` at dir/some.ptx:20:1");
  EXPECT_EQ(modes->parameters[1].reason, "never dereferenced");
  EXPECT_EQ(modes->universal_reason,
            "written by `st.global.u32 [%rd6], %r1;` at dir/some.ptx:21:1, whose address depends on "
            "`ld.global.u64 %rd6, [%rd1];` at dir/some.ptx:20:1");
}

// What is sure, as a letter a parameter, then the absolute part of the universal mode.
std::string sure_modes_of(const std::string& text) {
  return described(text, [](const auto& modes) {
    std::string answer;
    for (const PointerParameter& parameter : modes.parameters) {
      answer += "-rwb"[(parameter.surely_read.empty() ? 0 : 1) + (parameter.surely_written.empty() ? 0 : 2)];
    }
    return answer + "|" + letter(modes.absolute);
  });
}

class SureModes : public testing::TestWithParam<Case> {};

TEST_P(SureModes, Answer_IsExpected) {
  EXPECT_EQ(sure_modes_of(kernel(GetParam().body, GetParam().module_scope)), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Sure, SureModes, testing::Values(
    Case{"Plain", "ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd2+4], %f1;", "rw--|-"},
    Case{"Index", "mad.wide.u32 %rd6, %r1, 4, %rd1; st.global.u32 [%rd6], %r1;", "w---|-"},
    Case{"UnderACondition", "@%p1 st.global.u32 [%rd1], %r1;", "w---|-"},
    Case{"Atomic", "red.global.add.u32 [%rd2], 1;", "-b--|-"},
    Case{"InALoop", "L: st.global.u32 [%rd1], %r1; add.s64 %rd1, %rd1, 4; @%p1 bra L;", "w---|-"},
    Case{"CopyAsync",
         ".shared .align 16 .b8 s[64]; mov.u32 %r2, s; cp.async.ca.shared.global [%r2], [%rd1], 16;", "r---|-"},
    Case{"NullInstead", "selp.b64 %rd6, %rd1, 0, %p1; st.global.u32 [%rd6+8], %r1;", "w---|-"},
    Case{"OneOfTwo", "selp.b64 %rd6, %rd1, %rd2, %p1; st.global.u32 [%rd6], %r1;", "----|-"},
    Case{"IndexMayBeThePointer", "add.s64 %rd6, %rd1, %rd2; st.global.u8 [%rd6], %r1;", "----|-"},
    Case{"NumberInstead", "selp.b64 %rd6, %rd1, 4096, %p1; st.global.u32 [%rd6], %r1;", "----|-"},
    Case{"Mangled", "shl.b64 %rd6, %rd1, 16; shr.u64 %rd7, %rd6, 16; ld.global.u32 %r2, [%rd7];", "----|-"},
    Case{"ThroughMemory", "ld.global.u64 %rd6, [%rd1]; st.global.u32 [%rd6], %r1;", "r---|-"},
    Case{"ListWalked", "mov.u64 %rd6, %rd1; L: ld.global.u64 %rd6, [%rd6]; @%p1 bra L;", "----|-"},
    Case{"OpaqueInstruction", "fancy.new.thing.b32 %r2, [%rd1];", "----|-"},
    Case{"InstructionNotToldApart", "multimem.red.global.add.u32 [%rd1], %r1;", "----|-"},
    Case{"AbsoluteAddress", "mov.u64 %rd6, 4096; st.global.u32 [%rd6], %r1;", "----|w"},
    Case{"CompiledInAddress", "mov.u64 %rd6, 0x7f1200000000; ld.global.u32 %r2, [%rd6];", "----|r"},
    Case{"CompiledInAddressAndParameter",
         "mov.u64 %rd6, 0x7f1200000000; add.s64 %rd7, %rd6, %rd1; st.global.u32 [%rd7], %r1;", "----|-"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(SureInCalls, SureModes, testing::Values(
    Case{"Direct",
         "{ .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd1; st.param.b32 [p1], %r1; call store, (p0, p1); }",
         "w---|-", kFunctions},
    Case{"OneOfTwoFunctions",
         "selp.b64 %rd6, %rd5, %rd4, %p1; T: .calltargets store, fill;"
         "{ .param .b64 p0; .param .b64 p1; st.param.b64 [p0], %rd1; st.param.b64 [p1], %rd2;"
         "call %rd6, (p0, p1), T; }", "----|-", kFunctions},
    Case{"ResultByPointer",
         "{ .param .b64 p0; .param .b64 p1; .param .b64 r0; ld.global.b64 %rd6, [%rd1]; st.param.b64 [p0], %rd6;"
         "st.param.b64 [p1], %rd2; call (r0), __nv_modf, (p0, p1); }", "rw--|-", kFunctions},
    Case{"Extern", "{ .param .b64 p0; st.param.b64 [p0], %rd1; call elsewhere, (p0); }", "----|-", kFunctions}),
    case_name);

TEST(PointerModesVariables, AreNamedWithTheirMode) {
  const auto module = ptx::parse(kernel("ld.global.u32 %r2, [v]; st.global.u32 [w], %r2; ld.const.u32 %r3, [t];",
                                        ".global .u32 v;\n.global .u32 w;\n.const .u32 t = 1;\n"
                                        ".global .u32 unused;\n"));
  ASSERT_TRUE(module.ok()) << module.message();
  const auto modes = pointer_modes(*module, *module->entries()[0]);
  ASSERT_TRUE(modes.ok()) << modes.message();
  std::string all;
  for (const VariableAccess& access : modes->variables) all += access.name + ":" + letter(access.mode) + " ";
  EXPECT_EQ(all, "v:r w:w t:r ");
}

TEST(PointerModesRefusal, DeclarationOrFunction_IsAnError) {
  const auto module = ptx::parse(std::string(kHeader) + ".func f() { ret; }\n");
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(pointer_modes(*module, *module->find_function("f")).code(), Code::kInvalidArgument);
}

TEST(PointerModesOfManyBases, CollapsesToUniversal) {
  std::string body = "mov.b64 %rd6, %rd1;";
  std::string variables;
  for (int i = 0; i < 80; ++i) {
    variables += ".global .u32 v" + std::to_string(i) + ";\n";
    body += "@%p1 mov.u64 %rd6, v" + std::to_string(i) + ";\n";
  }
  EXPECT_EQ(modes_of(kernel(body + "st.global.u32 [%rd6], %r1;", variables)), "----|w");
}

// Of a and b: 'f' where something is surely a float there, 'd' a double, 'm' where both are, '-' where nothing is.
std::string floats_of(const std::string& body) {
  return described(kernel(body), [](const auto& modes) {
    std::string answer;
    for (const PointerParameter& parameter : std::span(modes.parameters).first(2)) {
      const bool f32 = !parameter.surely_f32.empty(), f64 = !parameter.surely_f64.empty();
      answer += f32 && f64 ? 'm' : f32 ? 'f' : f64 ? 'd' : '-';
    }
    return answer;
  });
}

TEST(PointerModesOfFloats, WhatIsSurelyAFloatOrADouble_IsTold) {
  EXPECT_EQ(floats_of("ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd2], %f2;"), "ff");
  EXPECT_EQ(floats_of("ld.global.v2.f64 {%fd1, %fd2}, [%rd1]; neg.f64 %fd3, %fd2; red.global.add.f32 [%rd2], %f1;"), "df");
  EXPECT_EQ(floats_of("ld.global.b32 %r2, [%rd1]; add.rn.f32 %r3, %r2, %r2; st.global.b32 [%rd2], %r3;"), "ff")
      << "as NVRTC of CUDA 13 writes it";
  EXPECT_EQ(floats_of("ld.global.v2.b64 {%rd6, %rd7}, [%rd1]; fma.rn.f64 %rd8, %rd7, %rd7, %rd7; "
                      "st.global.b64 [%rd2], %rd8;"),
            "dd");
  EXPECT_EQ(floats_of("ld.global.f32 %f1, [%rd1]; neg.f32 %f2, %f1; ld.global.f64 %fd1, [%rd1+8]; neg.f64 %fd2, %fd1;"),
            "m-");
}

// Of a and b: 'f' where all that may be there is floats, or bits of their size, 'd' of doubles, '*' where nothing is.
std::string all_of(const std::string& body) {
  return described(kernel(body), [](const auto& modes) {
    std::string answer;
    for (const PointerParameter& parameter : std::span(modes.parameters).first(2)) {
      const bool f32 = parameter.is_all_f32, f64 = parameter.is_all_f64;
      answer += f32 && f64 ? '*' : f32 ? 'f' : f64 ? 'd' : '-';
    }
    return answer;
  });
}

TEST(PointerModesOfFloats, WhereNothingElseMayBe_IsTold) {
  EXPECT_EQ(all_of("ld.global.f32 %f1, [%rd1]; st.global.b32 [%rd2], %f1;"), "ff");
  EXPECT_EQ(all_of("ld.global.v2.f64 {%fd1, %fd2}, [%rd1]; red.global.add.f64 [%rd2], %fd1;"), "dd");
  EXPECT_EQ(all_of("ld.global.f32 %f1, [%rd1]; ld.global.f64 %fd1, [%rd1+8];"), "-*") << "records";
  EXPECT_EQ(all_of("ld.global.f32 %f1, [%rd1]; st.global.u8 [%rd2], %r1;"), "f-");
  EXPECT_EQ(all_of("ld.global.f32 %f1, [%rd1]; selp.b64 %rd6, %rd1, %rd2, %p1; st.global.f64 [%rd6], %fd1;"), "-d")
      << "a workspace, perhaps";
  EXPECT_EQ(all_of("ld.global.f32 %f1, [%rd1]; ld.global.u64 %rd6, [%rd2]; st.global.f64 [%rd6], %fd1;"), "--")
      << "which may be anywhere";
}

TEST(PointerModesOfFloats, WhatMayBeAnythingElse_IsNot) {
  EXPECT_EQ(floats_of("ld.global.f64 %fd1, [%rd1]; st.global.f64 [%rd2], %fd1;"), "--") << "two floats, moved as one";
  EXPECT_EQ(floats_of("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1]; st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};"),
            "--")
      << "sixteen bytes of anything";
  EXPECT_EQ(floats_of("ld.global.b32 %r2, [%rd1]; st.global.b32 [%rd2], %r2;"), "--");
  EXPECT_EQ(floats_of("ld.global.u32 %r2, [%rd1]; st.global.u64 [%rd2], %rd1;"), "--");
  EXPECT_EQ(floats_of("ld.global.b32 %r2, [%rd1]; add.s32 %r3, %r2, 1; st.global.b32 [%rd2], %r3;"), "--");
  EXPECT_EQ(floats_of("ld.global.b32 %r2, [%rd1]; mov.b32 %r2, 0f3F800000; add.rn.f32 %r3, %r2, %r2;"), "--")
      << "a register for two things";
  EXPECT_EQ(floats_of("selp.b64 %rd6, %rd1, %rd2, %p1; ld.global.f32 %f1, [%rd6]; neg.f32 %f2, %f1;"), "--")
      << "either of two";
}

}  // namespace
}  // namespace pergola::analysis
