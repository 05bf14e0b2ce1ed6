// What ran when, for traces and the history of kernels: timed events around each computation, read when they have
// ended.
//
//   queue   ─[start]─ computation ─[end]─     the end is also the computation's Mark: who waits for it uses the same
//   event,
//                                             so that a failure is told once, by the event right behind it
//   host    the clock before and after a wait or an access, brought to the device's axis at the moment of the origin
//
// Memory is bounded: of computations and host slices the newest `capacity` each are kept, the older ones dropped and
// counted. Guarded by the scheduler's lock, but for create().
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/device.h"
#include "src/device/task_slices.h"
#include "src/scheduler/history.h"
#include "src/scheduler/open_trace.h"
#include "src/scheduler/timeline.h"

namespace pergola::scheduler {

struct RecorderOptions {
  std::size_t capacity = std::size_t{1} << 16;
  std::function<double()> host_clock_ns;  // empty: the steady clock. Tests have another.
};

class Recorder {
 public:
  // Waits for an event of an idle queue, where the axis begins.
  static Result<std::unique_ptr<Recorder>> create(device::Device& device, std::string policy, RecorderOptions options);

  // A trace: from begin_trace() on, computations and host slices are kept for take_timeline(); take_trace() ends it.
  // `last_id` is the computation that came last before it.
  void begin_trace(OpenTrace file, std::uint64_t last_id);
  bool has_trace() const { return !trace_.path().empty(); }
  Timeline take_timeline();
  OpenTrace take_trace();  // its file, of no other trace until it is written
  // A history: kernels' times are added to `fresh`; `known` is what the file had.
  void begin_history(std::string path, History known);
  const std::string& history_path() const { return history_path_; }  // "": none is on
  History take_history();                                            // what came since begin_history(), which ends it
  std::optional<Estimate> estimate(std::string_view kernel, SizeClass size) const;
  bool wants_each_kernel() const { return !history_path_.empty(); }  // by itself, in no graph
  bool is_idle() const { return !has_trace() && history_path_.empty(); }

  // A computation was queued between the two events. `vertex` is its place in the log.
  void add(const DagVertex& vertex, std::uint64_t bytes, WorkDetail detail, device::EventPtr start,
           device::EventPtr end);
  // The number of the calling thread: Slice::thread.
  std::uint32_t this_thread();
  // The beginning of what a thread of the host does, to be given to close_host().
  HostSlice open_host(HostKind kind, std::uint64_t array, std::uint64_t bytes);
  // Its end: now.
  void close_host(HostSlice slice);
  // The same for an access, which others end: by its number.
  void open_access(std::uint64_t number, HostSlice slice) { open_accesses_.emplace_back(number, std::move(slice)); }
  void close_access(std::uint64_t number);

  // Narrow tasks that ran while the trace was on.
  void add_tasks(const device::TaskSlices& slices);

  // Reads the times of computations that have ended, oldest first; never blocks. `most`: so many are asked.
  void settle(std::size_t most = ~std::size_t{0});
  // The same of all that has ended, whatever has not before it: for recordings that end while work goes on.
  void settle_ended();
  // The ends of what has not been settled, to be waited for without the lock.
  std::vector<device::EventPtr> unsettled() const;

 private:
  struct Record {
    DagVertex vertex;
    std::uint64_t bytes = 0;
    std::uint32_t thread = 0;
    WorkDetail detail;
    device::EventPtr start, end;  // null once settled
    double start_ns = 0, duration_ns = 0;
    bool has_time = false;
  };

  Recorder(std::string device, std::string policy, RecorderOptions options)
      : device_(std::move(device)), policy_(std::move(policy)), options_(std::move(options)) {}
  Status take_anchor(device::Queue& queue);
  double host_now_ns() const { return options_.host_clock_ns() - host_origin_ns_; }
  bool settle_one(Record& record);
  bool read_times(Record& record);
  static Slice slice_of(const Record& record);

  const std::string device_, policy_;
  const RecorderOptions options_;
  OpenTrace trace_;
  std::string history_path_;
  History known_, fresh_;
  // The clock of a GPU counts in floats of milliseconds, exact only for short whiles: the anchor moves on.
  device::EventPtr anchor_;
  double anchor_ns_ = 0;
  double host_origin_ns_ = 0, host_error_ns_ = 0;
  std::deque<Record> records_;  // by id; the first `settled_` are settled
  std::size_t settled_ = 0;
  std::deque<HostSlice> host_;
  std::vector<TaskSlice> tasks_;
  bool tasks_are_resident_ = false;
  std::uint64_t dropped_tasks_ = 0;
  std::vector<std::pair<std::uint64_t, HostSlice>> open_accesses_;
  std::vector<std::thread::id> threads_;
  std::uint64_t last_id_ = 0;  // the computation that came last
  std::uint64_t dropped_ = 0, without_time_ = 0;
};

}  // namespace pergola::scheduler
