// What the log keeps of each decision: why a computation went on its stream, and what orders it after each parent.
#include <gmock/gmock.h>

#include "src/scheduler/scheduler_fixture.h"

namespace pergola::scheduler::testing {
namespace {

class Reasons : public SchedulerTest {
 public:
  // "a:new b:first-child", in order of submission.
  std::string reasons() const {
    std::string text;
    for (const DagVertex& vertex : scheduler->picture().vertices)
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", vertex.name, to_string(vertex.reason));
    return text;
  }
  // What orders the last computation after its parents, in their order.
  std::string orders() const {
    std::string text;
    const DagVertex vertex = scheduler->picture().vertices.back();
    for (std::uint32_t i = 0; i < vertex.edge_count; ++i)
      text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(vertex.edges[i].order));
    return text;
  }
};

TEST_F(Reasons, FirstChild_FollowsItsParent_OthersGoElsewhere) {
  open();
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  ASSERT_TRUE(run("b", {"x"}, {"y"}).ok());
  EXPECT_EQ(orders(), "same-stream");
  ASSERT_TRUE(run("c", {"x"}, {"z"}).ok());
  EXPECT_EQ(orders(), "event");
  ASSERT_TRUE(run("d", {"x", "z"}, {"u"}).ok());
  EXPECT_EQ(orders(), "implied same-stream");  // its stream has waited for a
  EXPECT_EQ(reasons(), "a:idle b:first-child c:new d:first-child");
}

TEST_F(Reasons, StreamThatEndsBeforeTheParents_IsFreeByThen) {
  open();
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  ASSERT_TRUE(run("b", {}, {"y"}).ok());
  ASSERT_TRUE(run("c", {"x", "y"}, {"z"}).ok());
  ASSERT_TRUE(run("d", {"z"}, {"u"}).ok());
  ASSERT_TRUE(run("e", {"z"}, {"v"}).ok());
  EXPECT_EQ(reasons(), "a:idle b:new c:first-child d:first-child e:free-by-then");
}

TEST_F(Reasons, MissingEvent_IsLate) {
  predict = true;
  open("retrieve-new-stream=always-new");
  for (int i = 0; i < 8; ++i) {  // nobody uses the events behind a, until none is recorded
    ASSERT_TRUE(run("a", {}, {"x"}).ok());
    ASSERT_TRUE(run("b", {"x"}, {"y"}).ok());
    ASSERT_TRUE(scheduler->synchronize().ok());
  }
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  ASSERT_TRUE(run("b", {"x"}, {"y"}).ok());
  ASSERT_TRUE(run("c", {"x"}, {"z"}).ok());
  EXPECT_EQ(orders(), "late-event");
}

TEST_F(Reasons, Policies_AreReasons) {
  open("retrieve-new-stream=always-new,retrieve-parent-stream=same-as-parent,max-streams=3");
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  ASSERT_TRUE(run("b", {"x"}, {"y"}).ok());
  ASSERT_TRUE(run("c", {"x"}, {"z"}).ok());
  ASSERT_TRUE(run("d", {}, {"u"}).ok());
  ASSERT_TRUE(run("e", {}, {"v"}).ok());
  EXPECT_EQ(reasons(), "a:always-new b:same-as-parent c:same-as-parent d:always-new e:bound");
}

TEST_F(Reasons, DeviceWithoutMoreQueues_IsTold) {
  device->most_queues = 1;
  open();
  ASSERT_TRUE(run("a", {}, {"x"}).ok());
  ASSERT_TRUE(run("b", {}, {"y"}).ok());
  EXPECT_EQ(reasons(), "a:idle b:exhausted");
}

}  // namespace
}  // namespace pergola::scheduler::testing
