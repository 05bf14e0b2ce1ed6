#include "src/scheduler/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/plural.h"
#include "src/scheduler/host_clock.h"

namespace pergola::scheduler {
namespace {

constexpr std::size_t kAskedAnew = 8;     // computations asked whether they have ended when another comes
constexpr double kAnchorReachNs = 100e6;  // a float of milliseconds is exact to 8 ns up to here
constexpr std::size_t kMostThreads = 64;  // of the host that have a track of their own

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::create(device::Device& device, std::string policy,
                                                   RecorderOptions options) {
  if (!options.host_clock_ns) options.host_clock_ns = steady_clock_ns;
  std::unique_ptr<Recorder> recorder(new Recorder(device.info().name, std::move(policy), std::move(options)));
  PERGOLA_ASSIGN(const auto queue, device.create_queue());
  PERGOLA_TRY(recorder->take_anchor(*queue));
  return recorder;
}

// The anchor was somewhere between two looks at the host's clock. The narrowest of some tries is taken: a thread that
// is interrupted between its looks would put the host's slices before or behind what they waited for.
Status Recorder::take_anchor(device::Queue& queue) {
  constexpr int kTries = 20;
  constexpr double kNarrowNs = 10e3;
  double narrowest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries && narrowest > kNarrowNs; ++i) {
    const double before = options_.host_clock_ns();
    PERGOLA_ASSIGN(device::EventPtr anchor, queue.record());
    PERGOLA_TRY(anchor->wait());
    const double after = options_.host_clock_ns();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    host_origin_ns_ = before + narrowest / 2;
    anchor_ = std::move(anchor);
  }
  host_error_ns_ = narrowest / 2;
  return {};
}

void Recorder::begin_trace(OpenTrace file, std::uint64_t last_id) {
  trace_ = std::move(file);
  last_id_ = last_id;
}

Timeline Recorder::take_timeline() {
  Timeline timeline;
  timeline.device = device_;
  timeline.policy = policy_;
  timeline.host_error_ns = host_error_ns_;
  timeline.dropped = std::exchange(dropped_, 0);
  timeline.without_time = std::exchange(without_time_, 0) + unsettled().size();
  for (const Record& record : records_)
    if (record.has_time) timeline.slices.push_back(slice_of(record));
  timeline.host.assign(host_.begin(), host_.end());
  timeline.tasks = std::exchange(tasks_, {});
  std::sort(timeline.tasks.begin(), timeline.tasks.end(),
            [](const TaskSlice& a, const TaskSlice& b) { return a.start_ns < b.start_ns; });
  timeline.tasks_are_resident = tasks_are_resident_;
  timeline.dropped_tasks = std::exchange(dropped_tasks_, 0);
  records_.clear();
  settled_ = 0;
  host_.clear();
  open_accesses_.clear();
  return timeline;
}

OpenTrace Recorder::take_trace() {
  return std::exchange(trace_, {});
}

Slice Recorder::slice_of(const Record& record) {
  Slice slice;
  slice.id = record.vertex.id;
  slice.name = record.vertex.name;
  if (const GraphDetail& graph = record.detail.graph; !graph.kernels.empty())
    slice.name = fmt::format("graph of {} ({})", plural(graph.launches(), "launch"), graph.way);
  slice.kind = record.vertex.kind;
  slice.stream = record.vertex.stream;
  slice.thread = record.thread;
  slice.start_ns = record.start_ns;
  slice.end_ns = record.start_ns + record.duration_ns;
  slice.detail = record.detail;
  slice.bytes = record.bytes;
  slice.reason = record.vertex.reason;
  slice.parents.assign(record.vertex.edges.begin(), record.vertex.edges.begin() + record.vertex.edge_count);
  slice.more_parents = record.vertex.more_edges;
  return slice;
}

void Recorder::begin_history(std::string path, History known) {
  history_path_ = std::move(path);
  known_ = std::move(known);
  fresh_ = {};
}

History Recorder::take_history() {
  history_path_.clear();
  known_ = {};
  return std::exchange(fresh_, {});
}

std::optional<Estimate> Recorder::estimate(std::string_view kernel, SizeClass size) const {
  const std::optional<Estimate> old = known_.estimate(device_, kernel, size);
  const std::optional<Estimate> fresh = fresh_.estimate(device_, kernel, size);
  if (!old || !fresh) return old ? old : fresh;
  if (old->classes_away != fresh->classes_away) return old->classes_away < fresh->classes_away ? old : fresh;
  Estimate both = *old;
  both.times.add(fresh->times);
  return both;
}

void Recorder::add(const DagVertex& vertex, std::uint64_t bytes, WorkDetail detail, device::EventPtr start,
                   device::EventPtr end) {
  Record& record = records_.emplace_back();
  record.vertex = vertex;
  last_id_ = vertex.id;
  record.bytes = bytes;
  record.thread = detail.thread == WorkDetail::kThisThread ? this_thread() : detail.thread;
  record.detail = std::move(detail);
  record.start = std::move(start);
  record.end = std::move(end);
  settle(kAskedAnew);
  if (records_.size() <= options_.capacity) return;
  records_.pop_front();
  if (settled_ != 0) --settled_;
  ++dropped_;
}

HostSlice Recorder::open_host(HostKind kind, std::uint64_t array, std::uint64_t bytes) {
  HostSlice slice;
  slice.kind = kind;
  slice.thread = this_thread();
  slice.array = array;
  slice.bytes = bytes;
  slice.start_ns = host_now_ns();
  return slice;
}

void Recorder::close_host(HostSlice slice) {
  if (!has_trace()) return;
  slice.end_ns = std::max(slice.start_ns, host_now_ns());
  slice.last_id = last_id_;
  // What it has waited for has been submitted, also where it is not recorded: a launch that ran as a task, say.
  for (const DagVertex::Edge& parent : slice.parents) slice.last_id = std::max(slice.last_id, parent.parent);
  host_.push_back(std::move(slice));
  if (host_.size() <= options_.capacity) return;
  host_.pop_front();
  ++dropped_;
}

void Recorder::add_tasks(const device::TaskSlices& slices) {
  if (!has_trace()) return;
  dropped_tasks_ += slices.dropped;
  tasks_are_resident_ = slices.is_resident;
  double origin_ns = -host_origin_ns_;
  if (slices.origin != nullptr) {
    const Result<double> since = slices.origin->elapsed_ns(*anchor_);
    if (!since.ok()) {
      dropped_tasks_ += slices.slices.size();
      return;
    }
    origin_ns = anchor_ns_ + *since;
  }
  // Exact as integers: the clock of a GPU has more digits than a double.
  const auto axis_ns = [&](std::uint64_t time_ns) {
    return origin_ns + static_cast<double>(static_cast<std::int64_t>(time_ns - slices.origin_ns));
  };
  tasks_.reserve(tasks_.size() + slices.slices.size());
  for (const device::TaskSlice& slice : slices.slices) {
    const double start_ns = axis_ns(slice.begun_ns);
    tasks_.push_back(
        {slice.id, slices.kernels[slice.kernel], slice.place, start_ns, std::max(start_ns, axis_ns(slice.ended_ns))});
  }
}

void Recorder::close_access(std::uint64_t number) {
  const auto found = std::find_if(open_accesses_.begin(), open_accesses_.end(),
                                  [&](const auto& open) { return open.first == number; });
  if (found == open_accesses_.end()) return;  // it began before the recording did
  close_host(std::move(found->second));
  open_accesses_.erase(found);
}

void Recorder::settle(std::size_t most) {
  for (std::size_t i = 0; i < most && settled_ < records_.size(); ++i) {
    if (!settle_one(records_[settled_])) return;
    if (!has_trace())
      records_.pop_front();  // it was for the history alone
    else
      ++settled_;
  }
}

void Recorder::settle_ended() {
  for (std::size_t i = settled_; i < records_.size(); ++i) (void)settle_one(records_[i]);
}

bool Recorder::settle_one(Record& record) {
  if (record.end == nullptr) return true;  // it has been
  const std::optional<Status> outcome = record.end->poll();
  if (!outcome) return false;
  record.has_time = outcome->ok() && read_times(record);
  record.start.reset();
  record.end.reset();
  if (!record.has_time) {
    ++without_time_;
  } else if (!history_path_.empty() && record.vertex.kind == WorkKind::kKernel && record.detail.threads() != 0) {
    fresh_.add(device_, record.vertex.name, SizeClass::of(record.detail.threads(), record.bytes), record.duration_ns);
  }
  return true;
}

bool Recorder::read_times(Record& record) {
  const Result<double> since = record.start->elapsed_ns(*anchor_);
  const Result<double> duration = record.end->elapsed_ns(*record.start);
  if (!since.ok() || !duration.ok()) return false;
  record.start_ns = anchor_ns_ + *since;
  record.duration_ns = std::max(0.0, *duration);
  if (std::abs(*since) > kAnchorReachNs) {
    anchor_ = record.start;
    anchor_ns_ = record.start_ns;
  }
  return true;
}

std::vector<device::EventPtr> Recorder::unsettled() const {
  std::vector<device::EventPtr> ends;
  for (std::size_t i = settled_; i < records_.size(); ++i)
    if (records_[i].end != nullptr) ends.push_back(records_[i].end);
  return ends;
}

std::uint32_t Recorder::this_thread() {
  const std::thread::id id = std::this_thread::get_id();
  const auto found = std::find(threads_.begin(), threads_.end(), id);
  if (found == threads_.end() && threads_.size() < kMostThreads) {
    threads_.push_back(id);
    return static_cast<std::uint32_t>(threads_.size() - 1);
  }
  return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(found - threads_.begin(), kMostThreads - 1));
}

}  // namespace pergola::scheduler
