// Launches that are known by what their caller wrote (base/call_text.h): only the one expected next, as it was last
// submitted, while nothing that the text stands for has changed.
#include <gmock/gmock.h>

#include "src/scheduler/graph_fixture.h"

namespace pergola::scheduler::testing {
namespace {

class CallTexts : public TextTest {
 protected:
  // Whether it was known.
  bool write(const std::string& name, std::vector<std::string> in, std::vector<std::string> out, double ns = 1000,
             const std::string& more = "") {
    std::vector<Access> accesses;
    for (const std::string& each : in) accesses.push_back(all(each, Mode::kRead));
    for (const std::string& each : out) accesses.push_back(all(each, Mode::kWrite));
    const auto [is_known, status] = write_text(name, name + more, accesses, ns);
    EXPECT_TRUE(status.ok()) << status.message();
    return is_known;
  }
  // Four launches; how many of them were known.
  int write_turn() {
    return write("a", {"x"}, {"y"}, 1000) + write("b", {"x"}, {"z"}, 2000) + write("c", {"y", "z"}, {"w"}, 3000) +
           write("d", {"w"}, {"x"}, 4000);
  }
  // Until the region is found, its graph made, and each of its launches known.
  void learn_texts() {
    for (int i = 0; i < 17; ++i) write_turn();
    scheduler->settle_graphs();
    for (int i = 0; i < 2 * kTurns; ++i) write_turn();
    scheduler->settle_graphs();
    ASSERT_EQ(scheduler->graph_counters().graphs, 1u);
    while (scheduler->graph_counters().replaced == 0) write_turn();
    ASSERT_EQ(write_turn(), 4);
  }
  std::uint64_t known() const { return scheduler->graph_counters().by_text; }
};

TEST_F(CallTexts, LaunchesThatRecur_AreKnownAndRunAsTheSameGraphs) {
  open_always();
  learn_texts();
  const std::size_t first = graph_launches();
  while (graph_launches() == first) write_turn();  // nothing is held now
  const std::size_t before = kernel_launches(), graphs_before = graph_launches();
  for (int i = 0; i < 4 * kTurns; ++i) EXPECT_EQ(write_turn(), 4);
  EXPECT_EQ(graph_launches() - graphs_before, 4u);
  EXPECT_EQ(kernel_launches(), before);
  ASSERT_TRUE(scheduler->synchronize().ok());
  EXPECT_EQ(scheduler->graph_counters().regions, 1u);
}

// Those that are held behind others are counted and no more, and each is one that an event may be asked for.
TEST_F(CallTexts, LaunchesThatAreHeld_HaveTicketsInTheirOrder) {
  open_always();
  learn_texts();
  for (const std::size_t before = graph_launches(); graph_launches() == before;) write_turn();
  ASSERT_FALSE(scheduler->holds_launches());
  const std::uint64_t known_before = known();
  std::vector<Ticket> tickets;
  const auto is_known = [&](bool known) {
    EXPECT_TRUE(known);
    tickets.push_back(ticket);
  };
  is_known(write("a", {"x"}, {"y"}, 1000));
  is_known(write("b", {"x"}, {"z"}, 2000));
  is_known(write("c", {"y", "z"}, {"w"}, 3000));
  EXPECT_TRUE(scheduler->holds_launches());
  EXPECT_EQ(known() - known_before, 3u);
  EXPECT_THAT(tickets, ::testing::ElementsAre(tickets[0], tickets[0] + 1, tickets[0] + 2));
  const std::size_t kernels = kernel_launches();
  for (const Ticket each : tickets) EXPECT_TRUE(scheduler->event_of(each).ok());
  EXPECT_EQ(kernel_launches() - kernels, 3u);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

// Without graphs launches are known all the same, and are launched one by one in their order.
TEST_F(CallTexts, OnAnIdleDevice_LaunchesAreKnownAndNotHeld) {
  open("graphs=recurring");
  for (int i = 0; i < 60; ++i) {
    write_turn();
    ASSERT_TRUE(read("x").ok());  // and so the device is idle
  }
  const std::size_t before = kernel_launches();
  EXPECT_EQ(write_turn(), 4);
  EXPECT_EQ(kernel_launches(), before + 4);
  EXPECT_EQ(graph_launches(), 0u);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(CallTexts, AnotherText_IsNotKnown) {
  open_always();
  learn_texts();
  EXPECT_FALSE(write("a", {"x"}, {"y"}, 1000, "!")) << "another text of the same launch";
  EXPECT_TRUE(write("b", {"x"}, {"z"}, 2000));
  EXPECT_FALSE(write("d", {"w"}, {"x"}, 4000)) << "known, but not the next";
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(CallTexts, WhenAHandleIsDestroyed_NothingIsKnownUntilItCameAgain) {
  open_always();
  learn_texts();
  ++dropped;
  EXPECT_EQ(write_turn(), 0);
  for (int i = 1; i < kTurns; ++i) write_turn();
  EXPECT_EQ(write_turn(), 4);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(CallTexts, AnArrayThatTheHostIsAheadOf_IsNotKnown_AndOthersAre) {
  open_always();
  learn_texts();
  std::atomic<HostState> state{HostState::kHost};  // of x, which is uploaded before work that uses it
  arrays.at("x")->set_host_side(&state);
  EXPECT_FALSE(write("a", {"x"}, {"y"}, 1000));
  state = HostState::kUploaded;  // and once it is there, nothing is left to do
  EXPECT_TRUE(write("b", {"x"}, {"z"}, 2000));
  EXPECT_EQ(state, HostState::kUploaded) << "read";
  EXPECT_TRUE(write("c", {"y", "z"}, {"w"}, 3000));
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(CallTexts, ALaunchThatIsKnown_TakesBothSidesForOneThatItChanges) {
  open_always();
  learn_texts();
  for (const HostState both : {HostState::kDownloaded, HostState::kUploaded}) {
    std::atomic<HostState> y{both}, z{HostState::kNone};
    arrays.at("y")->set_host_side(&y);
    arrays.at("z")->set_host_side(&z);
    EXPECT_EQ(write_turn(), 4);
    EXPECT_EQ(y, HostState::kDevice) << "what the host has of it is older now";
    EXPECT_EQ(z, HostState::kNone);
    arrays.at("y")->set_host_side(nullptr);
    arrays.at("z")->set_host_side(nullptr);
  }
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(CallTexts, WhileTheHostHasAnArray_NothingIsKnown) {
  open_always();
  learn_texts();
  ASSERT_TRUE(scheduler->synchronize().ok());
  {
    const auto host = scheduler->begin_host_access(all("v", Mode::kRead));
    ASSERT_TRUE(host.ok());
    EXPECT_FALSE(write("a", {"x"}, {"y"}, 1000));
  }
  EXPECT_TRUE(write("b", {"x"}, {"z"}, 2000));
  ASSERT_TRUE(scheduler->synchronize().ok());
}

TEST_F(CallTexts, InsideALibraryCall_LaunchesAreRefusedAsEver) {
  device->state().has_handles = true;
  open_always();
  learn_texts();
  const Access accesses[] = {all("v", Mode::kReadWrite)};
  const std::string config = "1x32", arguments = "a";
  const Status status = scheduler->call({WorkKind::kLibrary, scheduler->site("gemm"), accesses}, false, [&](void*) {
    const CallText text{&kernels_["a"], std::as_bytes(std::span(config)), std::as_bytes(std::span(arguments)), &dropped,
                        dropped.load()};
    EXPECT_FALSE(scheduler->submit_again(text, nullptr).has_value());
    return Status();
  });
  ASSERT_TRUE(status.ok()) << status.message();
}

// A host that waits after each turn: its turns are alike, and one graph of one turn serves them all.
TEST_F(CallTexts, TurnsThatEndInAWait_ShareOneGraph) {
  open_always();
  for (int i = 0; i < 40; ++i) {
    write_turn();
    ASSERT_TRUE(scheduler->synchronize().ok());
    scheduler->settle_graphs();
  }
  EXPECT_EQ(write_turn(), 4);
  const GraphsReport report = scheduler->graphs();
  ASSERT_EQ(report.regions.size(), 1u);
  int ready = 0;
  for (const GraphReport& graph : report.regions[0].graphs)
    if (graph.state == GraphReport::State::kReady) {
      ++ready;
      EXPECT_EQ(graph.launches, 4u);
    }
  EXPECT_EQ(ready, 1);
  ASSERT_TRUE(scheduler->synchronize().ok());
}

}  // namespace
}  // namespace pergola::scheduler::testing
