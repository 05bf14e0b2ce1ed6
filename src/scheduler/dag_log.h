// The computations submitted last, with their dependencies: what `explain` and pictures of the DAG are made of.
//
// A ring of fixed size, written at every submission but those of repeated turns, which come later (turn_repetition.h),
// and so kept cheap: numbers, and names that live as long as the scheduler. Guarded by the scheduler's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/scheduler/resource.h"

namespace pergola::scheduler {

enum class WorkKind : std::uint8_t {
  kKernel,
  kCopyToDevice,
  kCopyToHost,
  kCopy,
  kFill,
  kLibrary,
  kGraph,
  kStreamWait,
  kHostAccess,  // that waits, in pictures alone: it is on no stream, and what comes later comes after it by itself
};
std::string_view to_string(WorkKind kind);

// Why a computation went on its stream (paper 003, IV-C).
enum class StreamReason : std::uint8_t {
  kNew,           // no stream was free: a new one
  kAlwaysNew,     // a new one, by policy
  kIdle,          // the stream that had been free the longest
  kFirstChild,    // a parent's, which nothing had followed
  kSameAsParent,  // a parent's, by policy
  kSoonFree,      // a parent's, or the one used last: what stands between is expected to take less than an event costs
  kFreeByThen,    // a stream whose work all comes before the parents'
  kCopies,        // that of the copy from the host before it: they share one link
  kBound,         // the stream used least recently, as there are max-streams
  kExhausted,     // the same, as the device gives no more
  kGraph,         // the graph's own, of those that were free (graph_ways.h)
};
// "first-child" and so on: what trace files have.
std::string_view to_string(StreamReason reason);

// What makes a computation come after a parent.
enum class Order : std::uint8_t {
  kSameStream,  // both are on one stream, which is in order
  kEvent,       // its stream waits for an event right behind the parent
  kLateEvent,   // its stream waits for an event behind later work of the parent's stream
  kImplied,     // another wait of its stream, now or before, covers the parent
  kEnded,       // the parent had ended before: nothing waits
};
std::string_view to_string(Order order);  // "same-stream" "event" "late-event" "implied" "ended"

struct DagVertex {
  struct Edge {
    std::uint64_t parent = 0;    // Computation::id
    std::uint64_t resource = 0;  // 0: a universal access
    Hazard hazard = Hazard::kReadAfterWrite;
    Order order = Order::kSameStream;
    std::uint16_t argument = 0;  // the child's, as Access::argument
  };
  static constexpr std::size_t kEdges = 6;  // kept of each vertex; `more_edges` counts the rest
  void add(const Edge& edge) {
    if (edge_count == kEdges)
      ++more_edges;
    else
      edges[edge_count++] = edge;
  }
  // Those that are no edge yet: a parent may end while what comes after it is on its way.
  void add(const EndedParents& ended);

  std::uint64_t id = 0;
  const char* name = "";
  WorkKind kind = WorkKind::kKernel;
  StreamReason reason = StreamReason::kNew;
  static constexpr std::uint32_t kNoStream = ~std::uint32_t{0};
  std::uint32_t stream = 0;
  std::uint64_t position = 0;  // on its stream
  bool is_on_stream() const { return stream != kNoStream; }
  std::uint32_t edge_count = 0, more_edges = 0;
  std::array<Edge, kEdges> edges;
  std::span<const Edge> kept_edges() const { return std::span(edges).first(edge_count); }
};

// A moment of the log, for people.
struct DagPicture {
  std::vector<DagVertex> vertices;  // oldest first
  std::uint64_t forgotten = 0;      // submitted before those
  // Graphviz and Mermaid texts: a node a computation, coloured by stream, an edge a dependency with array and hazard.
  std::string dot() const;
  std::string mermaid() const;
  // The same drawn: a row a stream, in its order, and one for the host (dag_svg.cc).
  std::string svg() const;
};

// As pictures have it: colours by stream, and what stands at an edge, without the characters that languages of pictures
// keep for themselves.
std::string_view colour_of(const DagVertex& vertex);
std::string label_of(const DagVertex::Edge& edge);
std::string plain_name_of(const DagVertex& vertex);
// "stream 3"; "the host".
std::string stream_name(const DagVertex& vertex);

class DagLog {
 public:
  static constexpr std::size_t kCapacity = 1024;

  DagVertex& next() {
    DagVertex& vertex = ring_[count_++ % kCapacity];
    vertex.edge_count = vertex.more_edges = 0;
    return vertex;
  }
  DagVertex& last() { return ring_[(count_ - 1) % kCapacity]; }  // next() was called before
  const DagVertex& last() const { return ring_[(count_ - 1) % kCapacity]; }
  // So many before the last, for which next() has been called.
  const DagVertex& before(std::size_t back) const { return ring_[(count_ - 1 - back) % kCapacity]; }
  const DagVertex& before_last() const { return before(1); }
  // One more like the last, behind it as that is behind the one before: how many edges that are no ended ones it has.
  std::uint32_t repeat(std::uint64_t id, std::uint64_t position) {
    const std::uint64_t parent = last().id;
    std::uint32_t count = 0;
    for (DagVertex::Edge& edge : next_like(last(), id, position)) {
      if (edge.order == Order::kEnded) continue;
      edge.parent = parent;
      ++count;
    }
    return count;
  }
  // A vertex like one some turns before it, but for these. Its orders: of each edge, the first in the lowest bits.
  struct Repeated {
    static constexpr std::uint32_t kOrderBits = 4;
    static_assert(DagVertex::kEdges * kOrderBits <= 32);
    std::uint64_t id = 0, position = 0;
    std::uint32_t orders = 0;
  };
  // So many more, each like the one `turn` places before it. Of the edges, those to parents from `first` on are to ones
  // as much later. `next()`: the Repeated that comes next. Of those that would not be kept nothing is written.
  template <typename Next>
  void repeat_turns(std::size_t turn, std::uint64_t count, std::uint64_t first, const Next& next) {
    std::uint64_t at = 0;
    if (count > kCapacity) {
      std::vector<DagVertex> likes;
      for (std::size_t back = turn; back > 0; --back) likes.push_back(before(back - 1));
      for (; at < count - kCapacity; ++at) next();
      count_ += at;
      for (std::size_t i = 0; i < turn; ++i, ++at) repeat(likes[at % turn], turn * (at / turn + 1), next(), first);
    }
    for (; at < count; ++at) repeat(before(turn - 1), turn, next(), first);
  }
  // The last vertex is of the host, and waits for that first.
  bool ends_with_host_wait_for(std::uint64_t parent) const {
    if (count_ == 0) return false;
    const DagVertex& vertex = last();
    return vertex.kind == WorkKind::kHostAccess && vertex.edge_count != 0 && vertex.edges[0].parent == parent;
  }
  DagPicture picture() const;

 private:
  void repeat(const DagVertex& like, std::uint64_t later, const Repeated& by, std::uint64_t first) {
    std::uint32_t orders = by.orders;
    for (DagVertex::Edge& edge : next_like(like, by.id, by.position)) {
      if (edge.parent >= first) {
        edge.parent += later;
        edge.order = static_cast<Order>(orders & ((1u << Repeated::kOrderBits) - 1));
      }
      orders >>= Repeated::kOrderBits;
    }
  }
  // next(), with all that `like` has but its number and place; its edges, which are still those of `like`.
  std::span<DagVertex::Edge> next_like(const DagVertex& like, std::uint64_t id, std::uint64_t position) {
    DagVertex& vertex = next();
    vertex.id = id;
    vertex.name = like.name;
    vertex.kind = like.kind;
    vertex.reason = like.reason;
    vertex.stream = like.stream;
    vertex.position = position;
    vertex.edge_count = like.edge_count;
    std::copy_n(like.edges.begin(), like.edge_count, vertex.edges.begin());
    return std::span(vertex.edges).first(vertex.edge_count);
  }

  std::vector<DagVertex> ring_ = std::vector<DagVertex>(kCapacity);
  std::uint64_t count_ = 0;
};

}  // namespace pergola::scheduler
