// Memory that outlives its resource, for what still uses it: the scheduler's side.
#include <algorithm>

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
  std::vector<std::shared_ptr<const void>> ended;
  const std::lock_guard lock(mutex_);
  arrays_.erase(resource->id());
  const Access everything{resource.get(), {0, resource->size_bytes()}, Mode::kReadWrite};
  resource->size_bytes() == 0 ? launch_held() : launch_held_before(std::span(&everything, 1));
  Retired retired{std::move(memory), {}, {}};
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
  reap(ended);
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

void Scheduler::reap(std::vector<std::shared_ptr<const void>>& out) {
  if (retired_.empty()) return;
  poll_all();
  std::erase_if(retired_, [&](Retired& retired) {
    if (!retired.tasks.empty()) std::erase_if(retired.tasks, [&](TaskId task) { return task_has_ended(task); });
    bool ended = retired.tasks.empty();
    for (const auto& [stream, position] : retired.users) {
      if (stream->knows_end_of(position)) continue;
      ended = false;
      // Somebody must come to know of its end.
      if (stream->marks.empty() || stream->marks.back()->position < position) {
        if (const auto recorded = record_on(*stream); !recorded.ok())
          PERGOLA_WARN("memory is kept until the session ends: {}", recorded.message());
      }
    }
    if (ended)
      for (Computation* one : retired.work) pool_.let_go(*one);
    if (ended && retired.memory != nullptr) {
      memory_let_go_ = true;
      out.push_back(std::move(retired.memory));
    }
    return ended;
  });
}

}  // namespace pergola::scheduler
