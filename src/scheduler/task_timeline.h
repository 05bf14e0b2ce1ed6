// What is computed of a timeline's narrow tasks: rows for pictures, and how long and how many at once they ran. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/scheduler/timeline.h"

namespace pergola::scheduler {

// The row of what goes from `start_ns` to `end_ns`: the first that is free then, or a new one. `free_at_ns` is when
// each row is free again; things come in the order of their starts.
std::uint32_t take_row(std::vector<double>& free_at_ns, double start_ns, double end_ns);

// Of each task, in their order: its row among those of its place, from 0: the first that is free when it begins. So
// tasks of one row never overlap.
std::vector<std::uint32_t> task_rows(const Timeline& timeline);

struct TaskTimes {
  std::string kernel;
  std::uint64_t count = 0;
  double median_ns = 0, p99_ns = 0, min_ns = 0, max_ns = 0;
};
struct TaskSummary {
  std::uint64_t count = 0, places = 0;
  double span_ns = 0;              // from the first begin to the last end
  double busy_ns = 0;              // of that, while any ran
  double at_once = 0;              // while any ran, in the mean
  std::vector<TaskTimes> kernels;  // by name
};
TaskSummary summarize_tasks(const Timeline& timeline);

// "narrow tasks: 912 on 32 resident blocks in 61.5 us ...", and a line a kernel; empty where there are none.
std::string explain_tasks(const Timeline& timeline);

}  // namespace pergola::scheduler
