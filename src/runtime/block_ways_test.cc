// Which ways are offered for a graph, on a device of the kind that measures them, which never runs here.
#include "src/runtime/block_ways.h"

#include <gmock/gmock.h>

#include "src/device/cuda/cuda_device.h"
#include "src/device/test_graphs.h"
#include "src/scheduler/computation.h"

namespace pergola::runtime {
namespace {

using device::order_of;
using scheduler::GraphWay;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The graph is
//  0 ─▶ 1 ─┐
//  2 ─▶ 3 ─▶ 4 ─▶ 5
class OrderedWay : public ::testing::Test {
 protected:
  // Where the launches are expected to take so long.
  std::optional<GraphWay> ordered(const std::vector<double>& us) {
    auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
    EXPECT_TRUE(device) << device.message();
    BlockWays ways(std::move(device).value(), scheduler::Blocks::kMeasured);
    std::vector<scheduler::LaunchToLower> launches(us.size());
    for (std::size_t i = 0; i < us.size(); ++i) launches[i].expected_ns = us[i] * 1e3;
    std::optional<GraphWay> way = ways.way(0, device::graph_of({{}, {0}, {}, {2}, {3}, {1, 4}}), launches);
    EXPECT_EQ(way ? way->name : "ordered", "ordered");
    return way;
  }
};

TEST_F(OrderedWay, HasTheLongestWayFirst_ByWhatLaunchesTake) {
  const auto way = ordered({1, 1, 9, 1, 1, 1});
  ASSERT_TRUE(way);
  EXPECT_THAT(order_of(way->spec), ElementsAre(2, 3, 4, 0, 1, 5));
  EXPECT_THAT(way->why, HasSubstr("by what they were seen to take"));
}

TEST_F(OrderedWay, HasTheChainOfMoreLaunchesFirst_WhereTimesAreNotKnown) {
  const auto way = ordered({1, 1, scheduler::kUnknownDurationNs * 1e-3, 1, 1, 1});
  ASSERT_TRUE(way);
  EXPECT_THAT(order_of(way->spec), ElementsAre(2, 3, 4, 0, 1, 5));
  EXPECT_THAT(way->why, HasSubstr("each counted alike"));
}

// By these the order is as it is, which a disturbed time may make so.
TEST_F(OrderedWay, HasTheChainOfMoreLaunchesFirst_WhereTimesChangeNothing) {
  const auto way = ordered({9, 1, 1, 1, 1, 1});
  ASSERT_TRUE(way);
  EXPECT_THAT(order_of(way->spec), ElementsAre(2, 3, 4, 0, 1, 5));
  EXPECT_THAT(way->why, HasSubstr("each counted alike"));
}

}  // namespace
}  // namespace pergola::runtime
