// Which ways are offered for a graph, on a device of the kind that measures them, which never runs here.
#include "src/runtime/block_ways.h"

#include <gmock/gmock.h>

#include <cstring>

#include "src/device/cuda/cuda_device.h"
#include "src/device/cuda/cuda_driver_types.h"
#include "src/device/graph_order.h"
#include "src/device/test_graphs.h"
#include "src/ptx/parser.h"
#include "src/runtime/fake_driver.h"
#include "src/runtime/loaded_block_form.h"
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

// In order already, the shorter launch has the lower priority; of equal ones there is nothing to say.
TEST_F(OrderedWay, InOrderAlready_HasPriorities) {
  auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
  ASSERT_TRUE(device) << device.message();
  BlockWays ways(std::move(device).value(), scheduler::Blocks::kMeasured);
  device::GraphSpec plain = device::graph_of({{}, {}});
  for (device::GraphNode& node : plain.nodes) node.work = device::KernelNode{};
  std::vector<scheduler::LaunchToLower> launches(2);
  launches[0].expected_ns = 1000, launches[1].expected_ns = 900;
  const auto way = ways.way(0, plain, launches);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->name, "ordered");
  EXPECT_EQ(way->spec.nodes[0].priority, device::kMostPriority);
  EXPECT_LT(way->spec.nodes[1].priority, device::kMostPriority);
  EXPECT_GT(way->spec.nodes[1].priority, 0);
  launches[1].expected_ns = 1000;
  EXPECT_FALSE(ways.way(0, plain, launches));
}

// sum: y[e] += the sum of k < n. product: a product of floating point without a rounding of its own.
constexpr std::string_view kFinerPtx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry sum(.param .u64 y, .param .u32 n) {
  .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .pred %p;
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; ld.param.u64 %rd1, [y]; add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r2, [%rd1]; ld.param.u32 %r3, [n]; mov.u32 %r4, 0;
$next:
  setp.ge.u32 %p, %r4, %r3; @%p bra $end;
  add.u32 %r2, %r2, %r4; add.u32 %r4, %r4, 1; bra $next;
$end:
  st.global.u32 [%rd1], %r2;
  ret;
}
.visible .entry product(.param .u64 y, .param .u32 n) {
  .reg .b32 %r; .reg .f32 %f; .reg .b64 %rd;
  ld.param.u64 %rd, [y]; ld.param.u32 %r, [n]; cvt.rn.f32.u32 %f, %r; mul.f32 %f, %f, %f; st.global.f32 [%rd], %f;
  ret;
}
)";

class FinerWays : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
    ASSERT_TRUE(device) << device.message();
    device_ = std::move(device).value();
    ways_ = std::make_unique<BlockWays>(device_, scheduler::Blocks::kMeasured);
  }
  std::optional<GraphWay> finer(const std::string& kernel, std::size_t n, const std::vector<std::string>& fastest) {
    return of_chain(kernel, [&](const device::GraphSpec& plain, std::span<const scheduler::LaunchToLower> launches) {
      return ways_->finer_way(n, plain, launches, fastest);
    });
  }
  // What is made of a chain of two launches of the kernel, with the same n.
  template <typename Make>
  std::optional<GraphWay> of_chain(const std::string& kernel, const Make& make) {
    const auto text = std::make_shared<const std::string>(kFinerPtx);
    LoadedBlockForm form(device_, text, "finer.ptx", kernel, "");
    const auto parsed = ptx::parse(*text, "finer.ptx").value();
    const auto module = device_->load({&parsed, *text, "finer.ptx"}).value();
    device::GraphSpec plain;
    for (device::NodeId i = 0; i < 2; ++i) {
      device::KernelNode work{module, *module->kernel(kernel), {.grid = {1, 1, 1}, .block = {32, 1, 1}}, {}};
      work.parameters.resize(12);
      const std::uint32_t count = 40;
      std::memcpy(work.parameters.data() + 8, &count, sizeof count);
      plain.nodes.push_back({std::move(work), {}, {}});
      if (i != 0) plain.nodes.back().after = {i - 1};
    }
    std::vector<scheduler::LaunchToLower> launches(2);
    for (scheduler::LaunchToLower& launch : launches) launch.form = &form;
    return make(plain, std::span<const scheduler::LaunchToLower>(launches));
  }
  static std::string kernel_of(const GraphWay& way, std::size_t node) {
    return std::get<device::KernelNode>(way.spec.nodes[node].work).kernel->signature().name;
  }

  device::DevicePtr device_;
  std::unique_ptr<BlockWays> ways_;
};

TEST_F(FinerWays, AreTheFastestOnes_AndThePlainOne_WithConstants) {
  EXPECT_EQ(ways_->finer_count(), 6u);
  const std::vector<std::string> fastest{"early", "plain", "fused-block"};
  const auto early = finer("sum", 0, fastest);
  ASSERT_TRUE(early);
  EXPECT_EQ(early->name, "constants-early");
  EXPECT_EQ(early->refusal, "");
  EXPECT_THAT(early->why, HasSubstr("whole numbers of 2 launches are constants of their code; then of 2 launches"));
  EXPECT_EQ(kernel_of(*early, 0), "sum_constants");
  const auto plain = finer("sum", 1, fastest);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "constants");
  EXPECT_EQ(kernel_of(*plain, 1), "sum_constants");
  EXPECT_FALSE(finer("sum", 3, fastest)) << "the plain one has been made";
  const auto last = finer("sum", 3, {"early", "fused-block", "columns", "plain"});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->name, "constants");
  EXPECT_FALSE(finer("sum", 0, {"another"}));
  std::vector<std::string> made;  // where there are few ways
  for (std::size_t n = 0; n < ways_->finer_count(); ++n)
    if (const auto one = finer("sum", n, {"early", "plain"})) made.push_back(one->name);
  EXPECT_THAT(made, ElementsAre("constants-early", "constants"));
}

// As an earlier session's are: by their names alone.
TEST_F(FinerWays, AndTheOthers_AreFoundByTheirNames) {
  const auto named = [&](const std::string& name) {
    return of_chain("sum", [&](const device::GraphSpec& plain, std::span<const scheduler::LaunchToLower> launches) {
      return ways_->way_named(name, plain, launches);
    });
  };
  std::size_t made = 0;
  for (std::size_t n = 0; n < ways_->count(); ++n) {
    const auto way =
        of_chain("sum", [&](const device::GraphSpec& plain, auto launches) { return ways_->way(n, plain, launches); });
    const auto again = named(ways_->name(n));
    ASSERT_EQ(way.has_value(), again.has_value()) << ways_->name(n);
    if (!way) continue;
    EXPECT_EQ(way->name, ways_->name(n)) << "which is asked for before it is made";
    EXPECT_EQ(again->name, way->name);
    EXPECT_EQ(again->refusal, way->refusal);
    made += way->refusal.empty();
  }
  EXPECT_GE(made, 2u);
  for (const char* name : {"constants", "constants-early"}) {
    const auto way = named(name);
    ASSERT_TRUE(way) << name;
    EXPECT_EQ(way->name, name);
    EXPECT_EQ(kernel_of(*way, 0), "sum_constants");
  }
  for (const char* name : {"", "plain", "gone", "constants-", "constants-gone", "constantsearly", "early #2"})
    EXPECT_FALSE(named(name) && named(name)->refusal.empty() && named(name)->name == name) << name;
  EXPECT_EQ(finer("sum", 0, {"constants-early", "early", "plain"})->name, "constants-early") << "of what has none yet";
}

TEST_F(FinerWays, WithoutConstants_ThereAreNone_AndWhyIsToldOnce) {
  const auto none = finer("product", 0, {"early", "plain"});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->name, "constants");
  EXPECT_THAT(none->refusal, HasSubstr("it would be the plain one; 2 times: finer.ptx:17: whole numbers of kernel "
                                       "'product' cannot be constants: `mul.f32"));
  EXPECT_FALSE(finer("product", 1, {"early", "plain"}));
}

// up 0 ─┐        up 3 ─┐
// up 1 ─▶ 4      up 2 ─▶ 5
class FinerWaysWithCopies : public FinerWays {
 protected:
  std::optional<GraphWay> finer(const std::string& kernel, std::size_t n, const std::vector<std::string>& fastest) {
    return of_copies(
        kernel, [&](const auto& plain, const auto& launches) { return ways_->finer_way(n, plain, launches, fastest); });
  }
  std::optional<GraphWay> named(const std::string& name) {
    return of_copies("sum",
                     [&](const auto& plain, const auto& launches) { return ways_->way_named(name, plain, launches); });
  }
  std::vector<std::string> made(const std::string& kernel, const std::vector<std::string>& fastest) {
    std::vector<std::string> names;
    for (std::size_t n = 0; n < ways_->finer_count(); ++n)
      if (const auto way = finer(kernel, n, fastest); way && way->refusal.empty()) names.push_back(way->name);
    return names;
  }

 private:
  template <typename Make>
  std::optional<GraphWay> of_copies(const std::string& kernel, const Make& make) {
    const device::BufferPtr array = device_->allocate(1024, device::MemoryKind::kDevice).value(),
                            host = device_->allocate(1024, device::MemoryKind::kHostVisible).value();
    return of_chain(kernel, [&](const device::GraphSpec& chain, std::span<const scheduler::LaunchToLower> launches) {
      device::GraphSpec plain = device::graph_of({{}, {}, {}, {}, {0, 1}, {2, 3}});
      std::vector<scheduler::LaunchToLower> all(4);
      for (std::size_t up = 0; up < 4; ++up) plain.nodes[up].work = device::CopyNode{array, up * 64, host, up * 64, 64};
      for (std::size_t i = 0; i < 2; ++i) plain.nodes[4 + i].work = chain.nodes[i].work, all.push_back(launches[i]);
      return make(plain, std::span<const scheduler::LaunchToLower>(all));
    });
  }
};

TEST_F(FinerWaysWithCopies, TheFastestForLaunches_HasItsCopiesAsTheFastestForThose) {
  const std::vector<std::string> fastest{"ordered", "merged", "copies-in-rows", "uploads-in-a-row", "plain", "packed"};
  EXPECT_THAT(made("sum", fastest),
              ElementsAre("constants-ordered", "constants-merged", "constants-copies-in-rows", "constants",
                          "merged+copies-in-rows", "constants-merged+copies-in-rows"));
  const auto way = finer("sum", 4, fastest);
  ASSERT_TRUE(way);
  ASSERT_EQ(way->spec.nodes.size(), 5u);
  EXPECT_EQ(device::uploads_side_by_side(way->spec), 2u);
  EXPECT_EQ(way->why,
            "2 launches became 1; 4 times: it is no kernel launch; then copies from the host follow each other in two "
            "rows, those to it in one");
  EXPECT_EQ(kernel_of(*finer("sum", 5, fastest), 4), "sum_constants_merged");
  EXPECT_THAT(made("sum", {"merged", "plain", "copies-in-rows"}),
              ElementsAre("constants-merged", "constants", "constants-copies-in-rows"))
      << "the copies are best as they are";
  EXPECT_THAT(made("sum", {"copies-in-rows", "plain", "merged"}),
              ElementsAre("constants-copies-in-rows", "constants", "constants-merged"))
      << "the launches are";
  EXPECT_THAT(made("product", {"merged+copies-in-rows", "merged", "copies-in-rows", "plain"}),
              ElementsAre("merged+copies-in-rows"))
      << "which has no constants";
  EXPECT_THAT(made("product", {"merged", "uploads-in-a-row", "plain"}), ElementsAre("merged+uploads-in-a-row"));
}

TEST_F(FinerWaysWithCopies, AreFoundByTheirNames) {
  for (const char* name : {"merged+copies-in-rows", "constants-merged+copies-in-rows", "constants-copies-in-rows"}) {
    const auto way = named(name);
    ASSERT_TRUE(way) << name;
    EXPECT_EQ(way->name, name);
    EXPECT_EQ(way->refusal, "");
    EXPECT_EQ(device::uploads_side_by_side(way->spec), 2u) << name;
  }
  for (const char* name :
       {"+", "merged+", "+copies-in-rows", "merged+gone", "merged+merged", "gone+copies-in-rows",
        "stacked+copies-in-rows", "constants+copies-in-rows", "merged+copies-in-rows+copies-in-rows"})
    EXPECT_FALSE(named(name)) << name;
}

TEST(FinerWaysOfPolicies, AreNone_WhereOneWayIsAskedFor) {
  auto device = device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA});
  ASSERT_TRUE(device) << device.message();
  EXPECT_EQ(BlockWays(*device, scheduler::Blocks::kEarly).finer_count(), 0u);
  EXPECT_EQ(BlockWays(*device, scheduler::Blocks::kOff).finer_count(), 0u);
}

// y[i] = x[i] + 1.
constexpr std::string_view kStepPtx = R"(.version 7.8
.target sm_90
.address_size 64
.visible .entry step(.param .u64 x, .param .u64 y) {
  .reg .b32 %r<6>; .reg .b64 %rd<6>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r5, [%rd4]; add.u32 %r5, %r5, 1; st.global.u32 [%rd5], %r5;
  ret;
}
)";

// Two arrays in turn, by launches of `blocks` blocks of 256 threads.
class StepChain {
 public:
  StepChain(scheduler::Blocks policy, std::size_t launches, std::uint32_t blocks)
      : device_(device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA}).value()), ways_(device_, policy) {
    const auto text = std::make_shared<const std::string>(kStepPtx);
    form_ = std::make_unique<LoadedBlockForm>(device_, text, "step.ptx", "step", "");
    const ptx::Module parsed = ptx::parse(*text, "step.ptx").value();
    const device::ModulePtr module = device_->load({&parsed, *text, "step.ptx"}).value();
    const std::size_t bytes = std::size_t{blocks} * 256 * 4;
    for (device::BufferPtr& array : arrays_) {
      array = device_->allocate(bytes, device::MemoryKind::kDevice).value();
      memory_.push_back({array->address(), bytes});
    }
    for (std::size_t i = 0; i < launches; ++i) {
      device::KernelNode work{module, *module->kernel("step"), {.grid = {blocks, 1, 1}, .block = {256, 1, 1}}, {}};
      const std::uint64_t addresses[] = {arrays_[i % 2]->address(), arrays_[1 - i % 2]->address()};
      work.parameters.resize(sizeof addresses);
      std::memcpy(work.parameters.data(), addresses, sizeof addresses);
      plain_.nodes.push_back({std::move(work), {}, {}});
      if (i != 0) plain_.nodes.back().after = {static_cast<device::NodeId>(i - 1)};
      launches_.push_back({.form = form_.get(), .memory = memory_});
    }
  }
  std::optional<scheduler::GraphWay> by_block() {
    for (std::size_t n = 0; n < ways_.count(); ++n)
      if (auto way = ways_.way(n, plain_, launches_); way && way->name == "by-block") return way;
    return std::nullopt;
  }

 private:
  const device::DevicePtr device_;
  BlockWays ways_;
  std::unique_ptr<LoadedBlockForm> form_;
  device::BufferPtr arrays_[2];
  std::vector<scheduler::LaunchMemory> memory_;
  device::GraphSpec plain_;
  std::vector<scheduler::LaunchToLower> launches_;
};

TEST(ByBlockWay, OfSmallData_MayHaveListsAsLarge_AndOfLargerNotASixteenthOfIt) {
  for (const std::size_t launches : {4, 32}) {
    const auto small = StepChain(scheduler::Blocks::kMeasured, launches, 8).by_block();
    ASSERT_TRUE(small);
    EXPECT_EQ(small->refusal, "") << launches;
  }
  const auto large = StepChain(scheduler::Blocks::kMeasured, 800, 32).by_block();
  ASSERT_TRUE(large);
  EXPECT_THAT(large->refusal, HasSubstr("its lists of blocks would take "));
  const auto asked_for = StepChain(scheduler::Blocks::kByBlock, 800, 32).by_block();
  ASSERT_TRUE(asked_for);
  EXPECT_EQ(asked_for->refusal, "") << "where it is the only one it may have what it needs";
}

// Memory that goes may have to wait for all work.
TEST(ByBlockWay, WhoseKernelsAreRefused_HasHadNoMemory) {
  control().reset();
  StepChain chain(scheduler::Blocks::kByBlock, 4, 8);
  const int allocations = control().calls("cuMemAlloc");
  control().fail("cuLibraryLoadData", device::cuda::CUDA_ERROR_OUT_OF_MEMORY, 0);
  const auto way = chain.by_block();
  ASSERT_TRUE(way);
  EXPECT_NE(way->refusal, "");
  EXPECT_EQ(control().calls("cuMemAlloc"), allocations);
}

}  // namespace
}  // namespace pergola::runtime
