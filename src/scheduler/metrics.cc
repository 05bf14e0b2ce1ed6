#include "src/scheduler/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace pergola::scheduler {
namespace {

struct Interval {
  double start = 0, end = 0;
};

// Where at least `depth` of some intervals are, as disjoint sorted intervals with the sum of those before each.
class Covered {
 public:
  Covered(const std::vector<Interval>& intervals, int depth) {
    std::vector<std::pair<double, int>> steps;
    for (const Interval& interval : intervals) {
      steps.emplace_back(interval.start, 1);
      steps.emplace_back(interval.end, -1);
    }
    // At one moment ends come first: intervals that only touch do not overlap.
    std::sort(steps.begin(), steps.end());
    int open = 0;
    for (const auto& [at, step] : steps) {
      if (step > 0 && ++open == depth) parts_.push_back({at, at});
      if (step < 0 && open-- == depth) parts_.back().end = at;
    }
    before_.push_back(0);
    for (const Interval& part : parts_) before_.push_back(before_.back() + part.end - part.start);
  }
  double within(const Interval& interval) const { return until(interval.end) - until(interval.start); }

 private:
  double until(double at) const {
    const auto after = std::upper_bound(parts_.begin(), parts_.end(), at,
                                        [](double when, const Interval& part) { return when < part.start; });
    const auto index = static_cast<std::size_t>(after - parts_.begin());
    if (index == 0) return 0;
    return before_[index - 1] + std::min(at, parts_[index - 1].end) - parts_[index - 1].start;
  }

  std::vector<Interval> parts_;
  std::vector<double> before_;
};

double sum(const std::vector<Interval>& intervals) {
  double total = 0;
  for (const Interval& interval : intervals) total += interval.end - interval.start;
  return total;
}

double share(const std::vector<Interval>& intervals, const Covered& covered) {
  const double total = sum(intervals);
  if (total <= 0) return 0;
  double common = 0;
  for (const Interval& interval : intervals) common += covered.within(interval);
  return common / total;
}

std::string serial_key(const Slice& slice) {
  const device::Dim3 &grid = slice.detail.grid, &block = slice.detail.block;
  return fmt::format("{}|{},{},{}|{},{},{}|{}|{}|{}", to_string(slice.kind), grid.x, grid.y, grid.z, block.x, block.y,
                     block.z, slice.detail.shared_bytes, slice.bytes, slice.name);
}

// The end of a path, and the computation it goes through last (0: none).
struct Reached {
  double ns = 0;
  std::uint64_t last = 0;
  void extend(const Reached& other) {
    if (other.ns > ns) *this = other;
  }
};

}  // namespace

Overlap overlap(const Timeline& timeline) {
  std::vector<Interval> computation, transfer;
  for (const Slice& slice : timeline.slices)
    if (slice.kind != WorkKind::kStreamWait)
      (is_transfer(slice.kind) ? transfer : computation).push_back({slice.start_ns, slice.end_ns});
  for (const HostSlice& slice : timeline.host)
    if (is_transfer(slice.kind)) transfer.push_back({slice.start_ns, slice.end_ns});
  std::vector<Interval> all = computation;
  all.insert(all.end(), transfer.begin(), transfer.end());
  Overlap result;
  if (all.empty()) return result;
  result.ct = share(computation, Covered(transfer, 1));
  result.tc = share(transfer, Covered(computation, 1));
  result.cc = share(computation, Covered(computation, 2));  // it is one of the two itself
  result.tot = share(all, Covered(all, 2));
  result.computation_ns = sum(computation);
  result.transfer_ns = sum(transfer);
  double first = all.front().start, last = all.front().end;
  for (const Interval& interval : all) {
    first = std::min(first, interval.start);
    last = std::max(last, interval.end);
  }
  result.span_ns = last - first;
  return result;
}

CriticalPath critical_path(const Timeline& timeline, SerialTime serial) {
  CriticalPath path;
  struct Vertex {
    Reached reached;
    std::uint64_t before = 0;  // on its longest path
  };
  std::unordered_map<std::uint64_t, Vertex> vertices;
  std::map<std::uint32_t, Reached> threads;  // what each thread of the host has waited for
  Reached furthest;
  const auto parents_of = [&](const std::vector<DagVertex::Edge>& edges, Reached reached) {
    for (const DagVertex::Edge& edge : edges)
      if (const auto parent = vertices.find(edge.parent); parent != vertices.end())
        reached.extend(parent->second.reached);
    return reached;
  };
  const auto pass_host = [&](const HostSlice& slice) {
    Reached& thread = threads[slice.thread];
    if (slice.kind == HostKind::kSynchronize) thread.extend(furthest);
    thread.extend(parents_of(slice.parents, thread));
    if (is_transfer(slice.kind)) thread.ns += slice.duration_ns();
    furthest.extend(thread);
  };
  const std::vector<const HostSlice*> host = timeline.host_by_last_id();
  auto next = host.begin();
  for (const Slice& slice : timeline.slices) {
    for (; next != host.end() && (*next)->last_id < slice.id; ++next) pass_host(**next);
    // No more than it took here: the serial time may have been a disturbed one, or the first.
    const std::optional<double> by_itself = serial(slice);
    if (!by_itself) path.unknown.insert(slice.name);
    const double duration = std::min(by_itself.value_or(slice.duration_ns()), slice.duration_ns());
    const Reached before = parents_of(slice.parents, threads[slice.thread]);
    Vertex& vertex = vertices[slice.id];
    vertex = {{before.ns + duration, slice.id}, before.last};
    furthest.extend(vertex.reached);
  }
  for (; next != host.end(); ++next) pass_host(**next);
  path.length_ns = furthest.ns;
  // `before` has a smaller id than its vertex, so this ends.
  for (std::uint64_t id = furthest.last; id != 0; id = vertices.at(id).before) path.ids.push_back(id);
  std::reverse(path.ids.begin(), path.ids.end());
  return path;
}

Result<SerialRun> SerialRun::from(const Timeline& timeline) {
  const Overlap found = overlap(timeline);
  if (found.cc > 0.01)
    return PERGOLA_ERROR(kInvalidArgument,
                         "{:.0f} % of the serial run's computation overlaps with other computation: record it with "
                         "PERGOLA_SCHEDULER=execution=sync.",
                         100 * found.cc);
  SerialRun run;
  for (const Slice& slice : timeline.slices) {
    const auto [least, is_new] = run.least_ns_.try_emplace(serial_key(slice), slice.duration_ns());
    if (!is_new) least->second = std::min(least->second, slice.duration_ns());
  }
  return run;
}

std::optional<double> SerialRun::operator()(const Slice& slice) const {
  const auto found = least_ns_.find(serial_key(slice));
  return found == least_ns_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace pergola::scheduler
