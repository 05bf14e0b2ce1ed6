#include "src/device/cpu/cpu_graph.h"

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/cpu_queue.h"
#include "src/device/validate.h"

namespace pergola::device::cpu {
namespace {

struct RunNode {
  QueueWorker& worker;
  Status operator()(const LaunchWork& work) const { return work.run(worker); }
  Status operator()(const CopyWork& work) const { return work.run(); }
  Status operator()(const FillWork& work) const { return work.run(); }
};

// A node of a spec as what is run.
struct MakeNode {
  CpuDevice& device;
  using Made = Result<std::variant<LaunchWork, CopyWork, FillWork>>;
  Made operator()(const KernelNode& node) const {
    PERGOLA_ASSIGN(LaunchWork work, LaunchWork::make(device, node.module, *node.kernel, node.config, node.parameters));
    return Made(std::move(work));
  }
  Made operator()(const CopyNode& node) const {
    PERGOLA_ASSIGN(CopyWork work, CopyWork::make(device, node));
    return Made(std::move(work));
  }
  Made operator()(const FillNode& node) const {
    PERGOLA_ASSIGN(FillWork work, FillWork::make(device, node));
    return Made(std::move(work));
  }
};

}  // namespace

class GraphTask final : public Task {
 public:
  explicit GraphTask(std::shared_ptr<const std::vector<CpuGraph::Node>> nodes) : nodes_(std::move(nodes)) {}
  Status run(QueueWorker& worker) override {
    for (const CpuGraph::Node& node : *nodes_) PERGOLA_TRY(std::visit(RunNode{worker}, node));
    return {};
  }

 private:
  const std::shared_ptr<const std::vector<CpuGraph::Node>> nodes_;
};

Result<std::unique_ptr<CpuGraph>> CpuGraph::create(std::shared_ptr<CpuDevice> device, GraphSpec spec) {
  PERGOLA_TRY(validate_graph(device->info(), spec));
  auto graph = std::unique_ptr<CpuGraph>(new CpuGraph(std::move(device), std::move(spec)));
  PERGOLA_ASSIGN(graph->nodes_, graph->prepare());
  return graph;
}

Result<std::shared_ptr<const std::vector<CpuGraph::Node>>> CpuGraph::prepare() const {
  auto nodes = std::make_shared<std::vector<Node>>();
  nodes->reserve(spec_.nodes.size());
  for (const GraphNode& node : spec_.nodes) {
    Result<Node> made = std::visit(MakeNode{*device_}, node.work);
    if (!made.ok()) {
      return Error{made.code(), fmt::format("Graph node {}: {}", nodes->size(), made.message()), __FILE__, __LINE__};
    }
    nodes->push_back(std::move(made).value());
  }
  const std::vector<Node>* const made = nodes.get();
  return std::shared_ptr<const std::vector<Node>>(made, [nodes = std::move(nodes), buffers = spec_.buffers](auto*) {});
}

Status CpuGraph::update_parameters(NodeId node, std::span<const std::byte> parameters) {
  PERGOLA_TRY(validate_update(spec_, node, parameters.size()));
  std::get<KernelNode>(spec_.nodes[node].work).parameters.assign(parameters.begin(), parameters.end());
  nodes_ = nullptr;  // launches in flight keep theirs
  return {};
}

Status CpuGraph::launch(Queue& queue) {
  auto* own = dynamic_cast<CpuQueue*>(&queue);
  if (own == nullptr || &own->device() != device_.get()) {
    return PERGOLA_ERROR(kInvalidArgument, "The queue is of another device than the graph.");
  }
  if (nodes_ == nullptr) {
    PERGOLA_ASSIGN(nodes_, prepare());
  }
  return own->worker().submit(std::make_unique<GraphTask>(nodes_));
}

}  // namespace pergola::device::cpu
