// Values counted from the thread's index, moved up until they wrap round the type's width, on every tier: what a tier
// keeps as a base and a stride it may widen, shift and compare only as far as each lane's own value allows.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/ptx_cases/ptx_program.h"
#include "tests/support/tier_test.h"

namespace pergola::ptx_cases {
namespace {

constexpr std::uint32_t kThreads = 64, kBlocks = 2;

// Of x, which SCALE makes of the grid's thread %t, what expected() says: each thread into 128 bytes of its own.
constexpr const char* kKernel = R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %p, %w<4>; .reg .b32 %x, %t, %r<24>; .reg .b16 %h<4>; .reg .pred %q<8>;
  ld.param.u64 %p, [out];
  mov.u32 %t, %tid.x;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x;
  mad.lo.u32 %t, %r0, %r1, %t;
  mul.wide.u32 %w0, %t, 128;
  add.u64 %p, %p, %w0;
  SCALE
  shr.s32 %r2, %x, 29;
  shr.u32 %r3, %x, 29;
  st.global.v2.u32 [%p], {%r2, %r3};
  cvt.s64.s32 %w1, %x; shr.s64 %w1, %w1, 24; st.global.u64 [%p+8], %w1;
  cvt.u64.u32 %w2, %x; shr.u64 %w2, %w2, 24; st.global.u64 [%p+16], %w2;
  cvt.s32.s8 %r4, %x;
  cvt.u32.u8 %r5, %x;
  st.global.v2.u32 [%p+24], {%r4, %r5};
  cvt.s32.s16 %r6, %x;
  bfe.s32 %r7, %x, 4, 5;
  st.global.v2.u32 [%p+32], {%r6, %r7};
  rem.u32 %r8, %x, 10;
  div.s32 %r9, %x, 3;
  st.global.v2.u32 [%p+40], {%r8, %r9};
  setp.lt.s32 %q1, %x, 0; selp.u32 %r10, 1, 0, %q1;
  setp.ge.u32 %q2, %x, 0x80000000; selp.u32 %r11, 1, 0, %q2;
  st.global.v2.u32 [%p+48], {%r10, %r11};
  setp.gt.s32 %q3, %x, 1023; selp.u32 %r12, 1, 0, %q3;
  setp.le.u32 %q4, %x, 4095; selp.u32 %r13, 1, 0, %q4;
  st.global.v2.u32 [%p+56], {%r12, %r13};
  and.b32 %r14, %x, 0xf0f0f0f0;
  szext.wrap.s32 %r15, %x, 6;
  st.global.v2.u32 [%p+64], {%r14, %r15};
  cvt.u16.u32 %h1, %x; cvt.s16.s16 %h2, %h1; shr.s16 %h2, %h2, 3; cvt.s32.s16 %r16, %h2;
  mul.wide.u16 %r17, %h1, 5;
  st.global.v2.u32 [%p+72], {%r16, %r17};
  ret;
}
)";

std::vector<std::uint32_t> expected(std::uint32_t x) {
  const auto s = static_cast<std::int32_t>(x);
  const auto wide_s = static_cast<std::uint64_t>(static_cast<std::int64_t>(s) >> 24);
  const std::uint64_t wide_u = std::uint64_t{x} >> 24;
  const auto word = [](auto value) { return static_cast<std::uint32_t>(value); };
  const auto bits = [&](unsigned at, unsigned count) {  // with the sign of the highest
    return word(static_cast<std::int32_t>(x << (32 - at - count)) >> (32 - count));
  };
  return {word(s >> 29),
          x >> 29,
          word(wide_s),
          word(wide_s >> 32),
          word(wide_u),
          word(wide_u >> 32),
          word(static_cast<std::int8_t>(x)),
          x & 0xff,
          word(static_cast<std::int16_t>(x)),
          bits(4, 5),
          x % 10,
          word(s / 3),
          s < 0,
          x >= 0x80000000,
          s > 1023,
          x <= 4095,
          x & 0xf0f0f0f0,
          bits(0, 6),
          word(static_cast<std::int16_t>(x) >> 3),
          (x & 0xffff) * 5};
}

class ThreadIndex : public test_support::TierTest {
 protected:
  // `scale` makes %x of %t.
  void look(const std::string& scale, const std::function<std::uint32_t(std::uint32_t)>& value) {
    SCOPED_TRACE(scale);
    std::string text = kKernel;
    text.replace(text.find("SCALE"), 5, scale);
    PtxProgram program(device_, text);
    const auto out = program.zeros(std::size_t{128} * kThreads * kBlocks);
    const Status status = program.run("k", {.grid = {kBlocks, 1, 1}, .block = {kThreads, 1, 1}}, out->address());
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::uint32_t t = 0; t < kThreads * kBlocks; ++t) {
      const std::vector<std::uint32_t> wanted = expected(value(t));
      std::vector<std::uint32_t> found(wanted.size());
      std::memcpy(found.data(), out->host_pointer() + std::size_t{128} * t, 4 * found.size());
      ASSERT_EQ(found, wanted) << "thread " << t << ", x = " << value(t);
    }
  }
  device::DevicePtr device_ = open();
};

PERGOLA_ON_EVERY_TIER(ThreadIndex);

TEST_P(ThreadIndex, ShiftedUp_WrapsAtTheWidth) {
  for (std::uint32_t by = 0; by < 32; ++by)
    look("shl.b32 %x, %t, " + std::to_string(by) + ";", [&](std::uint32_t t) { return t << by; });
}

TEST_P(ThreadIndex, Multiplied_WrapsAtTheWidth) {
  for (const std::uint32_t by :
       {3u, 8u, 24u, 0x1000001u, 0x07ffffffu, 0x08000000u, 0x08421084u, 0x40000000u, 0xf8000000u, 0xffffffffu})
    look("mul.lo.u32 %x, %t, " + std::to_string(by) + ";", [&](std::uint32_t t) { return t * by; });
}

TEST_P(ThreadIndex, Moved_WrapsAtTheWidth) {
  for (const std::uint32_t by : {1u, 16u, 0x7fffffe0u, 0x7ffffff1u, 0x80000000u, 0xffffffe0u, 0xfffffff0u, 0xffffffffu})
    look("add.u32 %x, %t, " + std::to_string(by) + ";", [&](std::uint32_t t) { return t + by; });
}

}  // namespace
}  // namespace pergola::ptx_cases
