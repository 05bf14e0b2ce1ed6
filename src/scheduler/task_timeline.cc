#include "src/scheduler/task_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/base/plural.h"

namespace pergola::scheduler {

std::uint32_t take_row(std::vector<double>& free_at_ns, double start_ns, double end_ns) {
  auto row = std::ranges::find_if(free_at_ns, [&](double at_ns) { return at_ns <= start_ns; });
  if (row == free_at_ns.end()) row = free_at_ns.insert(free_at_ns.end(), 0);
  *row = end_ns;
  return static_cast<std::uint32_t>(row - free_at_ns.begin());
}

std::vector<std::uint32_t> task_rows(const Timeline& timeline) {
  std::map<std::uint32_t, std::vector<double>> free_at;  // by place, then row
  std::vector<std::uint32_t> rows;
  rows.reserve(timeline.tasks.size());
  for (const TaskSlice& task : timeline.tasks)
    rows.push_back(take_row(free_at[task.place], task.start_ns, task.end_ns));
  return rows;
}

TaskSummary summarize_tasks(const Timeline& timeline) {
  TaskSummary summary;
  summary.count = timeline.tasks.size();
  if (summary.count == 0) return summary;
  std::map<std::string_view, std::vector<double>> durations;
  std::set<std::uint32_t> places;
  const double first_ns = timeline.tasks.front().start_ns;
  double sum_ns = 0, until_ns = first_ns;
  for (const TaskSlice& task : timeline.tasks) {
    durations[task.name].push_back(task.duration_ns());
    places.insert(task.place);
    sum_ns += task.duration_ns();
    summary.busy_ns += std::max(0.0, task.end_ns - std::max(until_ns, task.start_ns));
    until_ns = std::max(until_ns, task.end_ns);
  }
  summary.places = places.size();
  summary.span_ns = until_ns - first_ns;
  summary.at_once = summary.busy_ns > 0 ? sum_ns / summary.busy_ns : 1;
  for (auto& [kernel, each] : durations) {
    std::sort(each.begin(), each.end());
    const auto at = [&](std::size_t hundredths) { return each[(each.size() - 1) * hundredths / 100]; };
    summary.kernels.push_back({std::string(kernel), each.size(), at(50), at(99), each.front(), each.back()});
  }
  return summary;
}

std::string explain_tasks(const Timeline& timeline) {
  std::string text;
  if (timeline.dropped_tasks != 0)
    text = plural(timeline.dropped_tasks, "older narrow task was dropped: there was no room for it\n",
                  "older narrow tasks were dropped: there was no room for them\n");
  const TaskSummary tasks = summarize_tasks(timeline);
  if (tasks.count == 0) return text;
  text += fmt::format("narrow tasks: {} on {} in {:.1f} us; while any ran, {:.1f} ran at once\n", tasks.count,
                      plural(tasks.places, timeline.tasks_are_resident ? "resident block" : "thread"),
                      tasks.span_ns * 1e-3, tasks.at_once);
  for (const TaskTimes& kernel : tasks.kernels)
    text += fmt::format("    {} of {}: {:.1f} us in the middle, 99 of 100 within {:.1f}, from {:.1f} to {:.1f}\n",
                        kernel.count, kernel.kernel, kernel.median_ns * 1e-3, kernel.p99_ns * 1e-3,
                        kernel.min_ns * 1e-3, kernel.max_ns * 1e-3);
  return text;
}

}  // namespace pergola::scheduler
