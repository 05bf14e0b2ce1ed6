// Launches that run as tasks (task_launches.h): the scheduler's side.
#include <algorithm>

#include "src/base/deadline.h"
#include "src/base/left_to_process.h"
#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {

std::optional<Status> TaskEvent::poll() {
  const Result<bool> ended = host_->check(id_);
  if (!ended.ok()) return ended.status();
  if (!*ended) return std::nullopt;
  return Status();
}

Result<double> TaskEvent::elapsed_ns(const device::Event&) {
  return PERGOLA_ERROR(kUnsupported,
                       "A launch that ran as a task (tasks=small) has no time of its own: ask for its event with the "
                       "launch, or record one before and one behind it.");
}

void Scheduler::set_task_host(std::shared_ptr<TaskHost> host) {
  const std::lock_guard lock(mutex_);
  if (tasks_ != nullptr) tasks_->host = std::move(host);
}

void Scheduler::set_task_bounds(const TaskBounds& bounds) {
  const std::lock_guard lock(mutex_);
  if (tasks_ != nullptr) tasks_->bounds = bounds;
}

// ── Which launches ──────────────────────────────────────────────────────────────────────────────────────────────────

Result<bool> Scheduler::offer_task(const Work& work, bool wants_event, TaskForms& forms, Ticket* ticket) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  std::shared_ptr<TaskForm> form;
  std::optional<NoTask> why;
  for (const bool again : {false, true}) {
    why = reason_for_no_task(work, wants_event, forms, form);
    if (!again) count_in_a_row(why);
    if (!why) why = reason_to_keep_device();
    if (why) break;
    Result<TaskId> id = form->try_spawn(work.call->parameters);
    if (id.ok() && *id != 0) {
      note_task(work, *id, ticket);
      return true;
    }
    why = NoTask::kNoRoom;
    if (again) break;
    lock.unlock();  // and what was seen may be so no longer
    const Status ready = form->get_ready();
    lock.lock();
    if (!ready.ok()) break;
  }
  TaskTally& tally = tally_of(*work.site);
  ++tally.apart[static_cast<std::size_t>(*why)];
  if (*why == NoTask::kRefused && tally.refusal.empty()) tally.refusal = form->refusal();
  return false;
}

// Sets `form` where it comes to that.
std::optional<NoTask> Scheduler::reason_for_no_task(const Work& work, bool wants_event, TaskForms& forms,
                                                    std::shared_ptr<TaskForm>& form) {
  if (recorder_ != nullptr && recorder_->wants_each_kernel()) return NoTask::kRecorded;
  if (wants_event) return NoTask::kEvent;
  if (work.call == nullptr || work.prepare != nullptr)
    return NoTask::kSpecial;  // nobody would prepare the task's queue
  if (work.universal != Mode::kNone) return NoTask::kUniversal;
  const device::LaunchConfig& config = work.call->config;
  const std::uint64_t blocks = config.grid.count(), block_warps = (config.block.count() + 31) / 32;
  if (blocks > tasks_->bounds.most_warps || blocks * block_warps > tasks_->bounds.most_warps) return NoTask::kWide;
  const double expected_ns = durations_.expected_elsewhere_ns(work);
  if (expected_ns == kUnknownDurationNs) return NoTask::kNotTimed;
  if (expected_ns > tasks_->bounds.most_ns) return NoTask::kLong;
  form = forms.of(config);
  switch (form->state()) {
    case TaskForm::State::kMaking: return NoTask::kMaking;
    case TaskForm::State::kRefused: return NoTask::kRefused;
    case TaskForm::State::kReady: break;
  }
  if (!failure_.ok() || !skip_.ok()) return NoTask::kFailed;
  if (blocked_by_host(work.accesses, Mode::kNone)) return NoTask::kAfterHost;
  launch_held();
  if (has_parents(work)) return NoTask::kAfterLaunch;
  if (blocking_task(work.accesses, Mode::kNone) != 0) return NoTask::kAfterTask;
  return failure_.ok() ? std::nullopt : std::optional(NoTask::kFailed);  // one that has just been found
}

// Whether work on a stream that `work` has to come after is under way; the device is asked.
bool Scheduler::has_parents(const Work& work) {
  Dependencies parents = parents_under_way(work.accesses, Mode::kNone, true);
  const bool any = !parents.empty();
  release(parents, pool_);
  return any;
}

// To be released. The device is asked what has ended.
Dependencies Scheduler::parents_under_way(std::span<const Access> accesses, Mode universal, bool among_launches) {
  for (const bool asked : {false, true}) {
    Dependencies parents;
    bool any_write = false;
    for (const Access& access : accesses) {
      const Mode mode = among_launches ? mode_among_launches(access.mode) : access.mode;
      any_write = any_write || writes(mode);
      access.resource->collect(access.range, mode, parents);
    }
    universal_dependencies(universal, any_write, parents);
    if (parents.empty() || asked) return parents;
    for (const Dependency& dependency : parents) poll(*dependency.parent->stream);
    release(parents, pool_);
  }
  return {};
}

namespace {

std::string_view name_of(const Computation& work) {
  return work.site == nullptr ? std::string_view() : std::string_view(work.site->name);
}

}  // namespace

Result<Predecessors> Scheduler::predecessors(std::span<const Access> accesses, Mode universal) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(await_turn(lock, {.accesses = accesses, .universal = universal}));
  launch_held();
  Dependencies parents = parents_under_way(accesses, universal, false);
  Predecessors events;
  Status status = failure_.ok() && skip_.ok() ? Status() : tell_failure();
  for (const Dependency& dependency : parents) {
    if (!status.ok() || has_ended(*dependency.parent)) continue;
    const Result<MarkPtr> mark = mark_of(*dependency.parent, MarkFor::kHost);
    if (!mark.ok())
      status = mark.status();
    else if (std::ranges::find(events, (*mark)->event, &Predecessor::end) == events.end())
      events.push_back({(*mark)->event, name_of(*dependency.parent)});
  }
  release(parents, pool_);
  PERGOLA_TRY(status);
  return events;
}

// Starting the resident kernel and sending it away takes as long as several launches.
void Scheduler::count_in_a_row(std::optional<NoTask> why) {
  if (!why || *why == NoTask::kAfterTask)
    tasks_->in_a_row = std::min(tasks_->in_a_row, ~0u - 1) + 1;
  else
    tasks_->in_a_row = 0;
}

std::optional<NoTask> Scheduler::reason_to_keep_device() {
  if (tasks_->host == nullptr || !tasks_->host->would_start_kernel()) return std::nullopt;
  if (tasks_->in_a_row <= tasks_->bounds.launches_in_a_row) return NoTask::kFewInARow;
  for (const auto& stream : streams_)
    if (!stream->idle() && !ask_idle(*stream)) return NoTask::kDeviceBusy;
  return failure_.ok() ? std::nullopt : std::optional(NoTask::kFailed);
}

TaskTally& Scheduler::tally_of(WorkSite& site) {
  if (site.tasks == nullptr) site.tasks = std::make_unique<TaskTally>();
  return *site.tasks;
}

void Scheduler::note_task(const Work& work, TaskId id, Ticket* ticket) {
  for (const Access& access : work.accesses) {
    TaskUses& uses = access.resource->tasks();
    if (writes(mode_among_launches(access.mode))) {
      uses.writer = id;
      uses.readers.clear();  // all before it have ended
      continue;
    }
    if (uses.readers.size() >= uses.prune_at) {
      std::erase_if(uses.readers, [&](TaskId reader) { return task_has_ended(reader); });
      uses.prune_at = std::max<std::size_t>(64, 2 * uses.readers.size());
    }
    uses.readers.push_back(id);
  }
  if (tasks_->open.size() >= tasks_->prune_at) {
    forget_ended_tasks();
    tasks_->prune_at = std::max<std::size_t>(1024, 2 * tasks_->open.size());
  }
  tasks_->open.push_back(id);
  if (ticket != nullptr) *ticket = kTaskTicket | tasks_->spawned;
  tasks_->tickets[tasks_->spawned++ % TaskLaunches::kTickets] = id;
  durations_.count_elsewhere(work);
  ++tally_of(*work.site).tasks;
}

// ── What comes after them ───────────────────────────────────────────────────────────────────────────────────────────

bool Scheduler::task_has_ended(TaskId id) {
  if (tasks_->host == nullptr) return true;  // end_tasks() has waited for all
  const Result<bool> ended = tasks_->host->check(id);
  if (!ended.ok()) learn_end_of_task(id, ended.status());
  return !ended.ok() || *ended;
}

// A failure is noted once, by whoever finds it first.
void Scheduler::learn_end_of_task(TaskId id, const Status& outcome) {
  if (std::erase(tasks_->open, id) != 0) note_end_of_task(outcome);
}

void Scheduler::note_end_of_task(const Status& outcome) {
  note_failure(outcome);
  if (tasks_->failed.ok()) tasks_->failed = outcome;
}

void Scheduler::forget_ended_tasks() {
  std::erase_if(tasks_->open, [&](TaskId id) {
    const Result<bool> ended = tasks_->host->check(id);
    if (!ended.ok()) note_end_of_task(ended.status());
    return !ended.ok() || *ended;
  });
}

// One under way that has to end before, and is not among those of `behind`; 0: there is none.
TaskId Scheduler::blocking_task(std::span<const Access> accesses, Mode universal, const BehindTasks* behind) {
  if (tasks_ == nullptr || tasks_->open.empty()) return 0;
  const auto is_covered = [&](TaskId id) { return behind != nullptr && behind->covers(id); };
  if (universal != Mode::kNone) {
    forget_ended_tasks();
    const auto blocks = std::find_if_not(tasks_->open.rbegin(), tasks_->open.rend(), is_covered);
    return blocks == tasks_->open.rend() ? 0 : *blocks;
  }
  for (const Access& access : accesses) {
    TaskUses& uses = access.resource->tasks();
    if (access.mode == Mode::kNone) continue;
    if (uses.writer != 0) {
      if (task_has_ended(uses.writer))
        uses.writer = 0;
      else if (!is_covered(uses.writer))
        return uses.writer;
    }
    if (!writes(mode_among_launches(access.mode))) continue;
    for (std::size_t n = uses.readers.size(); n-- > 0;) {
      if (task_has_ended(uses.readers[n]))
        uses.readers.erase(uses.readers.begin() + static_cast<std::ptrdiff_t>(n));
      else if (!is_covered(uses.readers[n]))
        return uses.readers[n];
    }
  }
  return 0;
}

bool Scheduler::comes_after_tasks(const Work& work) {
  const std::lock_guard lock(mutex_);
  return blocking_task(work.accesses, work.universal) != 0;
}

// What is before it there can be waited for without it.
Status Scheduler::wait_for_tasks(const BehindTasks& behind, Stream& stream) {
  if (stream.tail != nullptr && stream.tail->mark == nullptr && !has_ended(*stream.tail))
    PERGOLA_TRY(record_on(stream).status());
  return stream.queue->wait_for_gate(behind.gate, behind.number);
}

// Until neither the host nor a task keeps the work from its place. Gives the lock up meanwhile.
Status Scheduler::await_turn(StateLock& lock, const Work& work, Deadline deadline) {
  while (true) {
    if (!host_accesses_.empty() && blocked_by_host(work.accesses, work.universal))
      PERGOLA_TRY(await_hosts(lock, work, deadline));
    const TaskId task = blocking_task(work.accesses, work.universal, work.behind);
    if (task == 0) return {};
    PERGOLA_TRY(await_task(lock, task, work.held_from_tasks, deadline));
  }
}

Status Scheduler::await_all_tasks(StateLock& lock, Deadline deadline) {
  const Work all{.universal = Mode::kReadWrite};
  while (const TaskId task = blocking_task(all.accesses, all.universal))
    PERGOLA_TRY(await_task(lock, task, nullptr, deadline));
  return {};
}

// kTimeout where it goes on; its failure is noted.
Status Scheduler::await_task(StateLock& lock, TaskId id, HeldFromTasks* held, Deadline deadline) {
  const std::shared_ptr<TaskHost> host = tasks_->host;
  ++counters_.host_waits;
  lock.unlock();
  if (held != nullptr) held->release();
  Status ended = host->wait(id, left_until(deadline));
  Status acquired = held != nullptr ? held->acquire() : Status();
  lock.lock();
  if (ended.code() == Code::kTimeout) return ended;
  learn_end_of_task(id, ended);
  return acquired;
}

void Scheduler::end_tasks(bool waits) {
  std::unique_lock lock(mutex_);
  if (tasks_ == nullptr) return;
  if (waits) {
    (void)await_all_tasks(lock);  // what failed is noted
  } else {
    for (BehindHeld& each : behind_held_) {
      const TaskUses& uses = each.resource->tasks();
      const auto goes_on = [this](TaskId task) { return task != 0 && !task_has_ended(task); };
      if (goes_on(uses.writer) || std::ranges::any_of(uses.readers, goes_on))
        leave_to_the_process(std::move(each.memory));
    }
    for (Retired& retired : retired_) {
      std::erase_if(retired.tasks, [&](TaskId task) { return task_has_ended(task); });
      if (!retired.tasks.empty()) leave_to_the_process(std::move(retired.memory));
    }
    tasks_->open.clear();
  }
  tasks_->host = nullptr;
}

// ── What is told of them ────────────────────────────────────────────────────────────────────────────────────────────

// Null: all work so far comes behind it.
device::EventPtr Scheduler::event_of_task(Ticket ticket) {
  const std::uint64_t number = ticket & ~kTaskTicket;
  if (tasks_ == nullptr || number >= tasks_->spawned || number + TaskLaunches::kTickets < tasks_->spawned)
    return nullptr;
  return std::make_shared<TaskEvent>(tasks_->host, tasks_->tickets[number % TaskLaunches::kTickets]);
}

TasksReport Scheduler::tasks_locked() const {
  TasksReport report;
  if (policy_.tasks == Tasks::kOff) return report;
  report.off = tasks_ == nullptr ? "the policy is execution=sync, by which each launch is waited for" : "";
  for (const auto& [name, site] : sites_)
    if (site->tasks != nullptr) report.kernels.push_back({name, *site->tasks});
  return report;
}

}  // namespace pergola::scheduler
