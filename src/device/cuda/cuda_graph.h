// A CUDA graph, built node by node from a GraphSpec and instantiated once.
//
// update_parameters() changes the executable graph in place (cuGraphExecKernelNodeSetParams), which is a matter of a
// microsecond; launches that are queued already keep the old parameters. (The scheduler does not call it yet: numbers
// that change come through the device's memory, and other arrays are another graph.) `early_after` is a
// programmatic edge (CUDA 12.3 or later; kUnsupported before), all other edges are full. Instantiation may wait for a
// resident kernel, with a lock of the driver's that most calls need (seen on an H200; it does not always): it is called
// while there is none. A launch waits where the GPU has no room. Thread-compatible.
#pragma once

#include <memory>

#include "src/device/cuda/context.h"
#include "src/device/graph.h"

namespace pergola::device::cuda {

class CudaGraph final : public ExecutableGraph {
 public:
  // `spec` has passed validate_graph().
  static Result<std::unique_ptr<CudaGraph>> create(const ContextPtr& context, GraphSpec spec);

  Status update_parameters(NodeId node, std::span<const std::byte> parameters) override;
  Status launch(Queue& queue) override;

 private:
  // Everything that a launch in flight needs. Shared with the queues that run it.
  struct State {
    State(ContextPtr owner, GraphSpec work) : context(std::move(owner)), spec(std::move(work)) {}
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    const ContextPtr context;
    GraphSpec spec;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    std::vector<CUgraphNode> nodes;
  };
  struct AddNode;
  static Result<bool> instantiate_on_device(State& state, unsigned long long flags);
  static Status bring_to_device(const State& state);
  explicit CudaGraph(std::shared_ptr<State> state) : state_(std::move(state)), kept_(state_) {}

  const std::shared_ptr<State> state_;
  const std::shared_ptr<const void> kept_;  // the same, as queues keep it: a launch need not make another of it
};

}  // namespace pergola::device::cuda
