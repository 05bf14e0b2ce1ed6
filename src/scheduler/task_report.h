// Which launches ran as tasks (task_launches.h) and why others did not: as values and in words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pergola::scheduler {

// Why a launch of a session with tasks=small goes to a stream. In this order they are looked at.
enum class NoTask : std::uint8_t {
  kRecorded,     // a history is recorded, which has each launch's time by itself
  kEvent,        // an event of it is asked for at once, which has a time
  kSpecial,      // cooperative, in clusters, with early start, or on managed memory
  kUniversal,    // it may use any array
  kWide,         // more warps than a resident block runs at once
  kNotTimed,     // what it takes is not known, or to be looked at again
  kLong,         // it is expected to take too long
  kMaking,       // its kernel is being compiled as a task
  kRefused,      // its kernel cannot be a task
  kFailed,       // work has failed, and synchronize() has not reported it
  kAfterHost,    // the host, or a library call, uses an array of it
  kAfterLaunch,  // work on a stream that it has to come after is under way
  kAfterTask,    // a task that it has to come after is under way
  kFewInARow,    // the resident kernel would be started for too few of its kind
  kDeviceBusy,   // the resident kernel would have to wait for work that is under way
  kNoRoom,       // too many tasks are under way
};
inline constexpr std::size_t kNoTaskReasons = 16;
std::string_view to_string(NoTask why);  // "recorded" "event" "special" and so on
std::string_view explain(NoTask why);    // as a clause: "an array of it was in use by the host"

// Of one kernel; guarded by the scheduler's lock.
struct TaskTally {
  std::uint64_t tasks = 0;
  std::array<std::uint64_t, kNoTaskReasons> apart{};  // by NoTask
  std::string refusal;                                // of kRefused: why
  bool operator==(const TaskTally&) const = default;
};

struct TasksReport {
  static constexpr std::string_view kByPolicy = "the policy is tasks=off";
  std::string off{kByPolicy};  // why no launch may be a task; "" where they may
  struct Kernel {
    std::string name;
    TaskTally tally;
    bool operator==(const Kernel&) const = default;
  };
  std::vector<Kernel> kernels;  // of which a launch might have been one
  bool operator==(const TasksReport&) const = default;
};

// For people: a paragraph a kernel. "" where the policy is tasks=off, or there are none.
std::string explain(const TasksReport& report);

}  // namespace pergola::scheduler
