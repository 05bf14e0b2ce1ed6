#include "src/device/graph_order.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace pergola::device {
namespace {

// By node: the longest way from it to an end.
std::vector<double> left(const GraphSpec& spec, std::span<const double> weights) {
  const std::size_t count = spec.nodes.size();
  std::vector<double> behind(count, 0);
  for (std::size_t i = count; i-- > 0;) {  // nodes come after what they depend on
    behind[i] += weights.empty() ? 1 : weights[i];
    for (const NodeId earlier : spec.nodes[i].after) behind[earlier] = std::max(behind[earlier], behind[i]);
  }
  return behind;
}

bool is_upload_node(const GraphNode& node) {
  const auto* const copy = std::get_if<CopyNode>(&node.work);
  return copy != nullptr && is_upload(*copy);
}

// After nothing.
bool is_first_upload(const GraphNode& node) {
  return node.after.empty() && is_upload_node(node);
}

bool is_download_node(const GraphNode& node) {
  const auto* const copy = std::get_if<CopyNode>(&node.work);
  return copy != nullptr && is_download(*copy);
}

// An edge more to each node of a kind from the one `rows` of them before it. Whether there is any.
template <typename IsOfKind>
bool put_in_rows(GraphSpec& spec, const IsOfKind& is_of_kind, std::size_t rows) {
  bool changed = false;
  std::vector<NodeId> of_kind;
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    if (!is_of_kind(spec.nodes[i])) continue;
    of_kind.push_back(static_cast<NodeId>(i));
    if (of_kind.size() <= rows) continue;
    const NodeId before = of_kind[of_kind.size() - 1 - rows];
    std::vector<NodeId>& after = spec.nodes[i].after;
    if (std::ranges::find(after, before) != after.end()) continue;
    after.push_back(before);
    changed = true;
  }
  return changed;
}

}  // namespace

bool is_upload(const CopyNode& copy) {
  return copy.source->kind() == MemoryKind::kHostVisible && copy.destination->kind() == MemoryKind::kDevice;
}

bool is_download(const CopyNode& copy) {
  return copy.source->kind() == MemoryKind::kDevice && copy.destination->kind() == MemoryKind::kHostVisible;
}

std::size_t uploads_side_by_side(const GraphSpec& spec) {
  std::size_t count = 0;
  std::vector<bool> is_behind(spec.nodes.size());  // one, or is one
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const GraphNode& node = spec.nodes[i];
    const bool comes_after = std::ranges::any_of(node.after, [&](NodeId earlier) { return is_behind[earlier]; }) ||
                             (node.early_after && is_behind[*node.early_after]);
    const bool is_one = is_upload_node(node);
    if (is_one && !comes_after) ++count;
    is_behind[i] = is_one || comes_after;
  }
  return count;
}

bool is_launch(const GraphNode& node) {
  return std::holds_alternative<KernelNode>(node.work);
}

std::vector<double> begins(const GraphSpec& spec, std::span<const double> weights) {
  std::vector<double> before(spec.nodes.size(), 0);
  for (std::size_t i = 0; i < spec.nodes.size(); ++i)
    for (const NodeId earlier : spec.nodes[i].after)
      before[i] = std::max(before[i], before[earlier] + (weights.empty() ? 1 : weights[earlier]));
  return before;
}

std::vector<NodeId> longest_first(const GraphSpec& spec, std::span<const double> weights) {
  const std::size_t count = spec.nodes.size();
  PERGOLA_CHECK(weights.empty() || weights.size() == count);
  const std::vector<double> behind = left(spec, weights);
  std::vector<std::size_t> missing(count);
  std::vector<std::vector<NodeId>> children(count);
  for (std::size_t i = 0; i < count; ++i) {
    PERGOLA_CHECK(!spec.nodes[i].early_after);
    missing[i] = spec.nodes[i].after.size();
    for (const NodeId earlier : spec.nodes[i].after) children[earlier].push_back(static_cast<NodeId>(i));
  }
  // Of equals the one launched first.
  const auto is_later = [&](NodeId a, NodeId b) { return behind[a] != behind[b] ? behind[a] < behind[b] : a > b; };
  std::vector<NodeId> ready, order;
  for (std::size_t i = 0; i < count; ++i)
    if (missing[i] == 0) ready.push_back(static_cast<NodeId>(i));
  std::make_heap(ready.begin(), ready.end(), is_later);
  const auto put_back = [&](NodeId node) {
    ready.push_back(node);
    std::push_heap(ready.begin(), ready.end(), is_later);
  };
  constexpr NodeId kNone = ~NodeId{0};
  NodeId next = kNone;  // that can follow the last one
  while (next != kNone || !ready.empty()) {
    if (next == kNone) {
      std::pop_heap(ready.begin(), ready.end(), is_later);
      next = ready.back();
      ready.pop_back();
    }
    order.push_back(std::exchange(next, kNone));
    for (NodeId child : children[order.back()]) {
      if (--missing[child] != 0) continue;
      if (next == kNone || is_later(next, child)) std::swap(next, child);
      if (child != kNone) put_back(child);
    }
  }
  PERGOLA_CHECK(order.size() == count);
  return order;
}

std::vector<NodeId> joined_order(const GraphSpec& spec, std::span<const NodeId> first) {
  const std::size_t count = spec.nodes.size();
  PERGOLA_CHECK(first.size() == count);
  std::vector<std::vector<NodeId>> children(count);  // as often as there are edges
  std::vector<std::size_t> missing(count);
  std::size_t joined = 0;
  for (std::size_t i = 0; i < count; ++i) {
    PERGOLA_CHECK(!spec.nodes[i].early_after);
    joined += first[i] == i;
    for (const NodeId earlier : spec.nodes[i].after) {
      if (first[earlier] == first[i]) continue;
      children[first[earlier]].push_back(first[i]);
      ++missing[first[i]];
    }
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (NodeId i = 0; i < count; ++i)
    if (first[i] == i && missing[i] == 0) ready.push(i);
  std::vector<NodeId> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const NodeId child : children[order.back()])
      if (--missing[child] == 0) ready.push(child);
  }
  PERGOLA_CHECK(order.size() == joined);
  return order;
}

GraphSpec in_order(const GraphSpec& spec, std::span<const NodeId> order) {
  PERGOLA_CHECK(order.size() == spec.nodes.size());
  std::vector<NodeId> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<NodeId>(i);
  GraphSpec ordered = spec;
  for (std::size_t i = 0; i < order.size(); ++i) {
    ordered.nodes[i] = spec.nodes[order[i]];
    for (NodeId& earlier : ordered.nodes[i].after) {
      earlier = place[earlier];
      PERGOLA_CHECK(earlier < i);
    }
  }
  return ordered;
}

GraphSpec with_priorities(const GraphSpec& spec, std::span<const double> weights) {
  constexpr double kIdleWait = 0.25;  // of the longest way
  const std::size_t count = spec.nodes.size();
  PERGOLA_CHECK(weights.empty() || weights.size() == count);
  const std::vector<double> behind = left(spec, weights), before = begins(spec, weights);
  double longest = 0;
  for (std::size_t i = 0; i < count; ++i) longest = std::max(longest, before[i] + behind[i]);
  GraphSpec made = spec;
  std::uint8_t least = kMostPriority;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_launch(spec.nodes[i])) continue;
    const double may_wait = longest <= 0 ? 0 : (longest - before[i] - behind[i]) / longest;
    made.nodes[i].priority =
        static_cast<std::uint8_t>(std::lround(kMostPriority * std::clamp(1 - may_wait / kIdleWait, 0.0, 1.0)));
    least = std::min(least, made.nodes[i].priority);
  }
  for (GraphNode& node : made.nodes)
    if (least == kMostPriority) node.priority = 0;
  return made;
}

std::optional<GraphSpec> uploads_in_a_row(const GraphSpec& spec) {
  GraphSpec made = spec;
  if (!put_in_rows(made, is_first_upload, 1)) return std::nullopt;
  return made;
}

std::optional<GraphSpec> copies_in_rows(const GraphSpec& spec) {
  constexpr std::size_t kUploadRows = 2;
  GraphSpec made = spec;
  const bool up = put_in_rows(made, is_first_upload, kUploadRows), down = put_in_rows(made, is_download_node, 1);
  if (!up && !down) return std::nullopt;
  return made;
}

std::optional<GraphSpec> engines_in_rows(const GraphSpec& spec) {
  if (std::ranges::all_of(spec.nodes, is_launch)) return std::nullopt;
  GraphSpec made = spec;
  const bool up = put_in_rows(made, is_first_upload, 1), launches = put_in_rows(made, is_launch, 1),
             down = put_in_rows(made, is_download_node, 1);
  if (!up && !launches && !down) return std::nullopt;
  FewestEdges edges;
  for (GraphNode& node : made.nodes) {
    node.after = edges.of_next([&, was = node.after](NodeId i) { return std::ranges::find(was, i) != was.end(); });
    std::ranges::reverse(node.after);
  }
  const auto comes_after_the_same = [](const GraphNode& a, const GraphNode& b) {
    return std::ranges::is_permutation(a.after, b.after);
  };
  if (std::ranges::equal(made.nodes, spec.nodes, comes_after_the_same)) return std::nullopt;
  return made;
}

}  // namespace pergola::device
