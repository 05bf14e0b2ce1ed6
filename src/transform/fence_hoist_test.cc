// Which bodies are known by one check at their begin, and what that checks. That they do what they did is
// tests/tasks/fence_hoist_test.
#include "src/transform/fence_hoist.h"

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

// Of a kernel `k` with pointers p, q in %rd1, %rd2, numbers n, m in %r1, %r2, %tid.x in %r3, %ntid.x in %r4.
TaskBody hoisted(const std::string& text, bool hoists = true) {
  const auto module = ptx::parse(
      ".version 8.3\n.target sm_90\n.address_size 64\n.func f() { ret; }\n"
      ".visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m)\n{\n"
      ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<20>;\n"
      "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m];\n"
      "mov.u32 %r3, %tid.x; mov.u32 %r4, %ntid.x;\n" +
          text + "\nret;\n}\n",
      "k.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  EXPECT_TRUE(ptx::verify(*module).ok()) << ptx::verify(*module).message();
  TaskConfig config;
  config.parameters = ptx::Space::kShared;
  config.fences = FenceConfig{};
  config.fences->hoists = hoists;
  auto body = entry_to_task(*module, "k", config);
  EXPECT_TRUE(body.ok()) << body.message();
  const auto again = ptx::parse(ptx::print(body->module), "body");
  EXPECT_TRUE(again.ok()) << again.message();
  EXPECT_TRUE(ptx::verify(*again).ok()) << ptx::verify(*again).message() << ptx::print(body->module);
  return *body;
}
std::string hoisted_text(const TaskBody& body) {
  return ptx::print(body.module);
}

// A loop around `inside`, with %r5 from `first` by `step` while `stays`; %rd5 is &p[%r5].
std::string loop(const std::string& first, const std::string& step, const std::string& stays,
                 const std::string& inside = "st.global.u32 [%rd5], 1;") {
  return "mov.u32 %r5, " + first + ";\n$again: mul.wide.s32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4;\n" + inside +
         "\nadd.s32 %r5, %r5, " + step + ";\nsetp." + stays + ";\n@%p1 bra $again;\n";
}

TEST(FenceHoist, WhatIsKnownAtTheBegin_IsCheckedThere) {
  const std::pair<const char*, std::string> cases[] = {
      {"a count", loop("0", "1", "lt.s32 %p1, %r5, %r1")},
      {"by as many threads as there are", loop("%r3", "%r4", "lt.s32 %p1, %r5, %r1")},
      {"down", loop("%r1", "-1", "gt.s32 %p1, %r5, 0")},
      {"until it is met", loop("0", "1", "ne.s32 %p1, %r5, %r1")},
      {"in steps of four until it is met", loop("0", "4", "ne.s32 %p1, %r5, 64")},
      {"with a break",
       loop("0", "1", "lt.s32 %p1, %r5, %r1", "ld.global.u32 %r6, [%rd5]; setp.eq.u32 %p2, %r6, 7; @%p2 bra $out;") +
           "$out:"},
      {"under a condition", loop("0", "1", "lt.s32 %p1, %r5, %r1",
                                 "setp.gt.s32 %p2, %r5, %r2; @%p2 bra $over; st.global.u32 [%rd5], 1; $over:")},
      {"a pointer that goes on",
       "mov.u64 %rd5, %rd1; mov.u32 %r5, 0; $again: st.global.u32 [%rd5], 1;\n"
       "add.s64 %rd5, %rd5, -8; add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r1; @%p1 bra $again;"},
      {"rows and columns", loop("%r3", "%r4", "lt.s32 %p1, %r5, %r1",
                                "div.s32 %r6, %r5, %r2; mul.lo.s32 %r7, %r6, %r2; sub.s32 %r8, %r5, %r7;\n"
                                "mad.lo.s32 %r9, %r8, %r2, %r6; mul.wide.s32 %rd6, %r9, 4; add.s64 %rd7, %rd2, %rd6;\n"
                                "st.global.u32 [%rd7], 1;")},
      {"bits of what is loaded", loop("0", "1", "lt.s32 %p1, %r5, %r1",
                                      "ld.global.u32 %r6, [%rd5]; and.b32 %r6, %r6, 63; mul.wide.u32 %rd6, %r6, 4;\n"
                                      "add.s64 %rd7, %rd2, %rd6; st.global.u32 [%rd7], 1;")},
  };
  for (const auto& [what, text] : cases) {
    const TaskBody body = hoisted(text);
    EXPECT_GT(body.fence_counts.hoisted, 0u) << what;
    const std::string got = hoisted_text(body);
    const std::size_t known = got.find("$again_known:"), checked = got.find("$pergola_checked:");
    ASSERT_NE(known, std::string::npos) << what;
    EXPECT_EQ(got.substr(known, checked - known).find("pergola_fence_bad"), std::string::npos) << what << got;
    EXPECT_EQ(hoisted_text(hoisted(text, false)).find("pergola_fence_known"), std::string::npos);
  }
}

TEST(FenceHoist, WhatIsNotKnown_IsCheckedInBothVersions) {
  const std::pair<const char*, std::string> cases[] = {
      {"an index from memory", loop("0", "1", "lt.s32 %p1, %r5, %r1",
                                    "ld.global.u32 %r6, [%rd2]; mul.wide.u32 %rd6, %r6, 4; add.s64 %rd7, %rd1, %rd6;\n"
                                    "st.global.u32 [%rd7], 1;")},
      {"a pointer from memory",
       loop("0", "1", "lt.s32 %p1, %r5, %r1", "ld.global.u64 %rd7, [%rd2]; st.global.u32 [%rd7], 1;")},
      {"no bound", loop("0", "1", "lt.s32 %p1, %r2, %r1",
                        "ld.global.u32 %r2, [%rd5]; st.global.u32 [%rd5], 1; st.global.u32 [%rd2], 1;")},
      {"not met for certain",
       loop("0", "3", "ne.s32 %p1, %r5, 64", "st.global.u32 [%rd5], 1; st.global.u32 [%rd2], 1;")},
      {"a limit that moves",
       loop("0", "1", "ne.s32 %p1, %r5, %r6", "ld.global.u32 %r6, [%rd2]; st.global.u32 [%rd5], 1;")},
      {"bits that are mixed", loop("0", "1", "lt.s32 %p1, %r5, %r1",
                                   "xor.b32 %r6, %r5, %r2; mul.wide.u32 %rd6, %r6, 4; add.s64 %rd7, %rd1, %rd6;\n"
                                   "st.global.u32 [%rd7], 1; st.global.u32 [%rd2], 1;")},
      {"written on one way alone",
       "setp.eq.u32 %p2, %r1, 3; @%p2 bra $has; mov.u32 %r9, 1; $has:\n" +
           loop("0", "1", "lt.s32 %p1, %r5, %r1",
                "mul.wide.u32 %rd6, %r9, 4; add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], 1;\n"
                "st.global.u32 [%rd2], 1;")},
  };
  for (const auto& [what, text] : cases) {
    const std::string got = hoisted_text(hoisted(text));
    const std::size_t known = got.find("$again_known:"), checked = got.find("$pergola_checked:");
    if (known == std::string::npos) continue;  // nothing is
    EXPECT_NE(got.substr(known, checked - known).find("pergola_fence_bad"), std::string::npos) << what << got;
  }
}

TEST(FenceHoist, IndicesThatMayWrap_AreRequiredNotTo) {
  EXPECT_THAT(hoisted_text(hoisted(loop("0", "1", "lt.s32 %p1, %r5, %r1",
                                  "mad.lo.s32 %r6, %r5, %r2, 7; mul.wide.s32 %rd6, %r6, 4;"
                                  "add.s64 %rd7, %rd1, %rd6; st.global.u32 [%rd7], 1;"))),
              HasSubstr("2147483647"));
  // Nobody asks whether a count to 64 wraps.
  EXPECT_THAT(hoisted_text(hoisted(loop("0", "1", "lt.s32 %p1, %r5, 64"))), Not(HasSubstr("2147483647")));
}

TEST(FenceHoist, Alignment_IsAskedOfThePointerAlone_WhereStepsKeepIt) {
  EXPECT_THAT(hoisted_text(hoisted(loop("0", "1", "lt.s32 %p1, %r5, %r1", "st.global.v2.u32 [%rd5], {%r1, %r1};"))),
              Not(HasSubstr("$again_known")))
      << "steps of four bytes, accesses of eight";
  EXPECT_THAT(hoisted_text(hoisted(loop("0", "2", "lt.s32 %p1, %r5, %r1", "st.global.v2.u32 [%rd5], {%r1, %r1};"))),
              AllOf(HasSubstr("$again_known"), HasSubstr(", 7;\n")));
}

TEST(FenceHoist, LanesThatMeet_GoOneWay) {
  const std::string stores = loop("%r3", "%r4", "lt.s32 %p1, %r5, %r1");
  EXPECT_THAT(hoisted_text(hoisted(stores)), Not(HasSubstr("vote.sync")));
  EXPECT_THAT(hoisted_text(hoisted(stores + "bar.sync 0;")),
              HasSubstr("vote.sync.all.pred %pergola_fence_known, %pergola_fence_known, %pergola_live;"));
}

TEST(FenceHoist, SmallBodies_StayAsTheyAre) {
  const TaskBody body = hoisted("st.global.u32 [%rd1], 1;");
  EXPECT_EQ(body.fence_counts.hoisted, 0u);
  EXPECT_THAT(hoisted_text(body), Not(HasSubstr("pergola_fence_known")));
}

TEST(FenceHoist, FailuresAreSpelledAsWithoutIt) {
  const std::string text = loop("0", "1", "lt.s32 %p1, %r5, %r1");
  const TaskBody with = hoisted(text), without = hoisted(text, false);
  ASSERT_EQ(without.fences.size(), 1u);
  ASSERT_EQ(with.fences.size(), 1u) << "the other copy has no check";
  EXPECT_EQ(with.fences[0].place, without.fences[0].place);
  EXPECT_EQ(with.fence_counts.checks, without.fence_counts.checks);
}

}  // namespace
}  // namespace pergola::transform
