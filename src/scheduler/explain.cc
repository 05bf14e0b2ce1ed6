#include "src/scheduler/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "src/base/plural.h"
#include "src/scheduler/task_timeline.h"

namespace pergola::scheduler {
namespace {

std::string shape_text(const Slice& slice) {
  if (const GraphDetail& graph = slice.detail.graph; !graph.kernels.empty())
    return fmt::format("region {}: {}", graph.region, to_string(graph.kernels));
  if (slice.detail.threads() == 0) return plural(slice.bytes, "byte");
  const device::Dim3 &grid = slice.detail.grid, &block = slice.detail.block;
  return fmt::format("grid {}x{}x{}, block {}x{}x{}", grid.x, grid.y, grid.z, block.x, block.y, block.z);
}

std::string what_is_shared(const DagVertex::Edge& edge) {
  if (edge.resource == kParameterBlocks) return "the parameters that change are in the same memory for both";
  const std::string what = resource_name(edge.resource);
  const std::string here = edge.argument == 0 ? "here" : fmt::format("here as argument {}", edge.argument - 1);
  switch (edge.hazard) {
    case Hazard::kReadAfterWrite: return fmt::format("it wrote {}, which is read {} (RAW)", what, here);
    case Hazard::kWriteAfterRead: return fmt::format("it reads {}, which is written {} (WAR)", what, here);
    case Hazard::kWriteAfterWrite: return fmt::format("it wrote {}, which is written {} (WAW)", what, here);
    case Hazard::kUniversal: break;
  }
  return "one of the two may access any array";
}

class Text {
 public:
  explicit Text(const Timeline& timeline) : timeline_(timeline) {
    for (const Slice& slice : timeline.slices) by_id_[slice.id] = &slice;
  }

  std::string print() {
    header();
    const std::vector<const HostSlice*> host = timeline_.host_by_last_id();
    auto next = host.begin();
    for (const Slice& slice : timeline_.slices) {
      for (; next != host.end() && (*next)->last_id < slice.id; ++next) add_host(**next);
      add(slice);
    }
    for (; next != host.end(); ++next) add_host(**next);
    summary();
    if (const std::string tasks = explain_tasks(timeline_); !tasks.empty()) text_ += "\n" + tasks;
    text_ += "\n" + scheduler::explain(timeline_.graphs);
    return std::move(text_);
  }

 private:
  std::string name_of(std::uint64_t id) const {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return fmt::format("#{}, which is not in this trace", id);
    return fmt::format("#{} {}", id, found->second->name);
  }
  const Slice* find(std::uint64_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }

  void header() {
    text_ += fmt::format("{} on {}; {}\n", plural(timeline_.slices.size(), "computation"), timeline_.device,
                         timeline_.policy);
    if (timeline_.dropped != 0)
      text_ += plural(timeline_.dropped, "older one was dropped: there was no room for it\n",
                      "older ones were dropped: there was no room for them\n");
    if (timeline_.without_time != 0)
      text_ += plural(timeline_.without_time, "is missing: it failed, was skipped, or had not ended\n",
                      "are missing: they failed, were skipped, or had not ended\n");
    text_ += "\n";
  }

  std::string reason(const Slice& slice) const {
    std::uint64_t parent = 0;
    for (const DagVertex::Edge& edge : slice.parents)
      if (edge.order == Order::kSameStream && parent == 0) parent = edge.parent;
    const std::string whose = parent == 0 ? "of a parent" : "of " + name_of(parent);
    const bool waits_for_none = std::all_of(slice.parents.begin(), slice.parents.end(),
                                            [](const DagVertex::Edge& edge) { return edge.order == Order::kEnded; });
    const char* const without = waits_for_none ? "it depends on nothing that has not ended"
                                               : "its parents' streams have gone on with other children";
    switch (slice.reason) {
      case StreamReason::kNew: return fmt::format("new, as {} and no stream was free", without);
      case StreamReason::kAlwaysNew: return fmt::format("new by policy (always-new), as {}", without);
      case StreamReason::kIdle: return fmt::format("reused, as {} and this stream had been free the longest", without);
      case StreamReason::kFirstChild: return fmt::format("that {}: its first child follows it there", whose);
      case StreamReason::kSameAsParent: return fmt::format("that {}, by policy (same-as-parent)", whose);
      case StreamReason::kSoonFree:
        return fmt::format(
            "{}: what stands before it there is expected to take less than an event across streams costs",
            parent == 0 ? "the one used last" : "that " + whose);
      case StreamReason::kFreeByThen:
        return fmt::format("reused, as {} and all work of this stream comes before its parents", without);
      case StreamReason::kCopies:
        return "that of the copy from the host before it: one after the other each is there sooner";
      case StreamReason::kBound: return "the least recently used, as max-streams are in use";
      case StreamReason::kExhausted: return "the least recently used, as the device gives no more queues";
      case StreamReason::kGraph:
        return fmt::format("reused, as {} and this graph, or the one behind it, goes on this stream", without);
    }
    return "?";
  }

  std::string order_text(const Slice& slice, const DagVertex::Edge& edge) {
    const Slice* const parent = find(edge.parent);
    const std::string there = parent == nullptr ? "another stream" : fmt::format("stream {}", parent->stream);
    switch (edge.order) {
      case Order::kSameStream: return fmt::format("stream {} is in order, no event is needed", slice.stream);
      case Order::kEvent:
        if (waited_.insert({slice.id, edge.parent}).second) ++waits_;
        events_.insert(edge.parent);
        return fmt::format("stream {} waits for the event behind it on {}", slice.stream, there);
      case Order::kLateEvent:
        if (waited_.insert({slice.id, edge.parent}).second) ++waits_, ++late_;
        return fmt::format("stream {} waits for a later event of {}, as none was recorded right behind it",
                           slice.stream, there);
      case Order::kImplied: return fmt::format("another wait of stream {} covers it, so none is needed", slice.stream);
      case Order::kEnded: return "it had ended before, so nothing waits";
    }
    return "?";
  }

  void add(const Slice& slice) {
    text_ += fmt::format("#{} {} ({}, {:.1f} us)\n    stream {}: {}\n", slice.id, slice.name, shape_text(slice),
                         slice.duration_ns() * 1e-3, slice.stream, reason(slice));
    for (const DagVertex::Edge& edge : slice.parents)
      text_ +=
          fmt::format("    after {}: {}; {}\n", name_of(edge.parent), what_is_shared(edge), order_text(slice, edge));
    if (slice.more_parents != 0) text_ += fmt::format("    after {} more, which were not kept\n", slice.more_parents);
  }

  void add_host(const HostSlice& slice) {
    const double us = slice.duration_ns() * 1e-3;
    if (slice.kind == HostKind::kSynchronize) {
      text_ += fmt::format("host thread {} waited {:.1f} us for everything\n", slice.thread, us);
    } else if (slice.kind == HostKind::kWait) {
      text_ += fmt::format("host thread {} waited {:.1f} us for {} of {}\n", slice.thread, us,
                           plural(slice.bytes, "byte"), resource_name(slice.array));
      for (const DagVertex::Edge& edge : slice.parents) {
        events_.insert(edge.parent);
        text_ += fmt::format("    for {}: {}\n", name_of(edge.parent), what_is_shared(edge));
      }
      ++host_waits_;
    } else if (slice.kind == HostKind::kTasks) {
      text_ += fmt::format("host thread {} waited {:.1f} us for narrow tasks, of which {} had been spawned by then\n",
                           slice.thread, us, slice.tasks);
    } else {
      text_ += fmt::format("host thread {} {} {} of {} for {:.1f} us\n", slice.thread,
                           slice.kind == HostKind::kRead ? "read" : "wrote", plural(slice.bytes, "byte"),
                           resource_name(slice.array), us);
    }
  }

  void summary() {
    std::set<std::uint32_t> streams;
    for (const Slice& slice : timeline_.slices) streams.insert(slice.stream);
    text_ += fmt::format("\n{}; {} of streams, {} of them for more than needed; {} of the host for arrays; {} of use\n",
                         plural(streams.size(), "stream"), plural(waits_, "wait"), late_, plural(host_waits_, "wait"),
                         plural(events_.size(), "computation whose event was", "computations whose events were"));
  }

  const Timeline& timeline_;
  std::unordered_map<std::uint64_t, const Slice*> by_id_;
  std::set<std::uint64_t> events_;                            // computations whose event somebody waited for
  std::set<std::pair<std::uint64_t, std::uint64_t>> waited_;  // child and parent: one wait, however many arrays
  std::uint64_t waits_ = 0, late_ = 0, host_waits_ = 0;
  std::string text_;
};

}  // namespace

std::string explain(const Timeline& timeline) {
  return Text(timeline).print();
}

}  // namespace pergola::scheduler
