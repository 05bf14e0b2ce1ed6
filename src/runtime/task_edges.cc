#include "src/runtime/task_edges.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/fork.h"
#include "src/base/log.h"
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
  arrived_[high ? 0 : 1].push_back({number, std::move(task), steady_clock::now(), {}});
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

bool TaskEdges::is_idle() const {
  const std::lock_guard lock(mutex_);
  return held_ == 0 && followed_.empty();
}

std::uint64_t TaskEdges::moves() const {
  const std::lock_guard lock(mutex_);
  return moves_;
}

bool TaskEdges::refuse_held(steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  refuses_ = true;
  wakes_.notify_all();
  return has_released_.wait_until(lock, deadline, [this] { return held_ == 0; });
}

// The keeper may go on: it takes gates away, and to open one again is nothing.
void TaskEdges::open_all() {
  const std::lock_guard lock(mutex_);
  for (const Followed& each : followed_) each.gate->open(each.number);
}

TaskEdges::SoFar TaskEdges::so_far() const {
  const std::lock_guard lock(mutex_);
  SoFar tasks;
  for (std::uint64_t number = std::max(first_held_, first_known_); number < first_known_ + known_.size(); ++number)
    if (find(number) == 0) tasks.held.push_back(number);
  tasks.open = runner_.open();
  return tasks;
}

bool TaskEdges::have_ended(const SoFar& tasks) const {
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t number : tasks.held) {
      const TaskId id = find(number);
      if (id == 0 || (id != kNeverRan && !runner_.has_ended(id))) return false;
    }
  }
  return runner_.have_ended(tasks.open);
}

// ── Work behind tasks ───────────────────────────────────────────────────────────────────────────────────────────────

Status TaskEdges::use_gates(const device::DevicePtr& device) {
  PERGOLA_ASSIGN(device::GatePtr first, device->create_gate());
  free_gates_.push_back({.gate = std::move(first)});
  device_ = device;
  return {};
}

// Closed for its next number.
std::optional<TaskEdges::Followed> TaskEdges::take_gate() {
  Followed taken;
  {
    const std::lock_guard lock(mutex_);
    if (followed_.size() >= kMostFollowed) return std::nullopt;
    if (!free_gates_.empty()) {
      taken = std::move(free_gates_.back());
      free_gates_.pop_back();
    }
  }
  if (taken.gate == nullptr) {
    Result<device::GatePtr> made = device_->create_gate();
    if (!made.ok()) return std::nullopt;
    taken.gate = *std::move(made);
  }
  ++taken.number;
  return taken;
}

TaskEdges::Behind TaskEdges::behind(const Followed& followed) const {
  Behind behind;
  behind.gate = followed.gate;
  behind.number = followed.number;
  behind.covers = [open = followed.open, covers = &runner_.covers](TaskId id) { return (*covers)(*open, id); };
  behind.stay = stays_left_ + 1;
  return behind;
}

// The last that is followed, where nothing has been spawned since.
std::optional<TaskEdges::Behind> TaskEdges::find_same(const Open& open) const {
  if (followed_.empty()) return std::nullopt;
  const Followed& last = followed_.back();
  if (last.end_of_held != first_known_ + known_.size()) return std::nullopt;
  const bool same = runner_.stay != nullptr ? *last.open == open : std::ranges::includes(*last.open, open);
  return same ? std::optional(behind(last)) : std::nullopt;
}

std::optional<TaskEdges::Behind> TaskEdges::follow() {
  if (!has_gates()) return std::nullopt;
  const bool resident = runner_.stay != nullptr;
  std::unique_lock following(following_, std::defer_lock);
  if (resident) {
    (void)await_all(std::nullopt);
    following.lock();
  }
  std::optional<Followed> taken = take_gate();
  if (!taken) return std::nullopt;
  std::unique_lock lock(mutex_);
  if (resident && !stays_) {
    lock.unlock();
    const bool stays = runner_.stay();
    lock.lock();
    stays_ = stays;
    if (stays) has_asked_.wait(lock, [this] { return !asks_; });
  }
  Open open = runner_.open();
  const bool refuses = resident && (!stays_ || leaves_);
  std::optional<Behind> given = refuses ? std::nullopt : find_same(open);
  if (refuses || given) {
    --taken->number;
    free_gates_.push_back(*std::move(taken));
    return given;
  }
  taken->end_of_held = first_known_ + known_.size();
  taken->held.clear();
  for (std::uint64_t number = std::max(first_held_, first_known_); !resident && number < taken->end_of_held; ++number)
    if (find(number) == 0) taken->held.push_back(number);
  taken->open = std::make_shared<const Open>(std::move(open));
  taken->has_ended = false;
  given = behind(*taken);
  followed_.push_back(*std::move(taken));
  if (!keeper_.joinable()) keeper_ = std::thread([this] { run(); });
  lock.unlock();
  wakes_.notify_all();
  return given;
}

std::optional<TaskEdges::Behind> TaskEdges::join() {
  const std::lock_guard lock(mutex_);
  if (!stays_ || leaves_ || followed_.empty()) return std::nullopt;
  return behind(followed_.back());
}

bool TaskEdges::has_left(const Behind& behind) const {
  const std::lock_guard lock(mutex_);
  return runner_.stay != nullptr && stays_left_ >= behind.stay;
}

// The keeper's: whether anything has happened.
bool TaskEdges::look_at_followed() {
  std::vector<std::pair<std::size_t, std::shared_ptr<const Open>>> asked;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t n = 0; n < followed_.size(); ++n) {
      Followed& each = followed_[n];
      if (each.has_ended || (!each.held.empty() && first_held_ < each.end_of_held)) continue;
      if (!each.held.empty()) take_released(each);
      asked.emplace_back(n, each.open);
    }
  }
  for (const auto& [n, open] : asked) {
    if (!runner_.have_ended(*open)) continue;
    const std::lock_guard lock(mutex_);
    followed_[n].has_ended = true;  // only this thread takes any away
    any = true;
  }
  if (runner_.stay == nullptr) {
    if (any) open_ended();
    return any;
  }
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = leaves_ || any;
    const auto has_ended = [](const Followed& each) { return each.has_ended; };
    all = leaves_ && std::all_of(followed_.begin(), followed_.end(), has_ended);
  }
  if (all) leave();
  return any;
}

// All that it had held have their own ids by now: they alone come to `open`, and none that was spawned later.
void TaskEdges::take_released(Followed& followed) const {
  Open open = *followed.open;
  for (const std::uint64_t number : std::exchange(followed.held, {}))
    if (const TaskId id = find(number); id != kNeverRan) open.push_back(id);
  std::sort(open.begin(), open.end());
  followed.open = std::make_shared<const Open>(std::move(open));
}

void TaskEdges::open_ended() {
  const std::lock_guard lock(mutex_);
  for (Followed& each : followed_) {
    if (!each.has_ended) continue;
    each.gate->open(each.number);
    ++moves_;
    free_gates_.push_back(each);
  }
  std::erase_if(followed_, [](const Followed& each) { return each.has_ended; });
}

void TaskEdges::leave() {
  runner_.leave([&] {
    {
      const std::lock_guard lock(mutex_);
      ++stays_left_;
    }
    open_ended();
  });
  const std::lock_guard lock(mutex_);
  stays_ = leaves_ = false;
}

// ── The keeper ──────────────────────────────────────────────────────────────────────────────────────────────────────

void TaskEdges::run() {
  std::unique_lock lock(mutex_);
  auto looks_until = steady_clock::now();
  microseconds nap = kShortestNap;
  const auto has_arrived = [&] { return !arrived_[0].empty() || !arrived_[1].empty(); };
  while (true) {
    wakes_.wait(lock, [&] { return held_ != 0 || !followed_.empty() || stops_; });
    if (held_ == 0 && followed_.empty()) return;
    const std::size_t followed = followed_.size();
    const bool refuses = refuses_;
    asks_ = !stays_ && !refuses;
    has_new_ = has_new_ || has_arrived();
    for (int n = 0; n < 2; ++n) waiting_[n].splice(waiting_[n].end(), arrived_[n]);
    lock.unlock();
    if (refuses) refuse();
    const bool released = asks_ && look();
    lock.lock();
    asks_ = false;
    lock.unlock();
    has_asked_.notify_all();
    const bool opened = look_at_followed();
    if (released || opened) {
      looks_until = steady_clock::now() + kLookFor;
      nap = kShortestNap;
    } else if (steady_clock::now() < looks_until) {
      std::this_thread::yield();
    } else {
      lock.lock();
      wakes_.wait_for(lock, nap,
                      [&] { return has_arrived() || followed_.size() > followed || (refuses_ && held_ != 0); });
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
        for (const scheduler::Predecessor& work : held->task.after) held->watches.push_back(watch(work.end));
  bool any = false;
  for (const auto& watched : watches_) {
    watched->outcome = watched->event->poll();
    if (!watched->outcome) continue;
    watched->event = nullptr;
    any = true;
  }
  std::erase_if(watches_, [](const auto& watched) { return watched->event == nullptr; });
  const bool goes_on = std::exchange(was_broken_off_, false);
  return (any || goes_on) && release_ready(goes_on);
}

bool TaskEdges::high_has_arrived() const {
  const std::lock_guard lock(mutex_);
  return !arrived_[0].empty();
}

// A task of high priority that has been spawned before the work ended is looked for after the work has been seen to
// end, hence goes before the others. Of these one goes before the next break, or they might never.
bool TaskEdges::release_ready(bool goes_on) {
  bool any = false;
  for (std::list<Held>& queue : waiting_)
    for (auto held = queue.begin(); held != queue.end();) {
      const auto has_outcome = [](const auto& watched) { return watched->outcome.has_value(); };
      if (!std::all_of(held->watches.begin(), held->watches.end(), has_outcome)) {
        ++held;
        continue;
      }
      const bool is_high = &queue == &waiting_[0];
      if (!is_high && !std::exchange(goes_on, false) && high_has_arrived()) {
        was_broken_off_ = true;
        return true;
      }
      Held ready = std::move(*held);
      held = queue.erase(held);
      release(std::move(ready));
      any = true;
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
  end_held(held, given);
}

void TaskEdges::end_held(const Held& held, TaskId given) {
  {
    const std::lock_guard lock(mutex_);
    known_[held.number - first_known_] = given;
    --held_;
    ++moves_;
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

// ── The session's end ───────────────────────────────────────────────────────────────────────────────────────────────

// "it has waited for 'spin' for 2.1 s".
std::string TaskEdges::refusal(const Held& held) {
  std::string names;
  for (std::size_t n = 0; n < held.task.after.size(); ++n) {
    const bool ended = n < held.watches.size() && held.watches[n]->outcome.has_value();
    if (ended || held.task.after[n].name.empty()) continue;
    names += fmt::format("{}'{}'", names.empty() ? "" : " and ", held.task.after[n].name);
  }
  return fmt::format("it has waited for {} for {:.1f} s", names.empty() ? "work on a stream" : names,
                     std::chrono::duration<double>(steady_clock::now() - held.since).count());
}

// The watches keep their events: whoever destroys them asks a driver.
void TaskEdges::refuse() {
  std::map<std::string_view, std::size_t> kernels;
  std::string first;
  std::size_t all = 0;
  for (std::list<Held>& queue : waiting_)
    for (Held& held : queue) {
      const std::string why = refusal(held);
      failures_.add(kHeldBit | held.number, Code::kSkipped,
                    fmt::format("Kernel '{}': This work is not run, because its session ends: {}, and that goes on.",
                                held.task.kernel, why));
      if (all++ == 0) first = fmt::format("of the first, {:#x}, {}", kHeldBit | held.number, why);
      ++kernels[held.task.kernel];
    }
  if (all != 0) {
    std::vector<std::string> named;
    for (const auto& [kernel, count] : kernels) named.push_back(fmt::format("{} of '{}'", count, kernel));
    PERGOLA_WARN(
        "{} narrow task{} not run, because their session ends and the work before them gets nowhere: {}; {}. "
        "PERGOLA_END_GRACE_MS is how long that is borne.",
        all, all == 1 ? " is" : "s are", fmt::join(named, ", "), first);
  }
  for (std::list<Held>& queue : waiting_)
    while (!queue.empty()) {
      Held held = std::move(queue.front());
      queue.pop_front();
      held.task.spawn = nullptr;
      end_held(held, kNeverRan);
    }
}

}  // namespace pergola::runtime
