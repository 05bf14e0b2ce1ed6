// Which weak loads become volatile: those of loops that wait, and of no others.
#include "src/device/cpu/spin_loads.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"

namespace pergola::device::cpu {
namespace {

// How many loads of a kernel with this body change; the module is still one afterwards.
std::size_t changed(const std::string& body) {
  const std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
      "  .reg .b64 %p, %a<4>; .reg .b32 %r<8>; .reg .pred %c<4>; .shared .b32 flag;\n"
      "  ld.param.u64 %p, [p]; mov.u32 %r7, %tid.x;\n" +
      body + "\n  ret;\n}\n";
  Result<ptx::Module> module = ptx::parse(text, "test.ptx");
  if (!module.ok()) {
    ADD_FAILURE() << module.message();
    return ~std::size_t{0};
  }
  const std::size_t count = look_again_in_spin_loops(*module);
  EXPECT_TRUE(ptx::parse(ptx::print(*module), "printed.ptx").ok());
  return count;
}

TEST(SpinLoads, LoopsThatWait_LookAgain) {
  EXPECT_EQ(changed("S: ld.global.u32 %r1, [%p]; setp.eq.u32 %c1, %r1, 0; @%c1 bra S;"), 1u);
  EXPECT_EQ(changed("S: ld.weak.u32 %r1, [%p+4]; setp.eq.u32 %c1, %r1, 0; @%c1 bra S;"), 1u);
  EXPECT_EQ(changed("S: ld.shared.u32 %r1, [flag]; bar.warp.sync -1; setp.eq.u32 %c1, %r1, %r7; @%c1 bra S;"), 1u);
  // Rotated: the value of the turn before decides.
  EXPECT_EQ(
      changed(
          "ld.global.u32 %r1, [%p]; S: setp.ne.u32 %c1, %r1, 0; @%c1 bra E; ld.global.u32 %r1, [%p]; bra.uni S; E:"),
      1u);
  // Another place is stored to; two places are looked at; the address is made anew each turn.
  EXPECT_EQ(changed("S: ld.global.u32 %r1, [%p]; add.u32 %r2, %r2, 1; st.global.u32 [%p+4], %r2; setp.eq.u32 %c1, %r1, "
                    "0; @%c1 bra S;"),
            1u);
  EXPECT_EQ(changed("S: ld.global.u32 %r1, [%p]; ld.global.u32 %r2, [%p+8]; setp.eq.u32 %c1, %r1, %r2; @%c1 bra S;"),
            2u);
  EXPECT_EQ(changed("S: add.u64 %a1, %p, 8; ld.global.u32 %r1, [%a1]; setp.eq.u32 %c1, %r1, 0; @%c1 bra S;"), 1u);
  // Until the clock says that it is enough.
  EXPECT_EQ(changed("S: mov.u32 %r3, %clock; setp.gt.u32 %c2, %r3, 99; @%c2 exit; ld.global.u32 %r1, [%p]; setp.eq.u32 "
                    "%c1, %r1, 0; @%c1 bra S;"),
            1u);
}

TEST(SpinLoads, LoopsThatEndByThemselves_AreLeftAlone) {
  // A count up to a bound in memory; a walk along a list; a sum.
  EXPECT_EQ(
      changed(
          "mov.u32 %r2, 0; S: add.u32 %r2, %r2, 1; ld.global.u32 %r1, [%p]; setp.lt.u32 %c1, %r2, %r1; @%c1 bra S;"),
      0u);
  EXPECT_EQ(changed("mov.u64 %a1, %p; S: ld.global.u64 %a1, [%a1]; setp.ne.u64 %c1, %a1, 0; @%c1 bra S;"), 0u);
  EXPECT_EQ(changed("S: ld.global.u32 %r1, [%p]; add.u32 %r2, %r2, %r1; setp.lt.u32 %c1, %r2, 100; @%c1 bra S;"), 0u);
  // The threads of the block meet each turn; the loop stores to the place itself; it looks but does not ask.
  EXPECT_EQ(changed("S: bar.sync 0; ld.shared.u32 %r1, [flag]; setp.eq.u32 %c1, %r1, 0; @%c1 bra S;"), 0u);
  EXPECT_EQ(changed("S: ld.global.u32 %r1, [%p]; sub.u32 %r1, %r1, 1; st.global.u32 [%p], %r1; setp.ne.u32 %c1, %r1, "
                    "0; @%c1 bra S;"),
            0u);
  EXPECT_EQ(
      changed("mov.u32 %r2, 0; S: ld.global.u32 %r1, [%p]; add.u32 %r2, %r2, 1; setp.lt.u32 %c1, %r2, 9; @%c1 bra S;"),
      0u);
  EXPECT_EQ(changed("S: ld.volatile.global.u32 %r1, [%p]; setp.eq.u32 %c1, %r1, 0; @%c1 bra S;"), 0u);
  EXPECT_EQ(changed("S: ld.global.nc.u32 %r1, [%p]; setp.eq.u32 %c1, %r1, 0; @%c1 bra S;"), 0u);
  EXPECT_EQ(changed("ld.global.u32 %r1, [%p];"), 0u);
}

}  // namespace
}  // namespace pergola::device::cpu
