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
    if (const auto* kernel = std::get_if<KernelNode>(&node.work)) {
      PERGOLA_ASSIGN(LaunchWork work, LaunchWork::make(*device_, kernel->module, *kernel->kernel, kernel->config,
                                                       kernel->parameters));
      nodes->emplace_back(std::move(work));
    } else if (const auto* copy = std::get_if<CopyNode>(&node.work)) {
      PERGOLA_ASSIGN(CopyWork work, CopyWork::make(*device_, *copy));
      nodes->emplace_back(std::move(work));
    } else {
      PERGOLA_ASSIGN(FillWork work, FillWork::make(*device_, std::get<FillNode>(node.work)));
      nodes->emplace_back(std::move(work));
    }
  }
  return std::shared_ptr<const std::vector<Node>>(std::move(nodes));
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
