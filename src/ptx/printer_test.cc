#include "src/ptx/printer.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"

namespace pergola::ptx {
namespace {

constexpr const char* kText = R"(
.version 8.3
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 smem[];
.const .align 4 .f32 table[2][2] = {{1.0, 0f40000000}, {-3, 4}};
.global .align 1 .b8 text[5] = {104, 105, 0x21};
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.visible .entry saxpy(
  .param .f32 saxpy_param_0,
  .param .u64 .ptr .global .align 4 saxpy_param_1,
  .param .align 8 .b8 saxpy_param_2[24]
)
.maxntid 256, 1, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<6>;
  .reg .f32 first, second;

  ld.param.u64 %rd1, [saxpy_param_1];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mad.lo.s32 %r3, %r1, %r2, %r4;
  setp.ge.s32 %p1|%p2, %r3, 0x10;
  @!%p1 bra $L__BB0_2;
  ld.global.nc.v2.f32 {%f1, _}, [%rd1+-8];
  fma.rn.f32 %f2, %f1, 0f3F800000, %f1;
  shfl.sync.down.b32 %r5|%p2, %r6, 16, 31, -1;
  { // callseq 0, 0
    .param .b32 retval0;
    .reg .b32 %r<3>;
    mov.u64 %rd2, text+4;
    call.uni (retval0), vprintf, (text, text);
    ld.param.b32 %r2, [retval0+0];
  }
  tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];
  vadd.s32.s32.s32 %r1, %r2.b0, %r3, %r1;
$L__BB0_2:
  ret;
}
)";

TEST(Printer, Module_ParsesBackEqual) {
  const auto module = parse(kText, "saxpy.ptx");
  ASSERT_TRUE(module.ok()) << module.message();
  const std::string text = print(*module);
  const auto again = parse(text);
  ASSERT_TRUE(again.ok()) << again.message() << "\n" << text;
  EXPECT_EQ(*module, *again) << text;
  EXPECT_EQ(print(*again), text);
}

}  // namespace
}  // namespace pergola::ptx
