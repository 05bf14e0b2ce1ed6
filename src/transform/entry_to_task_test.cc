// What is refused, with its words; the text of a body. That bodies compute what their kernels do is tests/tasks.
#include "src/transform/entry_to_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"

namespace pergola::transform {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHeader[] = ".version 8.3\n.target sm_90\n.address_size 64\n";

Result<TaskBody> task_of(const std::string& text, const TaskConfig& config = {}) {
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(kHeader + text, "k.ptx"));
  PERGOLA_TRY(ptx::verify(module));
  return entry_to_task(module, "k", config);
}

std::string with_body(const std::string& body) {
  return ".visible .entry k(.param .u64 a)\n{\n.reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 "
         "%f<8>;\n" +
         body + "\nret;\n}\n";
}

void expect_refused(const std::string& text, const std::string& words, const TaskConfig& config = {}) {
  const auto made = task_of(text, config);
  ASSERT_FALSE(made.ok()) << text;
  EXPECT_EQ(made.code(), Code::kUnsupported) << made.message();
  EXPECT_THAT(made.message(), AllOf(HasSubstr(words), HasSubstr("Kernel 'k' cannot be a task"), HasSubstr("k.ptx:"),
                                    HasSubstr("Launch it as an ordinary kernel.")));
}

TEST(EntryToTask, WhatATaskCannotHave_IsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"mov.u32 %r1, %envreg1;", "k.ptx:7:1: Kernel 'k' cannot be a task: it uses a grid-wide barrier"},
      {"barrier.cluster.arrive;", "it uses clusters: `barrier.cluster.arrive;`"},
      {"mov.u32 %r1, %cluster_ctarank;", "it uses clusters"},
      {"mapa.u64 %rd1, %rd2, %r1;", "it uses clusters"},
      {"griddepcontrol.wait;", "griddepcontrol"},
      {"setmaxnreg.inc.sync.aligned.u32 40;", "setmaxnreg"},
      {"cp.async.bulk.commit_group;", "bulk copies (TMA)"},
      {"wgmma.fence.sync.aligned;", "warpgroup"},
      {"tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];", "textures or surfaces"},
      {"vadd.u32.u32.u32 %r1, %r2, %r3;", "an instruction that is not understood"},
      {"shfl.idx.b32 %r1, %r2, 0, 31;", "without .sync"},
      {"vote.all.pred %p1, %p2;", "without .sync"},
      {"mov.v4.u32 {%r0, %r1, %r2, %r3}, %tid;", "as a whole vector"},
      {"isspacep.param %p1, %rd1;", "isspacep.param"},
  };
  for (const auto& [body, words] : cases) expect_refused(with_body(body), words);
}

// Its shared memory is another task's as soon as it has ended.
TEST(EntryToTask, AsynchronousCopiesThatNobodyWaitsFor_AreWaitedForAtTheEnd) {
  const auto end_of = [](const TaskBody& body) {
    const std::string text = ptx::print(body.module);
    const std::size_t end = text.find("$pergola_end:");
    return end == std::string::npos ? text : text.substr(end);
  };
  const std::string copy = "mov.u32 %r1, memory; cp.async.ca.shared.global [%r1], [%rd1], 16;";
  const std::string shared = ".shared .align 16 .b8 memory[64];\n";
  const auto own = task_of(with_body(shared + copy));
  ASSERT_TRUE(own.ok()) << own.message();
  EXPECT_THAT(end_of(*own), HasSubstr("cp.async.wait_all;"));
  const auto of_callee = task_of(".func copies(.param .u64 from)\n{\n.reg .b32 %r<2>; .reg .b64 %rd<2>;\n" + shared +
                                 "ld.param.u64 %rd1, [from];\n" + copy + "\nret;\n}\n" +
                                 with_body("{ .param .u64 x; st.param.u64 [x], %rd1; call copies, (x); }"));
  ASSERT_TRUE(of_callee.ok()) << of_callee.message();
  EXPECT_THAT(end_of(*of_callee), HasSubstr("cp.async.wait_all;"));
  const auto without = task_of(with_body(""));
  ASSERT_TRUE(without.ok()) << without.message();
  EXPECT_THAT(ptx::print(without->module), Not(HasSubstr("cp.async")));
}

TEST(EntryToTask, SizesBeyondTheShape_AreRefusedWithTheNumbers) {
  expect_refused(".entry k() .reqntid 32, 32, 1 { ret; }",
                 "it requires blocks of 32 x 32 x 1 = 1024 threads, and a block of a task has 992 at most");
  expect_refused(with_body(".shared .b8 box[50000]; mov.u32 %r1, box;"),
                 "its static shared arrays take 50000 bytes, and a block of a task has 49152 at most");
  TaskConfig small;
  small.most_shared_bytes = 1000;
  expect_refused(with_body(".shared .b8 a1[600]; .shared .align 16 .b8 a2[600]; mov.u32 %r1, a2;"),
                 "take 1208 bytes, and a block of a task has 1000", small);
  expect_refused(with_body(".shared .align 1024 .b8 box[8]; mov.u32 %r1, box;"),
                 "'box' is aligned to 1024 bytes, and the executor's allocations to 256");
  expect_refused(".entry k() .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }", "it is made for clusters");
}

TEST(EntryToTask, WrongCalls_SayWhatIsMissing) {
  const auto module = ptx::parse(std::string(kHeader) + with_body(""), "k.ptx");
  ASSERT_TRUE(module.ok());
  EXPECT_THAT(entry_to_task(*module, "other").message(), HasSubstr("k.ptx defines no kernel 'other'"));
  TaskConfig old;
  old.target = "sm_75";
  EXPECT_THAT(entry_to_task(*module, "k", old).message(), HasSubstr("'sm_75' is not"));
}

TEST(EntryToTask, ModuleVariables_AreRefusedWhereACopyIsNotAsGood) {
  expect_refused(".global .u32 count = 1;\n" + with_body("st.global.u32 [count], 1;"),
                 "it writes module variable 'count'");
  expect_refused(".global .u32 count;\n" + with_body("ld.global.u32 %r1, [count];"),
                 "reads module variable 'count', which has no initial value");
  expect_refused(".const .u32 gain;\n" + with_body("ld.const.u32 %r1, [gain];"),
                 "reads module variable 'gain', which has no initial value");
  expect_refused(".global .u32 count = 1;\n.entry other() { st.global.u32 [count], 2; ret; }\n" +
                     with_body("ld.global.u32 %r1, [count];"),
                 "it reads module variable 'count', which kernel 'other' writes");
  EXPECT_TRUE(task_of(".global .u32 table[2] = {1, 2};\n.const .u32 c[2] = {3, 4};\n" +
                      with_body("ld.global.u32 %r1, [table+4]; ld.const.u32 %r2, [c];"))
                  .ok());
}

TEST(EntryToTask, DeviceFunctions_MayNotEndTheThread) {
  expect_refused(".func f() { exit; }\n" + with_body("call f, ();"), "exit in a device function");
}

TEST(EntryToTask, PartialMasks_AreRefusedWhereLanesMayReturnUnseen) {
  expect_refused(with_body(R"(
  mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 9; @%p1 bra $odd; bra $met;
  $odd: setp.lt.u32 %p2, %r1, 4; @%p2 ret;
  $met: shfl.sync.idx.b32 %r2, %r1, 0, 31, 255;
  shfl.sync.idx.b32 %r2, %r1, 0, 31, 255;)"),
                 "some of its lanes may return while others are inside a branch");
}

TEST(EntryToTask, NamesThatHideOthers) {
  expect_refused(".shared .b32 box;\n" + with_body("{ .shared .b32 box; st.shared.u32 [box], 1; }"),
                 "'box' hides one of the module's");
  expect_refused(with_body("{ .shared .b32 box; } { .shared .b32 box; st.shared.u32 [box], 1; }"),
                 "two shared arrays 'box'");
  const auto body = task_of(with_body("ld.param.u64 %rd1, [a]; { .param .b64 a; st.param.b64 [a], %rd1; }"));
  ASSERT_TRUE(body.ok()) << body.message();
  EXPECT_THAT(ptx::print(body->module),
              AllOf(HasSubstr("ld.global.u64 %rd1, [%pergola_parameters];"), HasSubstr("st.param.b64 [a], %rd1;")));
}

// A resident kernel outlives what makes its data.
TEST(EntryToTask, Loads_AreCoherent) {
  const auto body = task_of(with_body("ld.global.nc.f32 %f1, [%rd1];"));
  ASSERT_TRUE(body.ok()) << body.message();
  EXPECT_THAT(ptx::print(body->module), AllOf(HasSubstr("ld.global.f32 %f1, [%rd1];"), Not(HasSubstr(".nc"))));
}

TEST(EntryToTask, WhatTheRegistersSay) {
  const auto body = task_of(with_body(""));
  ASSERT_TRUE(body.ok()) << body.message();
  EXPECT_TRUE(check_registers(*body, {32, 0, 32}).ok());
  EXPECT_THAT(check_registers(*body, {90, 148, 64}).message(),
              AllOf(HasSubstr("Kernel 'k'"), HasSubstr("90 registers"), HasSubstr("has 64"), HasSubstr("148 bytes")));
}

// A body is a .func in a module of its own: with what the kernel reaches and nothing else.
TEST(EntryToTask, TheModule_HoldsWhatTheKernelReaches) {
  const auto body = task_of(
      ".global .u32 unused = 1;\n.global .u32 table[2] = {1, 2};\n.shared .b32 box;\n.func g() { ret; }\n.func f() { "
      "ret; }\n"
      ".entry other() { ret; }\n" +
      with_body("call f, (); ld.global.u32 %r1, [table]; st.shared.u32 [box], %r1; mov.u32 %r1, %ctaid.y;"));
  ASSERT_TRUE(body.ok()) << body.message();
  const std::string text = ptx::print(body->module);
  EXPECT_TRUE(ptx::verify(body->module).ok()) << ptx::verify(body->module).message();
  EXPECT_THAT(text, AllOf(HasSubstr(".func pergola_task_k()"), HasSubstr(".func f()"), HasSubstr("table[2]"),
                          HasSubstr(".extern .shared .align 16 .b8 pergola_task_slots[3584];"),
                          HasSubstr("st.shared.u32 [%pergola_shared], %r1;"),
                          HasSubstr("ld.shared.u32 %pergola_ctaid_y, [%pergola_slot+20];")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr(".entry")), Not(HasSubstr("unused")), Not(HasSubstr("func g")),
                          Not(HasSubstr("%ctaid")), Not(HasSubstr("exit;"))));
  EXPECT_EQ(body->function, "pergola_task_k");
  EXPECT_EQ(body->parameter_bytes, 8u);
}

TEST(EntryToTask, OfAFunctionWhoseAddressIsTaken_WhatItNamesIsInTheModule) {
  const auto body = task_of(
      ".global .u32 table[2] = {1, 2};\n.shared .b32 box;\n.func g() { .reg .b32 %r; ld.global.u32 %r, [table]; "
      "st.shared.u32 [box], %r; ret; }\n.func f() { call g; ret; }\n" +
      with_body("mov.u64 %rd2, f; st.global.u64 [%rd1], %rd2;"));
  ASSERT_TRUE(body.ok()) << body.message();
  EXPECT_TRUE(ptx::verify(body->module).ok()) << ptx::verify(body->module).message();
  EXPECT_THAT(ptx::print(body->module), AllOf(HasSubstr(".func g()"), HasSubstr("table[2]")));
  EXPECT_EQ(body->static_shared_bytes, 4u);
}

TEST(EntryToTask, TheTarget_IsTheNewerOne) {
  TaskConfig config;
  config.target = "sm_80";
  EXPECT_EQ(task_of(with_body(""), config)->module.targets, std::vector<std::string>{"sm_90"});
  const auto old = ptx::parse(".version 6.0\n.target sm_70\n.address_size 64\n" + with_body(""), "k.ptx");
  const auto made = entry_to_task(*old, "k");
  ASSERT_TRUE(made.ok()) << made.message();
  EXPECT_EQ(made->module.targets, std::vector<std::string>{"sm_90"});
  EXPECT_EQ(made->module.version_major, 8u);
}

}  // namespace
}  // namespace pergola::transform
