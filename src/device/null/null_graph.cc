#include "src/device/null/null_graph.h"

#include <algorithm>

#include "src/device/null/null_module.h"
#include "src/device/null/null_queue.h"
#include "src/device/validate.h"

namespace pergola::device::null {
namespace {

struct Enqueue {
  Queue& queue;
  Status operator()(const KernelNode& node) const {
    return queue.launch(node.module, *node.kernel, node.config, node.parameters);
  }
  Status operator()(const CopyNode& node) const {
    const auto copy = [&](const BufferPtr& to, const BufferPtr& from, std::size_t size_bytes) {
      return queue.copy(to, node.destination_offset_bytes, from, node.source_offset_bytes, size_bytes);
    };
    PERGOLA_TRY(copy(node.destination, node.source, node.size_bytes));
    for (const CopyNode::Row& row : node.more_rows) PERGOLA_TRY(copy(row.destination, row.source, row.size_bytes));
    return {};
  }
  Status operator()(const FillNode& node) const {
    return queue.fill(node.destination, node.offset_bytes, node.size_bytes, node.pattern, node.pattern_bytes);
  }
};

// Whether all that a node uses is of the device of `budget`.
struct IsOwn {
  const MemoryBudget* budget;
  bool owns(const BufferPtr& buffer) const {
    const auto* mine = dynamic_cast<const NullBuffer*>(buffer.get());
    return mine != nullptr && mine->budget() == budget;
  }
  bool operator()(const KernelNode& node) const {
    const auto* module = dynamic_cast<const NullModule*>(node.module.get());
    return module != nullptr && module->owns(*node.kernel);
  }
  bool operator()(const CopyNode& node) const {
    const auto owns_row = [&](const CopyNode::Row& row) { return owns(row.destination) && owns(row.source); };
    return owns(node.destination) && owns(node.source) && std::ranges::all_of(node.more_rows, owns_row);
  }
  bool operator()(const FillNode& node) const { return owns(node.destination); }
};

}  // namespace

Result<std::unique_ptr<NullGraph>> NullGraph::create(GraphSpec spec, const MemoryBudget* budget) {
  for (std::size_t id = 0; id < spec.nodes.size(); ++id)
    if (!std::visit(IsOwn{budget}, spec.nodes[id].work))
      return PERGOLA_ERROR(kInvalidArgument, "Graph node {}: it uses a buffer or kernel of another device.", id);
  return std::unique_ptr<NullGraph>(new NullGraph(std::move(spec)));
}

Status NullGraph::update_parameters(NodeId node, std::span<const std::byte> parameters) {
  PERGOLA_TRY(validate_update(spec_, node, parameters.size()));
  std::get<KernelNode>(spec_.nodes[node].work).parameters.assign(parameters.begin(), parameters.end());
  return {};
}

Status NullGraph::launch(Queue& queue) {
  if (dynamic_cast<NullQueue*>(&queue) == nullptr)
    return PERGOLA_ERROR(kInvalidArgument, "The queue is of another device than the graph.");
  for (const GraphNode& node : spec_.nodes) PERGOLA_TRY(std::visit(Enqueue{queue}, node.work));
  return {};
}

}  // namespace pergola::device::null
