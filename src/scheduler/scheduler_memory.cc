// Memory that outlives its resource, for what still uses it: the scheduler's side.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "src/base/log.h"
#include "src/base/name_list.h"
#include "src/base/plural.h"
#include "src/scheduler/scheduler.h"

namespace pergola::scheduler {

void Scheduler::know_array(const Resource& resource) {
  const std::lock_guard lock(mutex_);
  arrays_.insert_or_assign(resource.id(), KnownArray{resource.address(), resource.size_bytes()});
}

std::string Scheduler::lost_arrays() const {
  const std::lock_guard lock(mutex_);
  return lost_arrays_locked();
}

std::string Scheduler::lost_arrays_locked() const {
  if (arrays_.empty() || device_->info().kind == device::DeviceKind::kCpu) return {};  // whose memory is the process's
  std::vector<std::string> names;
  for (const auto& [number, array] : arrays_)
    names.push_back(fmt::format("array {} ({} at {:#x})", number, plural(array.size_bytes, "byte"), array.address));
  return fmt::format("The contents of {} lost: {}.", plural(names.size(), "array is", "arrays are"),
                     name_list(names, "arrays lost with the device"));
}

void Scheduler::retire(std::unique_ptr<Resource> resource, std::shared_ptr<const void> memory) {
  EndedMemory ended(memory_going_);
  const std::lock_guard lock(mutex_);
  arrays_.erase(resource->id());
  // Memory that moves is moved by who launches, as long as that stands (Resource::moving()). Foreign memory may come
  // again, as another resource, which comes after what is launched by then (create_foreign_resource()).
  if (resource->moving() != nullptr || resource->is_foreign()) {
    const Access everything{resource.get(), {0, resource->size_bytes()}, Mode::kReadWrite};
    resource->size_bytes() == 0 ? launch_held() : launch_held_before(std::span(&everything, 1));
  }
  if (lowering_ != nullptr && lowering_->holds_use_of(*resource)) {
    behind_held_.push_back({std::move(resource), std::move(memory)});
    if (behind_held_.size() > kMostBehindHeld) launch_held();
  } else {
    retire_locked(std::move(resource), std::move(memory));
  }
  reap(ended);
}

// What has gone while launches that use it were held, which are known to the resource's list of users now.
void Scheduler::retire_behind_held() {
  if (behind_held_.empty()) return;
  std::erase_if(behind_held_, [&](BehindHeld& each) {
    if (lowering_ != nullptr && lowering_->holds_use_of(*each.resource)) return false;
    retire_locked(std::move(each.resource), std::move(each.memory));
    return true;
  });
}

void Scheduler::retire_locked(std::unique_ptr<Resource> resource, std::shared_ptr<const void> memory) {
  Retired retired{++last_retired_, std::move(memory), {}, {}};
  if (resource->is_foreign()) retired.begin = resource->address(), retired.end = retired.begin + resource->size_bytes();
  const auto add = [&](Computation& user) {
    if (resource->is_foreign()) hold_once(user, retired.work);
    for (auto& [stream, position] : retired.users)
      if (stream == user.stream) {
        position = std::max(position, user.position);
        return;
      }
    retired.users.emplace_back(user.stream, user.position);
  };
  resource->for_each_user(add);
  if (universal_writer_ != nullptr) add(*universal_writer_);
  for (Computation* reader : universal_readers_) add(*reader);
  if (tasks_ != nullptr && !tasks_->open.empty()) {
    retired.tasks = std::move(resource->tasks().readers);
    if (resource->tasks().writer != 0) retired.tasks.push_back(resource->tasks().writer);
  }
  resource->clear(pool_);
  retired_.push_back(std::move(retired));
}

std::unique_ptr<Resource> Scheduler::create_foreign_resource(std::uint64_t size_bytes, std::uint64_t address) {
  std::unique_ptr<Resource> resource = create_resource(size_bytes);
  resource->set_address(address);
  resource->set_foreign();
  const std::lock_guard lock(mutex_);
  std::vector<Computation*> before;
  for (const Retired& retired : retired_)
    if (retired.begin < address + size_bytes && address < retired.end)
      before.insert(before.end(), retired.work.begin(), retired.work.end());
  if (!before.empty()) resource->begin_behind(*pool_.stand_in_for(before));
  return resource;
}

// In slices, as what others have let go later may end before the first does; longer and longer ones, as a wait begins
// with looking again and again.
bool Scheduler::await_retired(bool unless_held, Deadline deadline) {
  constexpr std::chrono::milliseconds kFirstSlice(2), kMostSlice(16);
  const auto until = deadline.value_or(std::chrono::steady_clock::time_point::max());
  EndedMemory ended(memory_going_);  // goes after the lock
  std::unique_lock lock(mutex_);
  if (!refuse_inside_call().ok()) return false;
  if (unless_held && lowering_ != nullptr && lowering_->holds_any()) return false;
  if (!unless_held) launch_held();
  const std::uint64_t dropped = dropped_;
  reap(ended, true);
  for (auto slice = kFirstSlice; ended.is_empty(); slice = std::min(2 * slice, kMostSlice)) {
    if (dropped_ != dropped || memory_going_.load(std::memory_order_acquire) != 0) return await_going(lock, until);
    const std::optional<FirstRetired> first = first_retired();
    if (!first) return false;
    if (slice == kFirstSlice && lowering_ != nullptr && !first->marks.empty()) lowering_->note_wait();
    tell_ends();
    lock.unlock();
    const auto slice_end = std::min(until, std::chrono::steady_clock::now() + slice);
    bool goes_on = first->is_in_call;
    for (const MarkPtr& mark : first->marks) {
      const auto left = slice_end - std::chrono::steady_clock::now();
      const Status waited = mark->event->wait(std::max<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0)));
      goes_on |= waited.code() == Code::kTimeout;
    }
    if (first->is_in_call) std::this_thread::sleep_until(slice_end);
    lock.lock();
    reap(ended, true);  // which asks how it has ended
    if (dropped_ == dropped && (!goes_on || std::chrono::steady_clock::now() >= until)) break;
  }
  return !ended.is_empty();
}

// Another thread is about to drop some: without its lock, so that it is not there yet. False: not by then.
bool Scheduler::await_going(StateLock& lock, std::chrono::steady_clock::time_point until) {
  lock.unlock();
  while (memory_going_.load(std::memory_order_acquire) != 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return memory_going_.load(std::memory_order_acquire) == 0;
}

// None: nothing is left but what tasks use, or no event can be had.
std::optional<Scheduler::FirstRetired> Scheduler::first_retired() {
  const auto first = std::ranges::find_if(retired_, [](const Retired& retired) { return retired.tasks.empty(); });
  if (first == retired_.end()) return std::nullopt;
  FirstRetired found;
  for (const auto& [stream, position] : first->users) {
    if (stream->knows_end_of(position)) continue;
    if (stream->reserved) {
      found.is_in_call = true;
      continue;
    }
    Result<MarkPtr> mark = mark_covering(*stream, position, MarkFor::kHost);
    if (!mark.ok()) return std::nullopt;
    found.marks.push_back(*std::move(mark));
  }
  return found;
}

std::uint64_t Scheduler::last_retired() const {
  const std::lock_guard lock(mutex_);
  return last_retired_ + behind_held_.size();
}

std::size_t Scheduler::left_of_retired(std::uint64_t last) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(retired_, [&](const Retired& one) { return one.number <= last && one.tasks.empty(); });
}

bool Scheduler::release_kept_by_queues() {
  std::unique_lock lock(mutex_);
  if (calls_under_way_ != 0) return false;
  poll_all();
  // After a failure queues skip what comes, until it has been told.
  if (!failure_.ok() || !skip_.ok()) return false;
  if (std::ranges::any_of(streams_, [](const auto& stream) { return !stream->idle(); })) return false;
  const std::vector<device::Queue*> queues = all_queues();
  lock.unlock();  // what goes may be others', whose code runs then
  for (device::Queue* queue : queues) queue->let_go_if_idle();
  return true;
}

// Of much memory that is left it is not asked each time what has ended, where that was in vain: it is a call of the
// driver for each stream.
bool Scheduler::asks_for_ends() {
  constexpr std::size_t kFew = 8;
  if (retired_.size() <= kFew || reaps_to_pass_ == 0) return true;
  --reaps_to_pass_;
  return false;
}

// Somebody must come to know of the end. One event stands for several pieces of work, as long as an earlier one has not
// ended, which then asks for the next.
void Scheduler::mark_for_reaping(Stream& stream, std::uint64_t position) {
  constexpr std::uint64_t kMostOfAnEvent = 16;
  const std::uint64_t marked = stream.marks.empty() ? 0 : stream.marks.back()->position;
  if (stream.reserved || marked >= position || (marked != 0 && position - marked < kMostOfAnEvent)) return;
  if (const auto recorded = record_on(stream); !recorded.ok())
    PERGOLA_WARN("memory is kept until the session ends: {}", recorded.message());
}

void Scheduler::reap(EndedMemory& out, bool always) {
  retire_behind_held();
  if (retired_.empty() || !(always || asks_for_ends())) return;
  poll_all();
  const std::size_t before = retired_.size();
  std::erase_if(retired_, [&](Retired& retired) {
    if (!retired.tasks.empty()) std::erase_if(retired.tasks, [&](TaskId task) { return task_has_ended(task); });
    bool ended = retired.tasks.empty();
    for (const auto& [stream, position] : retired.users) {
      if (stream->knows_end_of(position)) continue;
      ended = false;
      mark_for_reaping(*stream, position);
    }
    if (ended)
      for (Computation* one : retired.work) pool_.let_go(*one);
    if (ended && retired.memory != nullptr) {
      memory_let_go_ = true;
      ++dropped_;
      out.add(std::move(retired.memory));
    }
    return ended;
  });
  constexpr std::uint32_t kMostInARow = 8;
  vain_reaps_ = retired_.size() < before ? 0 : std::min(vain_reaps_ + 1, kMostInARow);
  reaps_to_pass_ = vain_reaps_;
}

}  // namespace pergola::scheduler
