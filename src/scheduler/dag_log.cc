#include "src/scheduler/dag_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/plural.h"

namespace pergola::scheduler {
namespace {

// Colours that stay apart for colour-blind readers too, by stream.
constexpr std::array<std::string_view, 8> kColours = {"#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6",
                                                      "#fb9a99", "#ffff99", "#80cdc1", "#d9d9d9"};
}  // namespace

std::string_view colour_of(const DagVertex& vertex) {
  return vertex.is_on_stream() ? kColours[vertex.stream % kColours.size()] : "#ffffff";
}

// Names come from PTX, whose identifiers need no escape, and from users.
std::string plain_name_of(const DagVertex& vertex) {
  std::string out = vertex.name;
  for (char& c : out)
    if (c == '"' || c == '\\' || c == '<' || c == '>' || c == '|') c = '_';
  return out;
}

std::string label_of(const DagVertex::Edge& edge) {
  if (edge.resource == 0) return "any";
  const std::string argument = edge.argument == 0 ? "" : fmt::format("argument {}, ", edge.argument - 1);
  return fmt::format("{}{} {}", argument, resource_name(edge.resource), to_string(edge.hazard));
}

std::string stream_name(const DagVertex& vertex) {
  return vertex.is_on_stream() ? fmt::format("stream {}", vertex.stream) : "the host";
}

namespace {

// Of a vertex with more dependencies than are kept.
std::string not_drawn(const DagVertex& vertex, std::string_view new_line) {
  return vertex.more_edges == 0 ? "" : fmt::format("{}after {} more, not drawn", new_line, vertex.more_edges);
}

}  // namespace

std::string_view to_string(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel: return "kernel";
    case WorkKind::kCopyToDevice: return "copy to device";
    case WorkKind::kCopyToHost: return "copy to host";
    case WorkKind::kCopy: return "copy";
    case WorkKind::kFill: return "fill";
    case WorkKind::kLibrary: return "library call";
    case WorkKind::kGraph: return "graph";
    case WorkKind::kStreamWait: return "stream wait";
    case WorkKind::kHostAccess: return "host access";
  }
  return "?";
}

std::string_view to_string(StreamReason reason) {
  switch (reason) {
    case StreamReason::kNew: return "new";
    case StreamReason::kAlwaysNew: return "always-new";
    case StreamReason::kIdle: return "idle";
    case StreamReason::kFirstChild: return "first-child";
    case StreamReason::kSameAsParent: return "same-as-parent";
    case StreamReason::kSoonFree: return "soon-free";
    case StreamReason::kFreeByThen: return "free-by-then";
    case StreamReason::kCopies: return "copies";
    case StreamReason::kBound: return "bound";
    case StreamReason::kExhausted: return "exhausted";
    case StreamReason::kGraph: return "graph";
  }
  return "?";
}

std::string_view to_string(Order order) {
  switch (order) {
    case Order::kSameStream: return "same-stream";
    case Order::kEvent: return "event";
    case Order::kLateEvent: return "late-event";
    case Order::kImplied: return "implied";
    case Order::kEnded: return "ended";
  }
  return "?";
}

void DagVertex::add(const EndedParents& ended) {
  for (const EndedParent& parent : ended.list()) {
    const auto is_known = [&](const Edge& edge) {
      return edge.parent == parent.parent && edge.resource == parent.resource && edge.hazard == parent.hazard;
    };
    if (std::none_of(edges.begin(), edges.begin() + edge_count, is_known))
      add({parent.parent, parent.resource, parent.hazard, Order::kEnded, parent.argument});
  }
  more_edges += ended.more();
}

DagPicture DagLog::picture() const {
  DagPicture picture;
  const std::uint64_t kept = std::min<std::uint64_t>(count_, kCapacity);
  picture.forgotten = count_ - kept;
  picture.vertices.reserve(kept);
  for (std::uint64_t i = count_ - kept; i < count_; ++i) picture.vertices.push_back(ring_[i % kCapacity]);
  return picture;
}

std::string DagPicture::dot() const {
  std::string text =
      "digraph dag {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans\"];\n"
      "  edge [fontname=\"sans\", fontsize=10];\n";
  if (forgotten != 0)
    text += fmt::format("  label=\"{} not shown\";\n",
                        plural(forgotten, "earlier computation is", "earlier computations are"));
  for (const DagVertex& vertex : vertices)
    text += fmt::format("  c{} [label=\"{}\\n#{} {}{}\", fillcolor=\"{}\"];\n", vertex.id, plain_name_of(vertex),
                        vertex.id, stream_name(vertex), not_drawn(vertex, "\\n"), colour_of(vertex));
  const std::uint64_t first = vertices.empty() ? 0 : vertices.front().id;
  for (const DagVertex& vertex : vertices)
    for (std::uint32_t i = 0; i < vertex.edge_count; ++i)
      if (vertex.edges[i].parent >= first)
        text +=
            fmt::format("  c{} -> c{} [label=\"{}\"];\n", vertex.edges[i].parent, vertex.id, label_of(vertex.edges[i]));
  return text + "}\n";
}

std::string DagPicture::mermaid() const {
  std::string text = "flowchart LR\n";
  for (const DagVertex& vertex : vertices)
    text += fmt::format("  c{}[\"{}<br/>#{} {}{}\"]\n", vertex.id, plain_name_of(vertex), vertex.id, stream_name(vertex),
                        not_drawn(vertex, "<br/>"));
  const std::uint64_t first = vertices.empty() ? 0 : vertices.front().id;
  for (const DagVertex& vertex : vertices)
    for (std::uint32_t i = 0; i < vertex.edge_count; ++i)
      if (vertex.edges[i].parent >= first)
        text += fmt::format("  c{} -->|{}| c{}\n", vertex.edges[i].parent, label_of(vertex.edges[i]), vertex.id);
  for (const DagVertex& vertex : vertices) text += fmt::format("  style c{} fill:{}\n", vertex.id, colour_of(vertex));
  return text;
}

}  // namespace pergola::scheduler
