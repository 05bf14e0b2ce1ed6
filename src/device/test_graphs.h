// Graphs for tests of what is made of graphs: their nodes do nothing but say which one they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "src/device/graph.h"

namespace pergola::device {

// A node of `after`, which says by its pattern which one it is.
inline GraphSpec graph_of(std::vector<std::vector<NodeId>> after) {
  GraphSpec spec;
  for (std::size_t i = 0; i < after.size(); ++i)
    spec.nodes.push_back({FillNode{nullptr, 0, 0, static_cast<std::uint32_t>(i), 1}, std::move(after[i]), {}});
  return spec;
}

inline std::vector<std::uint32_t> order_of(const GraphSpec& spec) {
  std::vector<std::uint32_t> order;
  for (const GraphNode& node : spec.nodes) order.push_back(std::get<FillNode>(node.work).pattern);
  return order;
}

}  // namespace pergola::device
