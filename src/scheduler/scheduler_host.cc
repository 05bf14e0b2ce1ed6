// Accesses of the host to arrays (paper 003, IV-A): the scheduler's side. An access waits for what it depends on, and
// is a vertex of the DAG only for others, for as long as it lives.
#include <algorithm>
#include <chrono>

#include "src/base/wait_check.h"
#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {

Dependencies Scheduler::host_parents(const Access& access) {
  Dependencies parents;
  if (comes_after_nothing()) return parents;
  access.resource->collect(access.range, access.mode, parents);
  universal_dependencies(Mode::kNone, writes(access.mode), parents);
  return parents;
}

namespace {

bool conflict(const Access& host, std::span<const Access> accesses, Mode universal) {
  if (writes(universal) || (reads(universal) && writes(host.mode))) return true;
  return std::ranges::any_of(accesses, [&](const Access& access) {
    return access.resource == host.resource && access.range.overlaps(host.range) &&
           (writes(access.mode) || writes(host.mode));
  });
}

}  // namespace

bool Scheduler::blocked_by_host(std::span<const Access> accesses, Mode universal) const {
  return std::ranges::any_of(host_accesses_,
                             [&](const auto& host) { return conflict(host.second, accesses, universal); });
}

bool Scheduler::in_the_way_of_waiting(const Access& access) const {
  return std::ranges::any_of(behind_host_,
                             [&](const Work* work) { return conflict(access, work->accesses, work->universal); });
}

void Scheduler::let_go_before(const Access& access) {
  const std::lock_guard lock(mutex_);
  if (refuse_inside_call().ok()) launch_held_before(std::span(&access, 1));
}

Scheduler::HostAccess Scheduler::register_host_access(const Access& access) {
  host_accesses_.emplace_back(++last_host_access_, access);
  if (access.mode == Mode::kWrite) access.resource->overwritten_by_host(access.range, pool_);
  if (recorder_ != nullptr)
    recorder_->open_access(last_host_access_,
                           open_host(writes(access.mode) ? HostKind::kWrite : HostKind::kRead, access));
  return HostAccess(this, last_host_access_);
}

// Of one that is over with its call.
void Scheduler::note_short_access(const Access& access, std::optional<HostAccess>& told) {
  if (recorder_ != nullptr)
    told.emplace(register_host_access(access));
  else if (access.mode == Mode::kWrite)
    access.resource->overwritten_by_host(access.range, pool_);
}

void Scheduler::end_host_access(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(host_accesses_, [&](const auto& host) { return host.first == id; });
  if (recorder_ != nullptr) recorder_->close_access(id);
  host_access_ended_.notify_all();
}

// Asks the device where `ask`.
bool Scheduler::is_free_for_host(const Access& access, bool ask, bool keeps_others_away) {
  launch_held_before(std::span(&access, 1));
  if (!refuse_inside_call().ok() || blocked_by_host(std::span(&access, 1), Mode::kNone)) return false;
  if (keeps_others_away && in_the_way_of_waiting(access)) return false;
  if (blocking_task(std::span(&access, 1), Mode::kNone) != 0) return false;
  for (const bool asked : {false, true}) {
    Dependencies parents = host_parents(access);
    if (parents.empty()) return failure_.ok() && skip_.ok();
    const bool asks = ask && !asked;
    if (asks)
      for (const Dependency& dependency : parents) poll(*dependency.parent->stream);
    release(parents, pool_);
    if (!asks) break;
  }
  return false;
}

Scheduler::HostAccess Scheduler::try_host_access(const Access& access, bool ask) {
  const std::lock_guard lock(mutex_);
  return is_free_for_host(access, ask, true) ? register_host_access(access) : HostAccess();
}

bool Scheduler::try_short_host_access(const Access& access) {
  std::optional<HostAccess> told;  // ends without the lock
  const std::lock_guard lock(mutex_);
  if (!is_free_for_host(access, false, false)) return false;
  note_short_access(access, told);
  return true;
}

// A thread that reads an array again and again would keep away another's launch that writes it, for hundreds of
// milliseconds: an access begins behind what waits for earlier ones to end. These wait for nothing, but for a library
// call's function, which counts as an access and may be waiting for the very thread that comes here: then only so long.
Status Scheduler::give_way(StateLock& lock, const Access& access, Deadline deadline) {
  using std::chrono::steady_clock;
  constexpr steady_clock::duration kBesideCalls = std::chrono::milliseconds(10);
  while (in_the_way_of_waiting(access)) {
    const steady_clock::duration left = deadline ? *deadline - steady_clock::now() : steady_clock::duration::max();
    if (left <= steady_clock::duration::zero())
      return PERGOLA_ERROR(kTimeout, "Other threads were at the array, or waited for it, all of the time.");
    const bool is_free =
        host_access_ended_.wait_for(lock, std::min(left, kBesideCalls), [&] { return !in_the_way_of_waiting(access); });
    if (!is_free && calls_under_way_ != 0) break;
  }
  return {};
}

// Until no access of the host is in the way of `work`. One is over soon, but that of a library call's function, which
// takes as long as that does: kTimeout where it goes on then, and what the thread's check says.
Status Scheduler::await_hosts(StateLock& lock, const Work& work, Deadline deadline) {
  using std::chrono::steady_clock;
  const auto is_free = [&] { return !blocked_by_host(work.accesses, work.universal); };
  const bool is_asked = wait_check.function != nullptr;
  bool was_asked = false;
  Status status;
  behind_host_.push_back(&work);
  while (status.ok() && !is_free()) {
    if (!deadline && !is_asked) {
      host_access_ended_.wait(lock, is_free);
      break;
    }
    const steady_clock::time_point now = steady_clock::now(), look = now + WaitCheck::kEach;
    if (deadline && *deadline <= now) {
      status = PERGOLA_ERROR(kTimeout, "Another thread's library call, or its host, was at the array all of the time.");
      break;
    }
    const bool has_ended = host_access_ended_.wait_until(lock, deadline ? std::min(*deadline, look) : look, is_free);
    // Once it takes long, at its end as well: who is to stop by then queues nothing.
    if (!is_asked || (has_ended && !was_asked)) continue;
    was_asked = true;
    // The check may use the same bytes itself, or wait for who does: nobody gives way to this meanwhile.
    std::erase(behind_host_, &work);
    host_access_ended_.notify_all();
    lock.unlock();
    status = wait_check.ask();
    lock.lock();
    behind_host_.push_back(&work);
  }
  std::erase(behind_host_, &work);
  host_access_ended_.notify_all();
  return status;
}

Result<Scheduler::HostAccess> Scheduler::begin_host_access(const Access& access, Deadline deadline,
                                                           std::size_t most_waits) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(give_way(lock, access, deadline));
  // Again from the start where another thread has submitted something in between.
  for (std::size_t waits = 0;; ++waits) {
    PERGOLA_TRY(await_turn(lock, {.accesses = std::span(&access, 1)}, deadline));
    launch_held_before(std::span(&access, 1));
    Dependencies parents = host_parents(access);
    if (parents.empty()) {
      PERGOLA_TRY(tell_failure());
      return register_host_access(access);
    }
    if (waits == most_waits) {
      release(parents, pool_);
      PERGOLA_TRY(tell_failure());
      return HostAccess();
    }
    PERGOLA_TRY(wait_for_parents(lock, access, parents, deadline));
  }
}

Status Scheduler::await_turn_of(std::span<const Access> accesses, Deadline deadline) {
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(refuse_inside_call());
  return await_turn(lock, {.accesses = accesses}, deadline);
}

Status Scheduler::await_access(const Access& access, Deadline deadline) {
  std::optional<HostAccess> told;  // ends without the lock
  std::unique_lock lock(mutex_);
  PERGOLA_TRY(await_contents(lock, access, deadline));
  note_short_access(access, told);
  return {};
}

Status Scheduler::await_contents(const Access& access, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return await_contents(lock, access, deadline);
}

Status Scheduler::await_contents(StateLock& lock, const Access& access, Deadline deadline) {
  PERGOLA_TRY(await_uses(lock, access, deadline));
  return tell_failure();
}

Status Scheduler::await_uses(const Access& access, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return await_uses(lock, access, deadline);
}

Status Scheduler::await_uses(StateLock& lock, const Access& access, Deadline deadline) {
  PERGOLA_TRY(refuse_inside_call());
  PERGOLA_TRY(await_turn(lock, {.accesses = std::span(&access, 1)}, deadline));
  launch_held_before(std::span(&access, 1));
  Dependencies parents = host_parents(access);
  if (!parents.empty()) PERGOLA_TRY(wait_for_parents(lock, access, parents, deadline));
  return {};
}

// A vertex of pictures, as it must wait. One that waits a while at a time, as a thread of Python does, is one.
void Scheduler::log_host_wait(const Access& access, const Dependencies& parents) {
  if (!parents.empty() && log_.ends_with_host_wait_for(parents.front().parent->id)) return;
  DagVertex& vertex = log_.next();
  vertex.id = pool_.next_id();
  vertex.name = writes(access.mode) ? "host write" : "host read";
  vertex.kind = WorkKind::kHostAccess;
  vertex.stream = DagVertex::kNoStream;
  for (const Dependency& parent : parents)
    vertex.add({parent.parent->id, parent.resource, parent.hazard, Order::kEvent});
}

// Takes the parents away. Gives the lock up meanwhile.
Status Scheduler::wait_for_parents(StateLock& lock, const Access& access, Dependencies& parents, Deadline deadline) {
  boost::container::small_vector<MarkPtr, 4> marks;
  Status status;
  for (const Dependency& dependency : parents) {
    Result<MarkPtr> mark = mark_of(*dependency.parent, MarkFor::kHost);
    if (mark.ok())
      marks.push_back(*mark);
    else
      status = mark.status();
  }
  std::optional<HostSlice> slice = open_host_wait(access, parents);
  log_host_wait(access, parents);
  release(parents, pool_);
  PERGOLA_TRY(status);
  ++counters_.host_waits;
  if (lowering_ != nullptr) lowering_->begin_host_wait();
  status = wait_unlocked(lock, marks, deadline);
  if (lowering_ != nullptr) lowering_->end_host_wait();
  close_host_wait(std::move(slice));
  return status;
}

}  // namespace pergola::scheduler
