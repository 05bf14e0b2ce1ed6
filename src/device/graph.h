// A graph of launches and copies, built once and run many times (a CUDA Graph; on other devices its nodes in order).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "src/device/queue.h"

namespace pergola::device {

using NodeId = std::uint32_t;  // index into GraphSpec::nodes

struct KernelNode {
  ModulePtr module;
  const Kernel* kernel = nullptr;
  LaunchConfig config;
  std::vector<std::byte> parameters;
};
struct CopyNode {
  BufferPtr destination;
  std::size_t destination_offset_bytes = 0;
  BufferPtr source;
  std::size_t source_offset_bytes = 0;
  std::size_t size_bytes = 0;
  // More copies between the same offsets, in the same direction, none from where another goes to. A GPU makes one
  // operation of all, which has to be possible: copies_shape().
  struct Row {
    BufferPtr destination, source;
    std::size_t size_bytes = 0;
  };
  std::vector<Row> more_rows{};
};
struct FillNode {
  BufferPtr destination;
  std::size_t offset_bytes = 0, size_bytes = 0;
  std::uint32_t pattern = 0, pattern_bytes = 1;
};
// Of GraphNode::priority.
inline constexpr std::uint8_t kMostPriority = 5;
struct GraphNode {
  std::variant<KernelNode, CopyNode, FillNode> work;
  std::vector<NodeId> after;  // earlier nodes only: a spec is acyclic by construction
  // An earlier kernel node whose end this kernel node need not wait for: it may start once every block of that one has
  // executed griddepcontrol.launch_dependents or ended (PTX ISA 9.7.13.13), and orders itself from there on. A device
  // that runs nodes in order takes it as `after`.
  std::optional<NodeId> early_after;
  // Of blocks of kernel nodes that could start, those of the node with the highest one do, where the device knows
  // priorities; and before those of other work of the process, which has the lowest, 0. Results do not depend on it.
  std::uint8_t priority = 0;
};
struct GraphSpec {
  std::vector<GraphNode> nodes;
  std::vector<BufferPtr> buffers;  // what kernels reach by addresses of their own: kept as those of copies are
};

// Keeps every module and buffer of its spec alive, and so does each launch until it has ended. Thread-compatible.
class ExecutableGraph {
 public:
  virtual ~ExecutableGraph() = default;
  // Replaces a kernel node's parameters for later launches; kInvalidArgument on another kind or size.
  virtual Status update_parameters(NodeId node, std::span<const std::byte> parameters) = 0;
  virtual Status launch(Queue& queue) = 0;
};

}  // namespace pergola::device
