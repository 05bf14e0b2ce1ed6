#include "src/device/cuda/exact_rounding.h"

#include <gtest/gtest.h>

namespace pergola::device::cuda {
namespace {

TEST(ExactRounding, UnroundedFloats_GetRn) {
  EXPECT_EQ(with_exact_rounding("mul.f32 %a,%b,%c;"), "mul.rn.f32 %a,%b,%c;");
  EXPECT_EQ(with_exact_rounding("@%p add.ftz.f32 %a,%b,%c;"), "@%p add.rn.ftz.f32 %a,%b,%c;");
  EXPECT_EQ(with_exact_rounding("sub.sat.f16x2 %a,%b,%c;"), "sub.rn.sat.f16x2 %a,%b,%c;");
  EXPECT_EQ(with_exact_rounding("\tmul.f64\t%a,%b,%c;"), "\tmul.rn.f64\t%a,%b,%c;");
  EXPECT_EQ(with_exact_rounding("L:add.bf16 %a,%b,%c;").substr(0, 2), "L:");
}

TEST(ExactRounding, EverythingElse_StaysAsItIs) {
  for (const char* text : {"mul.rn.f32 a,b,c;", "add.rz.ftz.f64 a,b,c;", "mul.lo.s32 a,b,c;", "mul.wide.u32 a,b,c;",
                           "add.s64 a,b,c;", "add.cc.u32 a,b,c;", "fma.rn.f32 a,b,c,d;", "atom.global.add.f32 a,[b],c;",
                           "red.add.f64 [a],b;", "// mul.f32\n", "/* add.f32 */", ".file 1 \"mul.f32\"", "div.full.f32 a,b,c;",
                           ".reg .f32 %mul.f32;", "/* open", "\"open", ""})
    EXPECT_EQ(with_exact_rounding(text), text);
}

}  // namespace
}  // namespace pergola::device::cuda
