// Graphs: built once, launched often, changed in between.
#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

using device::CopyNode;
using device::FillNode;
using device::GraphNode;
using device::GraphSpec;
using device::KernelNode;

class GraphCopies : public Conformance {};
INSTANTIATE_TEST_SUITE_P(devices, GraphCopies, ::testing::ValuesIn(device_cases()), device_case_name);

class GraphLaunches : public Conformance {
 protected:
  KernelNode add(const ModulePtr& module, const BufferPtr& data, int value) const {
    const device::Kernel* kernel = need(module->kernel("add"));
    return {module, kernel, {.block = {64, 1, 1}}, Arguments(data, value).pack(kernel->signature())};
  }
};
INSTANTIATE_TEST_SUITE_P(devices, GraphLaunches, ::testing::ValuesIn(device_cases()), device_case_name);

TEST_P(GraphCopies, FillsAndCopies_InOrder) {
  const BufferPtr a = zeros<std::uint32_t>(256), b = zeros<std::uint32_t>(256);
  const BufferPtr host = allocate(1024, MemoryKind::kHostVisible);
  GraphSpec spec;
  spec.nodes.push_back({FillNode{a, 0, 1024, 0xaabbccdd, 4}, {}});
  spec.nodes.push_back({FillNode{a, 512, 256, 0x1122, 2}, {0}});
  spec.nodes.push_back({FillNode{a, 3, 1, 0x77, 1}, {0}});
  spec.nodes.push_back({CopyNode{b, 0, a, 0, 1024}, {1, 2}});
  spec.nodes.push_back({CopyNode{host, 128, b, 256, 512}, {3}});
  spec.nodes.push_back({CopyNode{a, 0, host, 0, 0}, {4}});
  const auto graph = need(device().instantiate(std::move(spec)));
  for (int i = 0; i < 3; ++i) {
    std::memset(host->host_pointer(), 0, 1024);
    need(graph->launch(queue()));
    need(queue().synchronize());
    std::uint32_t word = 0;
    std::memcpy(&word, host->host_pointer() + 128, 4);
    EXPECT_EQ(word, 0xaabbccddu);
    std::memcpy(&word, host->host_pointer() + 128 + 256, 4);
    EXPECT_EQ(word, 0x11221122u);
    EXPECT_EQ(download<std::uint32_t>(b)[0], 0x77bbccddu);
  }
}

TEST_P(GraphCopies, Empty_IsAGraph) {
  const auto graph = need(device().instantiate({}));
  need(graph->launch(queue()));
  EXPECT_TRUE(queue().synchronize().ok());
}

TEST_P(GraphCopies, BadSpecs_AreRefusedWithTheNode) {
  const BufferPtr buffer = zeros<std::uint8_t>(64);
  EXPECT_CODE(kInvalidArgument, "node 0", device().instantiate({{GraphNode{FillNode{buffer, 0, 65, 0, 1}, {}}}}));
  EXPECT_CODE(kInvalidArgument, "node 0", device().instantiate({{GraphNode{FillNode{buffer, 0, 64, 0, 1}, {0}}}}));
  EXPECT_CODE(kInvalidArgument, "node 0", device().instantiate({{GraphNode{CopyNode{}, {}}}}));
  EXPECT_CODE(kInvalidArgument, "node 0", device().instantiate({{GraphNode{KernelNode{}, {}}}}));
}

TEST_P(GraphCopies, Update_OfWhatIsNoKernel_IsInvalidArgument) {
  const BufferPtr buffer = zeros<std::uint8_t>(64);
  const auto graph = need(device().instantiate({{GraphNode{FillNode{buffer, 0, 64, 0, 1}, {}}}}));
  EXPECT_CODE(kInvalidArgument, "node 0", graph->update_parameters(0, {}));
  EXPECT_CODE(kInvalidArgument, "node 1", graph->update_parameters(1, {}));
}

TEST_P(GraphCopies, KeepsItsBuffersAlive) {
  const BufferPtr last = allocate(4096, MemoryKind::kHostVisible);
  std::unique_ptr<device::ExecutableGraph> graph;
  {
    const BufferPtr between = allocate(4096);
    GraphSpec spec;
    spec.nodes.push_back({FillNode{between, 0, 4096, 0x5a, 1}, {}});
    spec.nodes.push_back({CopyNode{last, 0, between, 0, 4096}, {0}});
    graph = need(device().instantiate(std::move(spec)));
  }
  need(graph->launch(queue()));
  graph.reset();  // while it may be in flight
  need(queue().synchronize());
  EXPECT_EQ(last->host_pointer()[4095], std::byte{0x5a});
}

TEST_P(GraphLaunches, ChainOfKernels_RunsInOrder) {
  const ModulePtr module = load("launch");
  const BufferPtr data = zeros<int>(64);
  GraphSpec spec;
  for (device::NodeId i = 0; i < 10; ++i) {
    GraphNode node{add(module, data, int(i)), {}};
    if (i > 0) node.after.push_back(i - 1);
    spec.nodes.push_back(std::move(node));
  }
  const auto graph = need(device().instantiate(std::move(spec)));
  std::uint32_t want = 0;
  for (int launch = 0; launch < 20; ++launch) {
    need(graph->launch(queue()));
    for (std::uint32_t i = 0; i < 10; ++i) want = want * 3 + i;
  }
  EXPECT_EQ(download<std::uint32_t>(data), std::vector<std::uint32_t>(64, want));
}

TEST_P(GraphLaunches, Diamond_JoinsBothSides) {
  const ModulePtr module = load("launch");
  const BufferPtr left = zeros<int>(64), right = zeros<int>(64), joined = zeros<int>(128);
  GraphSpec spec;
  spec.nodes.push_back({FillNode{joined, 0, 512, 0, 4}, {}});
  spec.nodes.push_back({add(module, left, 7), {0}});
  spec.nodes.push_back({add(module, right, 9), {0}});
  spec.nodes.push_back({CopyNode{joined, 0, left, 0, 256}, {1}});
  spec.nodes.push_back({CopyNode{joined, 256, right, 0, 256}, {2}});
  spec.nodes.push_back({add(module, joined, 1), {3, 4}});
  const auto graph = need(device().instantiate(std::move(spec)));
  need(graph->launch(queue()));
  std::vector<int> want(128, 9);
  std::fill_n(want.begin(), 64, 22);
  EXPECT_EQ(download<int>(joined), want);
}

TEST_P(GraphLaunches, UpdatedParameters_HoldForLaterLaunches) {
  const ModulePtr module = load("launch");
  const BufferPtr first = zeros<int>(64), second = zeros<int>(64);
  const device::Kernel* kernel = need(module->kernel("add"));
  const auto graph = need(device().instantiate({{GraphNode{add(module, first, 5), {}}}}));
  need(graph->launch(queue()));
  need(graph->update_parameters(0, Arguments(second, 8).pack(kernel->signature())));
  need(graph->launch(queue()));
  EXPECT_CODE(kInvalidArgument, "bytes", graph->update_parameters(0, std::vector<std::byte>(3)));
  EXPECT_EQ(download<int>(first), std::vector<int>(64, 5));
  EXPECT_EQ(download<int>(second), std::vector<int>(64, 8));
}

TEST_P(GraphLaunches, KeepsItsModuleAlive) {
  const BufferPtr data = zeros<int>(64);
  std::unique_ptr<device::ExecutableGraph> graph;
  {
    const ModulePtr module = load("launch");
    graph = need(device().instantiate({{GraphNode{add(module, data, 3), {}}}}));
  }
  need(graph->launch(queue()));
  graph.reset();
  EXPECT_EQ(download<int>(data), std::vector<int>(64, 3));
}

TEST_P(GraphLaunches, BadLaunch_IsRefusedWithTheNode) {
  const ModulePtr module = load("launch");
  KernelNode node = add(module, zeros<int>(64), 1);
  node.config.block = {2048, 1, 1};
  EXPECT_CODE(kInvalidArgument, "node 0", device().instantiate({{GraphNode{std::move(node), {}}}}));
}

TEST_P(GraphLaunches, OnSeveralQueues_OneAfterTheOther) {
  const ModulePtr module = load("launch");
  const BufferPtr data = zeros<int>(64);
  need(queue().synchronize());
  const auto other = new_queue();
  const auto graph = need(device().instantiate({{GraphNode{add(module, data, 1), {}}}}));
  need(graph->launch(queue()));
  need(other->wait(need(queue().record())));
  need(graph->launch(*other));
  need(other->synchronize());
  EXPECT_EQ(download<int>(data), std::vector<int>(64, 4));
}

}  // namespace
}  // namespace pergola::conformance
