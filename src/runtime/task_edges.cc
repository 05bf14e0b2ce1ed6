#include "src/runtime/task_edges.h"

#include <algorithm>
#include <utility>

#include "src/base/fork.h"
#include "src/device/failure.h"

namespace pergola::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds kLookFor{20}, kShortestNap{20}, kLongestNap{200};

}  // namespace

TaskEdges::~TaskEdges() {
  if (is_forked_child()) {  // which has no such thread
    if (keeper_.joinable()) keeper_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wakes_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

// ── Spawning and waiting ────────────────────────────────────────────────────────────────────────────────────────────

TaskEdges::TaskId TaskEdges::hold(Task task) {
  const bool high = task.high_priority;
  std::unique_lock lock(mutex_);
  const auto may_go = [&] { return held_ < kMostHeld && (high || high_wait_for_room_ == 0); };
  if (!may_go()) {
    high_wait_for_room_ += high ? 1 : 0;
    has_room_.wait(lock, may_go);
    high_wait_for_room_ -= high ? 1 : 0;
    if (high && high_wait_for_room_ == 0) has_room_.notify_all();
  }
  const std::uint64_t number = first_known_ + known_.size();
  known_.push_back(0);
  arrived_[high ? 0 : 1].push_back({number, std::move(task), {}});
  ++held_;
  if (!keeper_.joinable()) keeper_ = std::thread([this] { run(); });
  lock.unlock();
  wakes_.notify_all();
  return kHeldBit | number;
}

TaskEdges::TaskId TaskEdges::find(std::uint64_t number) const {
  return number < first_known_ ? kNeverRan : known_[number - first_known_];
}

Result<TaskEdges::TaskId> TaskEdges::told(TaskId id, TaskId found) {
  if (found != kNeverRan) return found;
  PERGOLA_TRY(failures_.outcome(id));
  return kNeverRan;  // long ago: it has ended
}

Result<TaskEdges::TaskId> TaskEdges::released(TaskId id) {
  const std::uint64_t number = id & ~kHeldBit;
  TaskId found = 0;
  {
    const std::lock_guard lock(mutex_);
    if (number == 0 || number >= first_known_ + known_.size())
      return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no id of a task that this pool has spawned.", id);
    found = find(number);
  }
  return told(id, found);
}

Result<TaskEdges::TaskId> TaskEdges::await_release(TaskId id, Deadline deadline) {
  PERGOLA_TRY(released(id).status());
  const std::uint64_t number = id & ~kHeldBit;
  TaskId found = 0;
  {
    std::unique_lock lock(mutex_);
    const auto is_released = [&] { return (found = find(number)) != 0; };
    if (!deadline)
      has_released_.wait(lock, is_released);
    else if (!has_released_.wait_until(lock, *deadline, is_released))
      return PERGOLA_ERROR(kTimeout, "The time is over, and the task waits for work before it.");
  }
  return told(id, found);
}

Status TaskEdges::await_all(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = first_known_ + known_.size();
  const auto are_released = [&] { return first_held_ >= end; };
  if (!deadline)
    has_released_.wait(lock, are_released);
  else if (!has_released_.wait_until(lock, *deadline, are_released))
    return PERGOLA_ERROR(kTimeout, "The time is over, and tasks wait for work before them.");
  return {};
}

std::size_t TaskEdges::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

// ── The keeper ──────────────────────────────────────────────────────────────────────────────────────────────────────

void TaskEdges::run() {
  std::unique_lock lock(mutex_);
  auto looks_until = steady_clock::now();
  microseconds nap = kShortestNap;
  const auto has_arrived = [&] { return !arrived_[0].empty() || !arrived_[1].empty(); };
  while (true) {
    wakes_.wait(lock, [&] { return held_ != 0 || stops_; });
    if (held_ == 0) return;
    has_new_ = has_new_ || has_arrived();
    for (int n = 0; n < 2; ++n) waiting_[n].splice(waiting_[n].end(), arrived_[n]);
    lock.unlock();
    if (look()) {
      looks_until = steady_clock::now() + kLookFor;
      nap = kShortestNap;
    } else if (steady_clock::now() < looks_until) {
      std::this_thread::yield();
    } else {
      lock.lock();
      wakes_.wait_for(lock, nap, has_arrived);
      nap = std::min(2 * nap, kLongestNap);
      continue;
    }
    lock.lock();
  }
}

std::shared_ptr<TaskEdges::Watch> TaskEdges::watch(const device::EventPtr& event) {
  for (const auto& watched : watches_)
    if (watched->event == event) return watched;
  return watches_.emplace_back(std::make_shared<Watch>(Watch{event, {}}));
}

bool TaskEdges::look() {
  if (std::exchange(has_new_, false))
    for (std::list<Held>& queue : waiting_)
      for (auto held = queue.rbegin(); held != queue.rend() && held->watches.empty(); ++held)
        for (const device::EventPtr& event : held->task.after) held->watches.push_back(watch(event));
  bool any = false;
  for (const auto& watched : watches_) {
    watched->outcome = watched->event->poll();
    if (!watched->outcome) continue;
    watched->event = nullptr;
    any = true;
  }
  std::erase_if(watches_, [](const auto& watched) { return watched->event == nullptr; });
  return (any || std::exchange(was_broken_off_, false)) && release_ready();
}

bool TaskEdges::high_has_arrived() const {
  const std::lock_guard lock(mutex_);
  return !arrived_[0].empty();
}

bool TaskEdges::release_ready() {
  bool any = false;
  for (std::list<Held>& queue : waiting_)
    for (auto held = queue.begin(); held != queue.end();) {
      const auto has_outcome = [](const auto& watched) { return watched->outcome.has_value(); };
      if (!std::all_of(held->watches.begin(), held->watches.end(), has_outcome)) {
        ++held;
        continue;
      }
      Held ready = std::move(*held);
      held = queue.erase(held);
      release(std::move(ready));
      any = true;
      if (high_has_arrived()) {
        was_broken_off_ = true;
        return true;
      }
    }
  return any;
}

void TaskEdges::release(Held held) {
  const TaskId id = kHeldBit | held.number;
  Status failure;
  for (const auto& watched : held.watches)
    if (failure.ok() && !watched->outcome->ok()) failure = device::skipped_because(*watched->outcome);
  TaskId given = kNeverRan;
  if (failure.ok()) {
    Result<TaskId> spawned = held.task.spawn();
    failure = spawned.status();
    if (spawned.ok()) runner_.call_by(given = *spawned, id);
  }
  if (!failure.ok())
    failures_.add(id, failure.code(), fmt::format("Kernel '{}': {}", held.task.kernel, failure.message()));
  held.task.spawn = nullptr;  // before the task counts as released: whoever has waited finds its module let go
  {
    const std::lock_guard lock(mutex_);
    known_[held.number - first_known_] = given;
    --held_;
    while (first_held_ < first_known_ + known_.size() && find(first_held_) != 0) ++first_held_;
    while (known_.size() > kMostKnown && first_known_ < first_held_ &&
           (known_.front() == kNeverRan || runner_.has_ended(known_.front()))) {
      known_.pop_front();
      ++first_known_;
    }
  }
  has_room_.notify_all();
  has_released_.notify_all();
}

}  // namespace pergola::runtime
