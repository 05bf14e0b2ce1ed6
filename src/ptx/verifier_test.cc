#include "src/ptx/verifier.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"

namespace pergola::ptx {
namespace {

// The body starts at line 9.
std::string verdict(const std::string& body) {
  const std::string text =
      ".version 8.5\n.target sm_90\n.address_size 64\n.global .align 4 .u32 array[8];\n"
      ".func (.param .b32 out) f(.param .b32 in) { ret; }\n"
      ".visible .entry k(.param .u64 p)\n{\n.reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; "
      ".reg .f32 %f<8>; .reg .f64 %fd<4>; .reg .v4 .f32 %v;\n" +
      body + "\nret;\n}\n";
  const auto module = parse(text, "f");
  if (!module.ok()) return "parse error " + module.message();
  const Status status = verify(*module);
  EXPECT_TRUE(status.ok() || status.code() == Code::kParseError);
  return status.ok() ? "ok" : status.message();
}

TEST(Verifier, GoodInstruction_IsAccepted) {
  for (const char* body : {
           "add.s32 %r1, %r2, 3;",
           "add.u32 %r1, %r2, %r3;",
           "add.f32 %f1, %f2, 0f3F800000;",
           "add.f32 %r1, %r2, %r3;",
           "add.f16 %h1, %h2, %h3;",
           "mul.wide.s32 %rd1, %r1, %r2;",
           "ld.global.u8 %r1, [%rd1];",
           "ld.global.u8 %h1, [array+3];",
           "st.global.u8 [%rd1], %r1;",
           "cvt.u8.u32 %r1, %r2;",
           "cvt.rn.f16.f32 %h1, %f1;",
           "mov.b64 {%r1, _}, %rd1;",
           "mov.b32 %r1, %f1;",
           "mov.b32 {%h1, %h2}, %r1;",
           "mov.v4.f32 %v, {%f1, %f2, %f3, %f4};",
           "ld.global.v4.f32 %v, [%rd1];",
           "add.f32 %f1, %v.x, %v.w;",
           "setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3;",
           "selp.b32 %r1, 1, 0, %p1;",
           "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;",
           "red.global.add.f32 [%rd1], %f1;",
           "shl.b64 %rd1, %rd2, %r1;",
           "{ L: bra L; } { L: bra L; }",
           "T: .branchtargets A, B; A: brx.idx %r1, T; B: bra A;",
           "call (%r1), f, (%r2);",
           "P: .callprototype (.param .b32 _) _ (.param .b32 _); call (%r1), %rd1, (%r2), P;",
           "{ .reg .b32 %r<2>; mov.u32 %r1, 1; }",
           "vadd.whatever %r1, %f1, nonsense;",
           "@!%p1 bra A; A:",
           "mov.u64 %rd1, f;",
           "mov.u32 %r1, %reserved_smem_offset_0;",
           "bar.sync 0; bar.sync %r1, 64; barrier.cta.arrive.aligned 1, 32; bar.warp.sync -1;",
           "bar.red.popc.u32 %r1, 0, %p1; barrier.red.and.pred %p2, 1, 64, !%p1;",
           "bar.red.popc.u32 %r1, 0, 1; bar.red.and.pred %p1, 0, 32, 1;",
           "barrier.cluster.arrive.release.aligned; barrier.cluster.wait;",
           "shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1; vote.sync.ballot.b32 %r1, !%p1, -1; vote.all.pred %p1, %p2;",
           "atom.global.add.u32 %r1, [%rd1], %r2; mbarrier.init.shared.b64 [%r1], 3; mbarrier.inval.b64 [%rd1];",
           "mbarrier.arrive.b64 %rd1, [%rd2]; mbarrier.arrive.expect_tx.b64 _, [%rd2], %r1;",
           "mbarrier.test_wait.b64 %p1, [%rd1], %rd2; mbarrier.try_wait.parity.b64 %p1, [%rd1], %r1, %r2;",
           "cp.async.ca.shared.global [%r1], [%rd1], 16; cp.async.wait_group 0; cp.async.commit_group;",
           "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1]; mbarrier.pending_count.b64 %r1, %rd1;",
           "cvt.rn.f16x2.f32 %r1, %f1, %f2; cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2; cvt.pack.sat.u16.s32 %r1, %r2, %r3;",
           "membar.gl; fence.sc.gpu; fence.acq_rel.sys; fence.proxy.async; griddepcontrol.wait;",
       }) {
    EXPECT_EQ(verdict(body), "ok") << body;
  }
}

TEST(Verifier, BadInstruction_IsRefusedWithItsPlace) {
  const struct {
    const char* body;
    const char* message;
  } kRows[] = {
      {"add.s32 %r1, %r2;", "f:9:1: expected a register or a constant as operand 3 of 'add', found 2 operands"},
      {"add.s32 %r1, %r2, 1, 2;", "f:9:1: expected 3 operands of 'add', found 4"},
      {"add.s32 5, %r2, 1;", "f:9:1: expected a register as operand 1 of 'add', found another kind of operand"},
      {" add.s32 %f1, %r2, 1;", "f:9:2: expected a register that holds .s32, found '%f1' of type .f32"},
      {"add.s32 %rd1, %r2, 1;", "f:9:1: expected a register that holds .s32, found '%rd1' of type .b64"},
      {"add.f32 %f1, %f2, 1;", "f:9:1: expected a floating-point constant for .f32, found another"},
      {"add.s32 %r1, %r2, 1.5;", "f:9:1: expected an integer constant for .s32, found another"},
      {"add %r1, %r2, 1;", "f:9:1: expected a type after 'add', found none"},
      {"cvt.u32 %r1, %r2;", "f:9:1: expected two types after 'cvt', found one"},
      {"@%r1 ret;", "f:9:1: expected a predicate after '@', found '%r1' of type .b32"},
      {"mov.u32 %r1, %r9;", "f:9:1: expected a declared register, found '%r9'"},
      {"mov.u64 %rd1, nowhere;", "f:9:1: expected a declared register, variable or function, found 'nowhere'"},
      {"bra nowhere;", "f:9:1: expected a label of this function, found 'nowhere'"},
      {"{ L: } bra L;", "f:9:8: expected a label of this function, found 'L'"},
      {"L: L:", "f:9:4: expected a label once in its scope, found 'L' again"},
      {"A: brx.idx %r1, A;", "f:9:4: expected a .branchtargets list of this function, found 'A'"},
      {"T: .branchtargets A, B; A:", "f:9:1: expected a label of this function, found 'B'"},
      {"call g, ();", "f:9:1: expected a declared register, variable or function, found 'g'"},
      {"call array, ();", "f:9:1: expected a function or a register to call, found 'array'"},
      {"call (%r1), f, (%r1, %r2);", "f:9:1: expected 1 argument for 'f', found 2"},
      {"{ .param .b64 a; .param .b32 r; call (r), f, (a); }",
       "f:9:33: expected an argument of 4 bytes for 'in' of 'f', found 'a' of 8"},
      {"call f, (%r1);", "f:9:1: expected 1 result of 'f', found 0"},
      {"call %rd1, ();", "f:9:1: expected a prototype after an indirect call's arguments, found none"},
      {".reg .b32 x; .reg .f32 x;", "parse error f:9:24: expected a name that this scope gives no register yet, found 'x'"},
      {".shared .b32 x; .shared .b8 x;", "f:9:17: expected a variable once in its scope, found 'x' again"},
      {"ld.global.u32 %r1, %rd1;",
       "f:9:1: expected an address in brackets as operand 2 of 'ld', found another kind of operand"},
      {"ld.global.u32 %r1, [%f1];", "f:9:1: expected an address of 32 or 64 bits, found '%f1' of type .f32"},
      {"ld.global.u64 %r1, [%rd1];", "f:9:1: expected a register that holds .u64, found '%r1' of type .b32"},
      {"ld.global.v2.u32 %r1, [%rd1];", "f:9:1: expected 2 elements for 'ld', found 1"},
      {"st.global.u32 [%rd1], {%r1, %r2};", "f:9:1: expected 1 element for 'st', found 2"},
      {"mov.b64 {%r1, %h1}, %rd1;", "f:9:1: expected a register of 4 bytes, found '%h1' of type .b16"},
      {"setp.lt.s32 %r1, %r2, 5;", "f:9:1: expected a register that holds .pred, found '%r1' of type .b32"},
      {"add.f32 %f1, %v.x, %f1.y;", "f:9:1: expected a component of a vector, found '%f1.y'"},
      {"selp.b32 %r1, !%p1, 0, %p2;",
       "f:9:1: expected a register or a constant as operand 2 of 'selp', found another kind of operand"},
      {"ret 5;", "f:9:1: expected 0 operands of 'ret', found 1"},
      {"bar.red.popc.u32 %r1;", "f:9:1: expected a register or a constant as operand 2 of 'bar', found 1 operand"},
      {"bar.red.popc.u32 %r1, 0;", "f:9:1: expected a predicate as operand 3 of 'bar', found 2 operands"},
      {"bar.red.or.pred %p1, 0, 32, 1, 1;", "f:9:1: expected 4 operands of 'bar', found 5"},
      {"bar.sync;", "f:9:1: expected a register or a constant as operand 1 of 'bar', found 0 operands"},
      {"bar.arrive 0;", "f:9:1: expected a register or a constant as operand 2 of 'bar', found 1 operand"},
      {"bar.warp.sync;", "f:9:1: expected a register or a constant as operand 1 of 'bar', found 0 operands"},
      {"shfl.sync.bfly.b32 %r1, %r2, 1, 31;",
       "f:9:1: expected a register or a constant as operand 5 of 'shfl', found 4 operands"},
      {"vote.sync.ballot.b32 %r1, %p1;",
       "f:9:1: expected a register or a constant as operand 3 of 'vote', found 2 operands"},
      {"atom.global.cas.b32 %r1, [%rd1], %r2;",
       "f:9:1: expected a register or a constant as operand 4 of 'atom', found 3 operands"},
      {"mbarrier.init.shared.b64 [%r1];",
       "f:9:1: expected a register or a constant as operand 2 of 'mbarrier', found 1 operand"},
      {"mbarrier.test_wait.b64 %p1, [%rd1];",
       "f:9:1: expected a register or a constant as operand 3 of 'mbarrier', found 2 operands"},
      {"cp.async.mbarrier.arrive.noinc.shared::cta.b64;",
       "f:9:1: expected an address in brackets as operand 1 of 'cp', found 0 operands"},
      {"cp.async.ca.shared.global [%r1], [%rd1];",
       "f:9:1: expected an integer constant as operand 3 of 'cp', found 2 operands"},
      {"atom.global.add.u32 %r1, [%rd1], 1, %rd2;", "f:9:1: expected 3 operands of 'atom', found 4"},
      {"mbarrier.arrive.shared.b64 [%r1];",
       "f:9:1: expected a register as operand 1 of 'mbarrier', found another kind of operand"},
      {"cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd1], 4;",
       "f:9:1: expected a register or a constant as operand 4 of 'cp', found 3 operands"},
      {"cvt.rn.f16x2.f32 %r1, %f1;",
       "f:9:1: expected a register or a constant as operand 3 of 'cvt', found 2 operands"},
      {"cvt.u32.f32 %r1, %f1, %f2;", "f:9:1: expected 2 operands of 'cvt', found 3"},
      {"membar;", "f:9:1: expected .cta, .gl or .sys after 'membar', found none"},
      {"fence.sc;", "f:9:1: expected a scope (.cta, .cluster, .gpu or .sys) after 'fence', found none"},
      {"griddepcontrol;", "f:9:1: expected .wait or .launch_dependents after 'griddepcontrol', found none"},
  };
  for (const auto& row : kRows) EXPECT_EQ(verdict(row.body), row.message) << row.body;
}

TEST(Verifier, DuplicateDefinition_IsRefused) {
  const std::string head = ".version 8.5\n.target sm_90\n";
  const auto twice = parse(head + ".func f() { ret; }\n.func f() { ret; }\n", "f");
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(verify(*twice).message(), "f:4:1: expected one definition of each name, found 'f' again");
  const auto variables = parse(head + ".global .u32 x;\n.global .u32 x;\n", "f");
  ASSERT_TRUE(variables.ok());
  EXPECT_EQ(verify(*variables).message(), "f:4:1: expected one definition of each name, found 'x' again");
  const auto declared = parse(head + ".func f();\n.func f() { ret; }\n.extern .global .u32 y;\n.global .u32 y;\n", "f");
  ASSERT_TRUE(declared.ok());
  EXPECT_TRUE(verify(*declared).ok());
}

TEST(Verifier, ModuleBrokenByAPass_IsRefused) {
  const auto parsed = parse(".version 8.5\n.target sm_90\n.entry k() { .reg .b32 %r<2>; mov.u32 %r1, %r0; { } }", "f");
  ASSERT_TRUE(parsed.ok());
  Module wild = *parsed;
  wild.find_function("k")->body[1].instruction()->operands[0].reg = 99;
  EXPECT_EQ(verify(wild).message(), "f:3:31: expected a register's number, found 99");
  Module open = *parsed;
  open.find_function("k")->body.pop_back();
  EXPECT_EQ(verify(open).message(), "f:3:1: expected a '}' for each '{' of 'k'");
  Module closed = *parsed;
  closed.find_function("k")->body.push_back(Statement{ScopeEnd{}, Location{9, 9}});
  EXPECT_EQ(verify(closed).message(), "f:9:9: expected a '{' for each '}', found one '}' more");
}

}  // namespace
}  // namespace pergola::ptx
