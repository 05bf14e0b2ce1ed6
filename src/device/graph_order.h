// In which order a graph's nodes are made, and its copies from the host. Where several may run at once a device is
// given them in that order: so the launches that the longest way through the graph consists of should come before those
// that run beside it.
//
//   a ─▶ b ─▶ c ─▶ d        as launched: e f g h a b c d       longest way first: a b c d e f g h
//   e ─▶ f    g ─▶ h
//
// (On an H200, two chains of five launches whose first ones both fill the device: 40.4 us with the short one
// first, 37.2 with the long one first, 40.0 with the two in turns.)
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/device/graph.h"

namespace pergola::device {

// Over the link between the host's page-locked memory and the device's.
bool is_upload(const CopyNode& copy);
bool is_download(const CopyNode& copy);
bool is_launch(const GraphNode& node);

// Edges of one node after the other, but for those that a chain of others implies.
class FewestEdges {
 public:
  // Those of the next node, the latest first. `comes_after(i)`: whether it comes after node i; asked where no chain
  // says so already.
  template <typename ComesAfter>
  std::vector<NodeId> of_next(const ComesAfter& comes_after) {
    std::vector<NodeId> after;
    std::vector<bool> ancestors(before_.size(), false);
    for (std::size_t i = before_.size(); i-- > 0;) {
      if (ancestors[i] || !comes_after(i)) continue;
      after.push_back(static_cast<NodeId>(i));
      ancestors[i] = true;
      for (std::size_t k = 0; k < i; ++k)
        if (before_[i][k]) ancestors[k] = true;
    }
    before_.push_back(std::move(ancestors));
    return after;
  }

 private:
  std::vector<std::vector<bool>> before_;  // by node: what comes before it, by a chain of edges or by one
};

// By node, the longest way to it: when it could begin if nothing slowed it down. `weights` are by node, what each
// takes; with none given, nodes count alike.
std::vector<double> begins(const GraphSpec& spec, std::span<const double> weights);

// All nodes, each after what it depends on: of those whose dependencies are there the one that has the most left until
// the end, itself included, then what can follow it, as far as it goes, and so on. `weights` are by node, what each
// takes; with none given, nodes count alike. No node may start early (GraphNode::early_after).
std::vector<NodeId> longest_first(const GraphSpec& spec, std::span<const double> weights);

// The same nodes with the same dependencies in that order, which has each after what it depends on.
GraphSpec in_order(const GraphSpec& spec, std::span<const NodeId> order);

// Where several nodes become one: the first of each of these, each after all that those which it stands for depend on,
// and else in the order of the spec. `first` is by node, the first of those that it becomes one with; itself where it
// stays alone. In the new graph nothing comes after itself, and no node may start early.
std::vector<NodeId> joined_order(const GraphSpec& spec, std::span<const NodeId> first);

// The same nodes and edges, with priorities of kernels: the highest on the longest way, lower the longer a node could
// wait without anything ending later, 0 from a quarter of the longest way on. The order says whose blocks the device is
// given first; priorities say whose come next where others fill it. All 0 where no kernel has longer than another.
GraphSpec with_priorities(const GraphSpec& spec, std::span<const double> weights);

// How many copies from the host come after no other such copy, by whatever way: so many the device may choose from.
std::size_t uploads_side_by_side(const GraphSpec& spec);

// The same nodes in the same order, with an edge more from each copy from the host that comes after nothing to the next
// such one: side by side they share the link, and all of them are late. None where there are not two of them. (On an
// H200, the turn of an image network with five uploads of 10 MB in all: 84 us with them in a row, 93 side by side.)
std::optional<GraphSpec> uploads_in_a_row(const GraphSpec& spec);

// The same nodes in the same order, with copies from the host that come after nothing in two rows, and all copies to
// the host in one: each comes after the second, or the one, before it as well. An engine copies in each direction;
// given many copies at once it works at several in turns, so that all of them end late and what waits for them begins
// late; with one at a time it rests between two. None where that is the same graph. (On an H200, ten times a copy up, a
// launch and a copy down, of 0.5 MB and of 5 MB: 170 and 1147 us; as they come 172 to 178 and 1154, uploads in one row
// 182 to 188 and 1166, in three 170 to 177 and 1297, downloads alone 195 to 207 and 1637.)
std::optional<GraphSpec> copies_in_rows(const GraphSpec& spec);

// The same nodes in the same order, with one row each of the copies from the host that come after nothing, of the
// launches, and of the copies to the host: what the engines of a device do anyway where the link is what a graph waits
// for. A graph of three rows takes less of the device's memory than one of many branches, which is given to more of the
// device's queues, and there pieces of work wait for others that they do not depend on. Edges that a chain of others
// implies are left out. None where that is the same graph, and of launches alone. (On an H200, ten times a copy up, a
// launch and a copy down, of 0.2, 0.5, 1.5 and 5 MB: 99, 167, 381 and 1144 us; as they come 106, 175, 386 and 1173, as
// copies_in_rows() 104, 170, 388 and 1163, launches in a row beside copies in two and one 106, 187, 448 and 1410.)
std::optional<GraphSpec> engines_in_rows(const GraphSpec& spec);

}  // namespace pergola::device
