// A graph of the null device: its nodes in order, each queued when the graph is launched.
#pragma once

#include "src/device/graph.h"
#include "src/device/null/null_buffer.h"

namespace pergola::device::null {

class NullGraph final : public ExecutableGraph {
 public:
  // `spec` has passed validate_graph(); refuses buffers and kernels of other devices than that of `budget`.
  static Result<std::unique_ptr<NullGraph>> create(GraphSpec spec, const MemoryBudget* budget);
  Status update_parameters(NodeId node, std::span<const std::byte> parameters) override;
  Status launch(Queue& queue) override;

 private:
  explicit NullGraph(GraphSpec spec) : spec_(std::move(spec)) {}
  GraphSpec spec_;  // validated; nodes come after earlier ones only, so their order is a schedule
};

}  // namespace pergola::device::null
