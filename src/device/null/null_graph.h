// A graph of the null device: its nodes in order, each queued when the graph is launched.
#pragma once

#include "src/device/graph.h"
#include "src/device/types.h"

namespace pergola::device::null {

class NullGraph final : public ExecutableGraph {
 public:
  explicit NullGraph(GraphSpec spec) : spec_(std::move(spec)) {}
  Status update_parameters(NodeId node, std::span<const std::byte> parameters) override;
  Status launch(Queue& queue) override;

 private:
  GraphSpec spec_;  // validated; nodes come after earlier ones only, so their order is a schedule
};

}  // namespace pergola::device::null
