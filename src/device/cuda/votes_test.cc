#include "src/device/cuda/votes.h"

#include <gtest/gtest.h>

#include "src/ptx/parser.h"
#include "src/ptx/verifier.h"

namespace pergola::device::cuda {
namespace {

TEST(Votes, BecomeBallots) {
  EXPECT_EQ(with_votes_in_place("vote.sync.all.pred %p1, %p2, -1;\n"),
            "{ .reg .b32 %pergola_v; vote.sync.ballot.b32 %pergola_v, !%p2, -1; setp.eq.u32 %p1, %pergola_v, 0; }\n");
  EXPECT_EQ(with_votes_in_place("a: @!%q vote.sync.any.pred p,!q, %r;"),
            "a: { .reg .b32 %pergola_v; @!%q vote.sync.ballot.b32 %pergola_v, !q, %r; @!%q setp.ne.u32 p, %pergola_v, 0; }");
  EXPECT_EQ(with_votes_in_place("bar.sync 0; vote.sync.all.pred p, !q, m;").substr(0, 70),
            "bar.sync 0; { .reg .b32 %pergola_v; vote.sync.ballot.b32 %pergola_v, q");
}

TEST(Votes, EverythingElse_StaysAsItIs) {
  for (const char* text : {"vote.sync.ballot.b32 r, p, -1;", "vote.all.pred p, q;", "vote.sync.all.pred p, q;", "vote.sync.all.pred",
                           "vote.sync.all.pred;", "vote.sync.all.b32 p, q, -1;", "// vote.sync.all.pred of\n a, b, c;", ""})
    EXPECT_EQ(with_votes_in_place(text), text);
}

TEST(Votes, WhatIsWritten_IsPtx) {
  const std::string text = with_votes_in_place(
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() {\n.reg .pred %p<4>;\n.reg .b32 %r;\n"
      "setp.eq.u32 %p1, %r, 0;\nvote.sync.uni.pred %p1, %p1, 0xffffffff;\n@%p1 vote.sync.any.pred %p2, !%p1, %r;\n"
      "@!%p2 vote.sync.all.pred %p3, %p1, 15;\nret;\n}\n");
  const auto module = ptx::parse(text, "votes.ptx");
  ASSERT_TRUE(module.ok()) << module.message() << text;
  const Status status = ptx::verify(*module);
  EXPECT_TRUE(status.ok()) << status.message() << text;
}

}  // namespace
}  // namespace pergola::device::cuda
