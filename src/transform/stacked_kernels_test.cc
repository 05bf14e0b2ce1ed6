// Kernels stacked in one: which may be followed by others, what stands between them, and which loads stay as they were.
// That graphs have the right bits is tests/blocks/stacked_graphs_test.cc's.
#include "src/transform/stacked_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"
#include "src/transform/merged_launches.h"

namespace pergola::transform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ptx::Module module_of(const std::string& text) {
  auto module = ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n" + text, "parts.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  const Status verified = ptx::verify(*module);
  EXPECT_TRUE(verified.ok()) << verified.message();
  return std::move(module).value();
}

ptx::Module stackable(const std::string& text) {
  ptx::Module module = module_of(text);
  const Status merged = merge_launches(module, "k", {.launches = 1});
  EXPECT_TRUE(merged.ok()) << merged.message();
  return module;
}

Result<ptx::Module> stacked(const std::vector<ptx::Module>& modules, const std::vector<std::uint32_t>& constant = {}) {
  std::vector<StackedPart> parts;
  for (const ptx::Module& module : modules) parts.push_back({&module, "k_merged", constant});
  PERGOLA_ASSIGN(ptx::Module module, stack_kernels(parts, {64, 2, 1}));
  const Status verified = ptx::verify(module);
  EXPECT_TRUE(verified.ok()) << verified.message() << ptx::print(module);
  const Result<ptx::Module> again = ptx::parse(ptx::print(module), "stacked.ptx");
  EXPECT_TRUE(again.ok() && ptx::print(*again) == ptx::print(module)) << again.message() << ptx::print(module);
  return module;
}

// Of a kernel of registers %r and %p, and an array `tile`.
std::string why_not_followed(const std::string& body, const std::string& before = "") {
  const ptx::Module module = module_of(
      before + ".entry k(.param .u64 x) { .reg .b32 %r<4>; .reg .b64 %rd; .reg .pred %p; .shared .b64 tile[8];\n" +
      body + "\nret; }");
  const Status can = can_be_followed(module, "k");
  EXPECT_TRUE(can.ok() || can.code() == Code::kUnsupported);
  return can.message();
}

TEST(StackedKernels, EachPart_EndsAtABarrier_AndReadsItsOwnParameters) {
  const auto module =
      stacked({stackable(".entry k(.param .u64 x) { .reg .b64 %r; .reg .b32 %c; .reg .pred %p; ld.param.u64 %r, [x]; "
                         "setp.eq.s64 %p, %r, 0; @%p exit; mov.u32 %c, %ctaid.z; ret; }"),
               stackable(".entry k(.param .u32 n, .param .align 16 .b8 s[32]) { .reg .b32 %r; ld.param.u32 %r, [s+4]; "
                         "exit; }")});
  ASSERT_TRUE(module.ok()) << module.message();
  const auto signature = ptx::signature(*module, *module->find_function(kStackedKernel));
  ASSERT_TRUE(signature.ok()) << signature.message();
  ASSERT_EQ(signature->parameters.size(), 2u);
  EXPECT_EQ(signature->parameters[0].size_bytes, 8u);
  EXPECT_EQ(signature->parameters[1].offset_bytes, 16u);
  EXPECT_EQ(signature->parameters[1].size_bytes, 48u);
  EXPECT_EQ(signature->required_threads, (std::array<std::uint32_t, 3>{64, 2, 1}));
  const std::string text = ptx::print(*module);
  EXPECT_THAT(text, HasSubstr("bar.sync 0;"));
  EXPECT_EQ(text.find("bar.sync 0;"), text.rfind("bar.sync 0;")) << "none behind the last part";
  EXPECT_THAT(text, HasSubstr("%ctaid.z")) << "a launch's own index is the stack's";
  EXPECT_THAT(text, Not(HasSubstr("exit")));
}

TEST(StackedKernels, LoadsOfWhatAPartMayWrite_AreCoherent) {
  const std::string text =
      ".entry k(.param .u64 x) { .reg .b64 %rd; .reg .b32 %r;\nld.param.u64 %rd, [x];\n"
      "ld.global.nc.u32 %r, [%rd];\nld.global.nc.u32 %r, [%rd+4];\nret; }";
  const auto module = stacked({stackable(text)}, {7});
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_THAT(ptx::print(*module), HasSubstr("ld.global.u32 %r, [%rd];"));
  EXPECT_THAT(ptx::print(*module), HasSubstr("ld.global.nc.u32 %r, [%rd+4];"));
}

// Launches order the async proxy's accesses of shared memory with others, barriers do not.
TEST(StackedKernels, BehindAnother_NothingReachesMemoryByTheAsyncProxy) {
  const std::string bulk =
      ".entry k(.param .u64 x) { .reg .b64 %rd; .reg .b32 %r<3>; .shared .align 16 .b8 t[16]; .shared .b64 b; "
      "ld.param.u64 %rd, [x]; mov.u32 %r0, t; mov.u32 %r1, b;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd], 16, [%r1]; ret; }";
  const std::string plain = ".entry k() { ret; }";
  EXPECT_TRUE(stacked({stackable(bulk)}).ok()) << "it comes first";
  const auto behind = stacked({stackable(plain), stackable(bulk)});
  ASSERT_EQ(behind.code(), Code::kUnsupported);
  EXPECT_THAT(behind.message(),
              HasSubstr("parts.ptx:5: kernel 'k_merged' cannot be stacked on others: `cp.async.bulk"));
}

TEST(StackedKernels, SharedMemory_IsThatOfThePartWithMost) {
  const auto module =
      stacked({stackable(".entry k() { .shared .align 4 .b8 a[100]; .reg .b32 %r; mov.u32 %r, a; ret; }"),
               stackable(".entry k() { .shared .align 8 .b8 b[40]; .reg .b32 %r; mov.u32 %r, b; ret; }")});
  ASSERT_TRUE(module.ok()) << module.message();
  EXPECT_EQ(ptx::signature(*module, *module->find_function(kStackedKernel))->static_shared_bytes, 100u);
}

TEST(CanBeFollowed, WhereAllThreadsMeet) {
  EXPECT_EQ(why_not_followed("mov.u32 %r0, %tid.x; setp.gt.u32 %p, %r0, 7; @%p ret;"), "");
  EXPECT_EQ(why_not_followed("bar.sync 0; mov.u32 %r0, %tid.x; setp.gt.u32 %p, %r0, 7; @%p exit;"), "");
  EXPECT_EQ(why_not_followed("mov.u32 %r0, %ctaid.x; setp.gt.u32 %p, %r0, 7; @%p ret; bar.sync 0;"), "")
      << "all of the block's go, or none";
  EXPECT_EQ(why_not_followed("mov.u32 %r1, 0;\nAGAIN: bar.sync 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 9; @%p bra "
                             "AGAIN; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; call meet, ();",
                             ".func meet() { bar.sync 1; ret; }\n"),
            "");
}

TEST(CanBeFollowed, NotWhereOthersWouldWaitForTheThreadsThatEnd) {
  const std::string leaves = "mov.u32 %r0, %tid.x; setp.gt.u32 %p, %r0, 7; @%p ret; ";
  const std::string why =
      "parts.ptx:4: no launch can be stacked on kernel 'k': some threads of 'k' may end, or go another way, where "
      "others "
      "meet at a barrier or within a warp";
  EXPECT_THAT(why_not_followed(leaves + "bar.sync 0;"), HasSubstr(why));
  EXPECT_THAT(why_not_followed(leaves + "barrier.red.popc.u32 %r1, 0, %p;"), HasSubstr(why));
  EXPECT_THAT(why_not_followed(leaves + "shfl.sync.down.b32 %r1, %r0, 1, 31, -1;"), HasSubstr(why));
  EXPECT_THAT(why_not_followed(leaves + "bar.warp.sync -1;"), HasSubstr(why));
  const std::string meet = ".func meet() { bar.sync 1; ret; }\n.func by() { call meet, (); ret; }\n";
  EXPECT_THAT(why_not_followed(leaves + "call by, ();", meet), HasSubstr("some threads of 'k' may end"));
  EXPECT_THAT(why_not_followed("call half, ();",
                               ".func half() { .reg .b32 %r; .reg .pred %p; mov.u32 %r, %tid.x; setp.eq.u32 %p, %r, 1; "
                               "@%p ret; bar.sync 1; ret; }\n"),
              HasSubstr("parts.ptx:4: no launch can be stacked on kernel 'k': some threads of 'half' may end"));
}

// What a function is given is not known to be the same in all threads, and a guard may keep some of them away.
TEST(CanBeFollowed, NotWhereAFunctionsArgumentOrAGuardDecides) {
  const std::string tail =
      ".func tail(.param .b32 t) { .reg .b32 %r; .reg .pred %p; ld.param.u32 %r, [t]; setp.ge.u32 %p, %r, 64; @%p ret; "
      "bar.sync 0; ret; }\n";
  EXPECT_THAT(why_not_followed("mov.u32 %r0, %tid.x; { .param .b32 a; st.param.b32 [a], %r0; call tail, (a); }", tail),
              HasSubstr("some threads of 'tail' may end"));
  const std::string guard = "mov.u32 %r0, %tid.x; setp.lt.u32 %p, %r0, 64; ";
  EXPECT_THAT(why_not_followed(guard + "@%p bar.sync 0;"), HasSubstr("some threads may pass `@%p bar.sync 0;` by"));
  EXPECT_THAT(why_not_followed(guard + "@%p call meet, ();", ".func meet() { bar.sync 1; ret; }\n"),
              HasSubstr("some threads may pass `@%p call"));
  EXPECT_THAT(why_not_followed("bar.arrive 1, 64;"), HasSubstr("may leave its barrier half full"));
}

TEST(CanBeFollowed, NotWhereItIsNotOverAtItsEnd) {
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"ld.param.u64 %rd, [x]; mov.u32 %r0, tile; cp.async.ca.shared.global [%r0], [%rd], 4;",
            "may leave a copy under way"},
           {"mov.u32 %r0, tile; mbarrier.init.shared.b64 [%r0], 1;", "leaves an mbarrier in shared memory"},
           {"call gone, ();", "ends a thread within a function"},
       })
    EXPECT_THAT(why_not_followed(body, ".func gone() { exit; }\n"), HasSubstr(why)) << body;
  EXPECT_THAT(why_not_followed("ld.param.u64 %rd, [x]; prototype: .callprototype _ (); call %rd, (), prototype;"),
              HasSubstr("it calls what is not known"));
}

}  // namespace
}  // namespace pergola::transform
