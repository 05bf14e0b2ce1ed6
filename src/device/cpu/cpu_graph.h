// A graph on the CPU device: checked once, then run by a queue's thread in the order of its nodes, which is a
// topological one. Its nodes use all SMs one after the other.
#pragma once

#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "src/device/cpu/work.h"
#include "src/device/graph.h"

namespace pergola::device::cpu {

class CpuGraph final : public ExecutableGraph {
 public:
  static Result<std::unique_ptr<CpuGraph>> create(std::shared_ptr<CpuDevice> device, GraphSpec spec);

  Status update_parameters(NodeId node, std::span<const std::byte> parameters) override;
  Status launch(Queue& queue) override;

 private:
  CpuGraph(std::shared_ptr<CpuDevice> device, GraphSpec spec) : device_(std::move(device)), spec_(std::move(spec)) {}

  const std::shared_ptr<CpuDevice> device_;
  GraphSpec spec_;  // holds the parameters of the next launch
  // What a launch runs; shared with launches in flight, and made anew after an update.
  using Node = std::variant<LaunchWork, CopyWork, FillWork>;
  std::shared_ptr<const std::vector<Node>> nodes_;
  friend class GraphTask;

  Result<std::shared_ptr<const std::vector<Node>>> prepare() const;
};

}  // namespace pergola::device::cpu
