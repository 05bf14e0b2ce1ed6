// In which order a graph's nodes are made. Where several may run at once a device starts them in that order, as far as
// there is room: so a node that much has to wait for should come before one that nothing waits for.
//
//   a ─▶ b ─▶ c ─▶ d        as launched: e f g a b c d       longest first: a e b f c g d
//   e    f    g                 a starts when e, f and g leave room
#pragma once

#include <optional>
#include <span>

#include "src/device/graph.h"

namespace pergola::device {

// The same nodes with the same dependencies, at each step the one of those whose dependencies are there that has the
// most left until the end, itself included: list scheduling by critical path. `weights` are by node, what each takes;
// with none given, nodes count alike. None where that is the order they have. No node may start early
// (GraphNode::early_after).
std::optional<GraphSpec> longest_first(const GraphSpec& spec, std::span<const double> weights);

}  // namespace pergola::device
