#include "src/scheduler/task_report.h"

#include <fmt/format.h>

#include "src/base/plural.h"

namespace pergola::scheduler {

std::string_view to_string(NoTask why) {
  switch (why) {
    case NoTask::kRecorded: return "recorded";
    case NoTask::kEvent: return "event";
    case NoTask::kSpecial: return "special";
    case NoTask::kUniversal: return "universal";
    case NoTask::kWide: return "wide";
    case NoTask::kNotTimed: return "not-timed";
    case NoTask::kLong: return "long";
    case NoTask::kMaking: return "making";
    case NoTask::kRefused: return "refused";
    case NoTask::kFailed: return "failed";
    case NoTask::kAfterHost: return "after-host";
    case NoTask::kAfterLaunch: return "after-launch";
    case NoTask::kAfterTask: return "after-task";
    case NoTask::kFewInARow: return "few-in-a-row";
    case NoTask::kDeviceBusy: return "device-busy";
    case NoTask::kNoRoom: return "no-room";
  }
  return "?";
}

std::string_view explain(NoTask why) {
  switch (why) {
    case NoTask::kRecorded: return "a history is recorded, which has the time of each launch by itself";
    case NoTask::kEvent: return "an event of the launch, which has a time, was asked for with it";
    case NoTask::kSpecial: return "cooperative, in clusters, with early start, or on managed memory";
    case NoTask::kUniversal: return "it may use any array";
    case NoTask::kWide: return "it has more warps than a resident block runs at once";
    case NoTask::kNotTimed: return "what it takes was not known, or to be looked at again";
    case NoTask::kLong: return "it was expected to take too long for a task";
    case NoTask::kMaking: return "its kernel was being compiled as a task";
    case NoTask::kRefused: return "its kernel cannot be a task";
    case NoTask::kFailed: return "other work had failed, and synchronize() had not reported it";
    case NoTask::kAfterHost: return "the host, or a library call, was using an array of it";
    case NoTask::kAfterLaunch: return "work on a stream that it had to come after was under way";
    case NoTask::kAfterTask: return "a task that it had to come after was under way";
    case NoTask::kFewInARow: return "too few launches in a row might be tasks for the resident kernel to be started";
    case NoTask::kDeviceBusy: return "the resident kernel would have waited for work that was under way";
    case NoTask::kNoRoom: return "too many tasks were under way";
  }
  return "?";
}

std::string explain(const TasksReport& report) {
  if (!report.off.empty())
    return report.off == TasksReport::kByPolicy ? "" : fmt::format("no launches become tasks: {}\n", report.off);
  std::string text;
  for (const TasksReport::Kernel& kernel : report.kernels) {
    std::uint64_t all = kernel.tally.tasks;
    for (const std::uint64_t count : kernel.tally.apart) all += count;
    text += fmt::format("tasks: {} of {} of {} ran as tasks\n", kernel.tally.tasks, plural(all, "launch"), kernel.name);
    for (std::size_t i = 0; i < kNoTaskReasons; ++i) {
      if (kernel.tally.apart[i] == 0) continue;
      const auto why = static_cast<NoTask>(i);
      text += fmt::format("  {} did not: {}{}{}\n", kernel.tally.apart[i], explain(why),
                          why == NoTask::kRefused ? ": " : "", why == NoTask::kRefused ? kernel.tally.refusal : "");
    }
  }
  return text;
}

}  // namespace pergola::scheduler
