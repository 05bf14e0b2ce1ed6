// What ran when, as values: a recorder makes it (recorder.h), a trace file keeps it (trace_file.h), metrics (metrics.h)
// and explain() (explain.h) are computed from it.
//
// One axis of time: nanoseconds since the recording began. Device times come from events around each computation, so a
// slice begins when its stream had come to it and includes what it waited for then: a copy engine, free SMs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/types.h"
#include "src/scheduler/dag_log.h"
#include "src/scheduler/graph_report.h"

namespace pergola::scheduler {

// Of a launch of a graph.
struct GraphDetail {
  std::uint64_t region = 0;  // RegionReport::number
  std::string way;           // "plain" "early" ...
  std::vector<KernelCount> kernels;
  std::uint64_t launches() const {
    std::uint64_t sum = 0;
    for (const KernelCount& kernel : kernels) sum += kernel.count;
    return sum;
  }
};

// What only the submitter knows of its work.
struct WorkDetail {
  static constexpr std::uint32_t kThisThread = ~std::uint32_t{0};

  device::Dim3 grid{0, 0, 0}, block{0, 0, 0};  // 0: not a kernel
  std::uint32_t shared_bytes = 0;              // dynamic
  std::string arguments{};                     // for people: "x=array 3, n=1000"
  std::uint32_t thread = kThisThread;          // of the host, as Slice::thread, where another one queues it
  GraphDetail graph{};                         // without kernels: not a graph
  std::uint64_t threads() const { return grid.count() * block.count(); }
};

// One computation.
struct Slice {
  std::uint64_t id = 0;  // Computation::id: in order of submission, from 1
  std::string name;
  WorkKind kind = WorkKind::kKernel;
  std::uint32_t stream = 0;
  std::uint32_t thread = 0;  // of the host, that submitted it: from 0, in order of appearance
  double start_ns = 0, end_ns = 0;
  WorkDetail detail;
  std::uint64_t bytes = 0;  // of its accesses: what a copy moves, the arrays of a kernel
  StreamReason reason = StreamReason::kNew;
  std::vector<DagVertex::Edge> parents;
  std::uint32_t more_parents = 0;  // not kept
  double duration_ns() const { return end_ns - start_ns; }
};

enum class HostKind : std::uint8_t {
  kWait,         // for what made, or uses, bytes of an array
  kRead,         // while the host may read them
  kWrite,        // while the host may write them
  kSynchronize,  // for everything
  kTasks,        // for narrow tasks
};
std::string_view to_string(HostKind kind);  // "wait" "read" "write" "synchronize" "tasks"

// What a thread of the host did, on the host's clock, brought to the axis.
struct HostSlice {
  HostKind kind = HostKind::kWait;
  std::uint32_t thread = 0;
  double start_ns = 0, end_ns = 0;
  std::uint64_t array = 0;  // Resource::id(); 0 of kSynchronize and kTasks
  std::uint64_t bytes = 0;
  std::uint64_t tasks = 0;               // of kTasks: spawned by then, since the pool was made
  std::uint64_t last_id = 0;             // computations up to this one had been submitted when it ended
  std::vector<DagVertex::Edge> parents;  // of kWait: what was waited for
  double duration_ns() const { return end_ns - start_ns; }
};

// A narrow task, or a piece of a large one, where its pool notes them (session::TaskPoolOptions::slices). It is on no
// stream, and no part of the overlap metrics.
struct TaskSlice {
  using Id = std::uint64_t;
  Id id = 0;         // of the pool; 0: another task has spawned it
  std::string name;  // its kernel
  std::uint32_t place = 0;
  double start_ns = 0, end_ns = 0;
  double duration_ns() const { return end_ns - start_ns; }
};

struct Timeline {
  std::string device;               // its name
  std::string policy;               // policy.h
  std::vector<Slice> slices;        // by id
  std::vector<HostSlice> host;      // by end
  std::vector<TaskSlice> tasks;     // by start
  bool tasks_are_resident = false;  // their places are resident blocks; else threads of the CPU device
  std::uint64_t dropped_tasks = 0;  // the oldest, for which there was no room
  double host_error_ns = 0;         // the host's slices may be so far off the device's
  std::uint64_t dropped = 0;        // the oldest computations and host slices, for which there was no room
  std::uint64_t without_time = 0;   // computations that failed, were skipped, or had not ended
  GraphsReport graphs;              // since the session began

  // Those of the host in the order of their last_id, then as they are.
  std::vector<const HostSlice*> host_by_last_id() const {
    std::vector<const HostSlice*> sorted;
    for (const HostSlice& slice : host) sorted.push_back(&slice);
    std::sort(sorted.begin(), sorted.end(), [](const HostSlice* a, const HostSlice* b) {
      return a->last_id != b->last_id ? a->last_id < b->last_id : a < b;
    });
    return sorted;
  }
};

// Between host and device, and so a transfer in the paper's sense (003, V-F); all else of a Slice is computation, but
// for waits for other libraries' streams (kStreamWait), which are neither.
constexpr bool is_transfer(WorkKind kind) {
  return kind == WorkKind::kCopyToDevice || kind == WorkKind::kCopyToHost;
}
constexpr bool is_transfer(HostKind kind) {
  return kind == HostKind::kRead || kind == HostKind::kWrite;
}

}  // namespace pergola::scheduler
