#include "src/scheduler/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pergola::scheduler {
namespace {

TEST(Policy, EveryName_IsTakenAndToldBack) {
  const auto policy = parse_policy(
      "retrieve-new-stream=always-new,retrieve-parent-stream=same-as-parent,dependency=no-const,execution=sync,"
      "max-streams=7,fork-cost=0,memory=managed,tasks=small");
  ASSERT_TRUE(policy.ok()) << policy.message();
  EXPECT_EQ(policy->retrieve_new_stream, RetrieveNewStream::kAlwaysNew);
  EXPECT_EQ(policy->retrieve_parent_stream, RetrieveParentStream::kSameAsParent);
  EXPECT_EQ(policy->dependency, DependencyPolicy::kNoConst);
  EXPECT_EQ(policy->execution, Execution::kSync);
  EXPECT_EQ(policy->max_streams, 7u);
  EXPECT_EQ(policy->fork_cost_us, 0u);
  EXPECT_EQ(policy->memory, Memory::kManaged);
  EXPECT_EQ(policy->tasks, Tasks::kSmall);
  EXPECT_EQ(*parse_policy(to_string(*policy)), *policy);
  EXPECT_EQ(*parse_policy(to_string(Policy{})), Policy{});
}

TEST(Policy, EveryWord_IsTakenAndToldBack) {
  const auto known = parse_policy("?=").message();
  const std::vector<std::pair<std::string, std::vector<std::string>>> all = {
      {"retrieve-new-stream", {"reuse", "always-new"}},
      {"graphs", {"measured", "recurring", "off", "always"}},
      {"blocks",
       {"off", "measured", "trimmed", "packed", "packed-early", "early", "by-block", "fused", "columns", "merged",
        "merged-kernels", "merged-early", "stacked", "stacked-alone", "merged-stacked", "constants"}},
      {"max-streams", {"1", "1024"}},
      {"tasks", {"off", "small"}}};
  for (const auto& [name, words] : all)
    for (const std::string& word : words) {
      const auto policy = parse_policy(name + "=" + word);
      ASSERT_TRUE(policy.ok()) << policy.message();
      EXPECT_THAT("," + to_string(*policy) + ",", ::testing::HasSubstr("," + name + "=" + word + ","));
    }
  EXPECT_EQ(parse_policy("graphs=off,max-streams=2,graphs=always").message(),
            "The scheduling policy gives 'graphs' twice, the second time as 'graphs=always': give it once.");
  EXPECT_EQ(parse_policy("blocks=fused")->blocks, Blocks::kFused);
  EXPECT_EQ(parse_policy("blocks=trimmed")->blocks, Blocks::kTrimmed);
  EXPECT_EQ(parse_policy("blocks=packed-early")->blocks, Blocks::kPackedEarly);
  EXPECT_EQ(parse_policy("blocks=columns")->blocks, Blocks::kColumns);
  EXPECT_EQ(parse_policy("blocks=merged-early")->blocks, Blocks::kMergedEarly);
  EXPECT_THAT(known, ::testing::AllOf(
                         ::testing::HasSubstr(", max-streams=1 to 1024, fork-cost=0 to 1024, graphs=measured|recurring|off|always"),
                         ::testing::EndsWith("tasks=off|small.")));
}

TEST(Policy, AColonOrSpaces_AreAsGood) {
  const auto policy = parse_policy("retrieve-new-stream: always-new, dependency = no-const ,fork-cost:0");
  ASSERT_TRUE(policy.ok()) << policy.message();
  EXPECT_EQ(*policy, *parse_policy("retrieve-new-stream=always-new,dependency=no-const,fork-cost=0"));
  for (const char* wrong : {"dependency:", ":no-const", "dependency", " ", "dependency:=no-const",
                            "dependency:no-const,dependency =no-const"})
    EXPECT_EQ(parse_policy(wrong).code(), Code::kInvalidArgument) << wrong;
}

TEST(Policy, WhatIsLeftOut_KeepsItsValue) {
  EXPECT_EQ(*parse_policy(""), Policy{});
  const auto policy = parse_policy("dependency=no-const", {.max_streams = 3});
  EXPECT_EQ(policy->max_streams, 3u);
  EXPECT_EQ(policy->execution, Execution::kAsync);
}

TEST(Policy, OtherWords_AreRefusedByName) {
  for (const char* text :
       {"reuse", "execution=later", "tasks=all", "dependency=", "max-streams=0", "fork-cost=", "fork-cost=-1",
        "max-streams=1x", "=sync", ",", "max-streams=99999999999", "execution=sync execution=async"}) {
    const auto policy = parse_policy(text);
    ASSERT_EQ(policy.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(policy.message(), ::testing::HasSubstr("there are retrieve-new-stream=reuse|always-new")) << text;
  }
}

}  // namespace
}  // namespace pergola::scheduler
