#include "src/device/copies_together.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "src/device/graph_order.h"

namespace pergola::device {
namespace {

// What the link does while it has a copy's own time to wait, about 3 us: with S bytes in n copies the last ends n of
// these after S is over, and before the first, which nothing runs beside, has come S/n goes by. So n is the root of S
// over this.
constexpr double kLinkBytesOfACopy = 150e3;
constexpr std::uint64_t kMostPitchBytes = (std::uint64_t{1} << 31) - 1;  // of CUDA's copies of rows, on all GPUs

const CopyNode* copy_of(const GraphNode& node) {
  const auto* const copy = std::get_if<CopyNode>(&node.work);
  return copy != nullptr && copy->size_bytes != 0 && copy->more_rows.empty() ? copy : nullptr;
}

bool is_of_whole_buffers(const CopyNode& node, const CopyNode::Row& row) {
  return node.destination_offset_bytes == 0 && node.source_offset_bytes == 0 &&
         row.size_bytes == row.destination->size_bytes() && row.size_bytes == row.source->size_bytes();
}

using Group = std::vector<NodeId>;  // the copies that become one, in program order; of one node: it stays

// Rows go up where they go to.
CopyNode as_one(const GraphSpec& spec, Group members) {
  const auto address = [&](NodeId node) { return copy_of(spec.nodes[node])->destination->address(); };
  std::ranges::sort(members, {}, address);
  CopyNode made = *copy_of(spec.nodes[members.front()]);
  for (std::size_t i = 1; i < members.size(); ++i) {
    const CopyNode& row = *copy_of(spec.nodes[members[i]]);
    made.more_rows.push_back({row.destination, row.source, row.size_bytes});
  }
  return made;
}

bool can_be_one(const GraphSpec& spec, const Group& members) {
  const CopyNode& first = *copy_of(spec.nodes[members.front()]);
  const CopyNode& last = *copy_of(spec.nodes[members.back()]);
  return first.destination_offset_bytes == last.destination_offset_bytes &&
         first.source_offset_bytes == last.source_offset_bytes && copies_shape(as_one(spec, members));
}

// Of copies that may be one, in program order, groups of `enough` bytes where they can be.
void group(const GraphSpec& spec, const Group& candidates, double enough, std::vector<Group>& groups) {
  Group open;
  double bytes = 0;
  for (const NodeId node : candidates) {
    open.push_back(node);
    if (open.size() > 1 && (bytes >= enough || !can_be_one(spec, open))) {
      open.pop_back();
      groups.push_back(std::exchange(open, {node}));
      bytes = 0;
    }
    bytes += static_cast<double>(copy_of(spec.nodes[node])->size_bytes);
  }
  if (!open.empty()) groups.push_back(std::move(open));
}

// All nodes in groups, of which those of copies may have several.
GraphSpec merged(const GraphSpec& spec, const std::vector<Group>& groups) {
  std::vector<NodeId> first(spec.nodes.size()), place(spec.nodes.size());
  std::vector<const Group*> group_of(spec.nodes.size());
  for (const Group& group : groups)
    for (const NodeId node : group) first[node] = group.front(), group_of[node] = &group;
  GraphSpec made;
  made.buffers = spec.buffers;
  for (const NodeId next : joined_order(spec, first)) {
    const Group& members = *group_of[next];
    GraphNode node = spec.nodes[next];
    if (members.size() > 1) node.work = as_one(spec, members);
    node.after.clear();
    for (const NodeId member : members) {
      place[member] = static_cast<NodeId>(made.nodes.size());
      for (const NodeId earlier : spec.nodes[member].after) node.after.push_back(place[earlier]);
    }
    std::ranges::sort(node.after);
    node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
    made.nodes.push_back(std::move(node));
  }
  return made;
}

}  // namespace

std::optional<CopiesShape> copies_shape(const CopyNode& node) {
  if (node.size_bytes == 0 && !node.more_rows.empty()) return std::nullopt;
  CopyNode::Row before{node.destination, node.source, node.size_bytes};
  CopiesShape line{node.size_bytes, 0, 0}, rows;
  bool is_line = true, is_rows = true;
  for (const CopyNode::Row& row : node.more_rows) {
    if (row.destination->piece() != before.destination->piece() || row.source->piece() != before.source->piece())
      return std::nullopt;
    const std::uint64_t to = row.destination->address() - before.destination->address(),
                        from = row.source->address() - before.source->address();  // of what lies below: very far
    const auto fits = [&](std::uint64_t pitch) { return pitch >= before.size_bytes && pitch <= kMostPitchBytes; };
    if (!fits(to) || !fits(from)) return std::nullopt;
    is_line = is_line && to == from && to - before.size_bytes < Buffer::kPieceAlignBytes &&
              is_of_whole_buffers(node, before) && is_of_whole_buffers(node, row);
    line.line_bytes += to - before.size_bytes + row.size_bytes;
    const bool is_second = &row == node.more_rows.data();
    if (is_second) rows = {0, to, from};
    is_rows = is_rows && row.size_bytes == node.size_bytes && to == rows.destination_pitch_bytes &&
              from == rows.source_pitch_bytes;
    before = row;
  }
  if (is_line) return line;
  if (is_rows) return rows;
  return std::nullopt;
}

std::optional<CopiesTogether> copies_together(const GraphSpec& spec) {
  if (std::ranges::any_of(spec.nodes, [](const GraphNode& node) { return node.early_after.has_value(); }))
    return std::nullopt;
  const std::vector<double> depth = begins(spec, {});
  struct Candidates {
    Group nodes;
    double bytes = 0;
  };
  std::map<std::pair<bool, double>, Candidates> candidates;  // uploads, depth
  std::vector<Group> groups;
  for (NodeId i = 0; i < spec.nodes.size(); ++i) {
    const CopyNode* const copy = copy_of(spec.nodes[i]);
    if (copy == nullptr || !(is_upload(*copy) || is_download(*copy))) {
      groups.push_back({i});
      continue;
    }
    Candidates& its = candidates[{is_upload(*copy), depth[i]}];
    its.nodes.push_back(i);
    its.bytes += static_cast<double>(copy->size_bytes);
  }
  CopiesTogether made;
  for (const auto& [key, its] : candidates) {
    const auto wanted = std::max(1.0, std::round(std::sqrt(its.bytes / kLinkBytesOfACopy)));
    const std::size_t had = groups.size();
    group(spec, its.nodes, its.bytes / wanted, groups);
    if (groups.size() - had == its.nodes.size()) continue;
    made.before += its.nodes.size();
    made.after += groups.size() - had;
  }
  if (made.before == 0) return std::nullopt;
  made.spec = merged(spec, groups);
  return made;
}

}  // namespace pergola::device
