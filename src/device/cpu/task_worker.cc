#include "src/device/cpu/task_worker.h"

#include <utility>

namespace pergola::device::cpu {
namespace {

// How long a worker leaves its blocks to themselves before it takes another beside them.
constexpr std::chrono::milliseconds kPatience{10};

}  // namespace

void TaskCrew::Worker::run() {
  Backoff backoff;
  std::unique_lock lock(crew_.mutex_);
  while (true) {
    for (Ended& one : ended_) crew_.note_ended(*one.slot, std::move(one.status));
    ended_.clear();
    const Part part = wants_one() ? next() : Part{};
    if (part.slot == nullptr && residents_.empty()) {
      if (crew_.stop_) return;
      crew_.await_work(lock);
      continue;
    }
    lock.unlock();
    if (part.slot != nullptr) admit(part);
    if (turn() || part.slot != nullptr)
      backoff.reset();
    else
      backoff.wait([](std::chrono::microseconds nap) { std::this_thread::sleep_for(nap); });
    lock.lock();
  }
}

bool TaskCrew::Worker::wants_one() const {
  if (residents_.empty()) return true;
  if (residents_.size() >= kMostResidents) return false;
  return all_waiting_ || !crew_.high_.empty() || Clock::now() - admitted_ >= kPatience;
}

TaskCrew::Part TaskCrew::Worker::next() {
  const bool is_asides_turn = !aside_.empty() && crew_.normal_.empty() && crew_.is_normals_turn();
  if (is_asides_turn) crew_.high_taken_ = 0;
  if (!is_asides_turn && (aside_.empty() || !crew_.high_.empty())) {
    if (const Part part = crew_.take(); part.slot != nullptr) return part;
  }
  if (aside_.empty()) return {};
  Part& rest = aside_.back();
  const Part part{rest.slot, {rest.run.first++, 1}};
  if (--rest.run.count == 0) aside_.pop_back();
  return part;
}

void TaskCrew::Worker::admit(const Part& part) {
  if (part.run.first == 0) crew_.begin(*part.slot, index_);
  const Clock::time_point now = Clock::now();
  Resident resident{part, pool_.take(), now, now};
  const Kind& kind = *part.slot->kind;
  resident.block->begin(part.slot->launch, kind.kernel->code(), part.run, index_, kind.shared_bytes);
  admitted_ = resident.moved_at;
  residents_.push_back(std::move(resident));
}

bool TaskCrew::Worker::turn() {
  bool moved = false;
  all_waiting_ = true;
  for (std::size_t i = 0; i < residents_.size();) {
    Resident& resident = residents_[i];
    const bool ended = resident.block->step(crew_.device_->options().step_budget, &crew_.device_->progress());
    if (resident.block->block.following != 0) set_aside(resident);
    if (ended) {
      retire(i);
      moved = true;
      continue;
    }
    moved |= !resident.block->waiting;
    all_waiting_ &= resident.block->waiting;
    watch(resident);
    ++i;
  }
  return moved;
}

// The execution has stopped in the middle of its run: others may have to run before it goes on.
void TaskCrew::Worker::set_aside(Resident& resident) {
  const std::uint32_t count = std::exchange(resident.block->block.following, 0);
  resident.part.run.count -= count;
  aside_.push_back({resident.part.slot, {resident.block->end - count, count}});
  resident.block->end -= count;
}

void TaskCrew::Worker::watch(Resident& resident) {
  const CpuOptions& options = crew_.device_->options();
  const std::chrono::milliseconds limit = options.watchdog, most = options.time_limit;
  if (limit.count() == 0 && most.count() == 0) return;
  const Clock::time_point now = Clock::now();
  if (most.count() != 0 && now - resident.begun > most)
    raise_out_of_time(resident.part.slot->launch, most, 0, resident.block->execution->stands());
  if (!resident.block->waiting) resident.moved_at = now;
  if (limit.count() != 0 && now - resident.moved_at > limit)
    raise_stuck(resident.part.slot->launch, 1, 0, limit, resident.block->execution->stands());
}

void TaskCrew::Worker::retire(std::size_t i) {
  Resident resident = std::move(residents_[i]);
  residents_.erase(residents_.begin() + static_cast<std::ptrdiff_t>(i));
  resident.block->finish();
  pool_.put(std::move(resident.block));
  Slot& slot = *resident.part.slot;
  const std::uint64_t blocks = resident.part.run.count;
  if (slot.left.fetch_sub(blocks, std::memory_order_acq_rel) == blocks) ended_.push_back({&slot, crew_.end(slot)});
}

}  // namespace pergola::device::cpu
