// An array of the in-process session: a buffer of the device, and a host copy for view() once somebody asks.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>

#include "src/runtime/host_mirror.h"
#include "src/runtime/local_session.h"
#include "src/runtime/managed_memory.h"
#include "src/runtime/task_turn.h"

namespace pergola::runtime {

class LocalArray final : public session::Array {
 public:
  LocalArray(std::shared_ptr<LocalSession> session, device::BufferPtr buffer,
             std::unique_ptr<scheduler::Resource> resource, session::ElementType type, std::uint32_t element_bytes,
             std::uint64_t count)
      : Array(type, element_bytes, count, session->id()),
        session_(std::move(session)),
        buffer_(std::move(buffer)),
        resource_(std::move(resource)),
        mirror_(std::make_shared<HostMirror>(*session_, buffer_, *resource_)) {
    resource_->set_address(buffer_->address());
    session_->scheduler().know_array(*resource_);
    tasks_.address = buffer_->address();
    tasks_.size_bytes = size_bytes();
    if (buffer_->kind() != device::MemoryKind::kManaged) return;
    managed_.emplace(*session_, buffer_);
    resource_->set_moving(&*managed_);
  }
  ~LocalArray() override;  // work in flight keeps the memory

  const device::BufferPtr& buffer() const { return buffer_; }
  scheduler::Resource& resource() const { return *resource_; }
  std::uint64_t number() const override { return resource_->id(); }
  // Before work on the device that uses the array is submitted, and after that which writes it was.
  Status settle() const {
    PERGOLA_TRY(end_tasks());
    return mirror_->settle();
  }
  // The same for work that may go behind them, as `turn` then says.
  Status settle_behind(TaskTurn& turn) const {
    PERGOLA_TRY(turn.comes_after(tasks_));
    return mirror_->settle();
  }
  // Tasks that were given the array end; ahead of everything else that uses it.
  Status end_tasks() const { return session_->end_tasks_of(tasks_); }
  // Before a task is given the array: the host's part of it goes up.
  Status settle_for_task() const { return mirror_->settle(); }
  // Before a task with the array is spawned and after: whoever waits between the two has not waited for it.
  void note_task() const { tasks_.begun.fetch_add(1, std::memory_order_release); }
  void changed_on_device() const { mirror_->changed_on_device(); }
  // In Work::prepare, of work that uses the array on the device.
  Status take(device::Queue& queue) const { return managed_ ? managed_->take(queue) : Status(); }
  // What work that uses these bytes declares.
  scheduler::Access access(std::uint64_t offset_bytes, std::uint64_t size_bytes, scheduler::Mode mode) const {
    if (is_restricted()) return whole(scheduler::Mode::kReadWrite);
    return {resource_.get(), {offset_bytes, offset_bytes + size_bytes}, mode};
  }
  // Whether launches were given parts of it, so that what they touch is looked at (part_accesses.h). For good.
  bool is_in_parts() const { return is_in_parts_.load(std::memory_order_relaxed); }
  void note_part() const { is_in_parts_.store(true, std::memory_order_relaxed); }
  // Others have the memory too, and may change it. Before anybody else has the array.
  void mark_shared() { is_shared_ = true; }
  // kInvalidArgument where the bytes do not lie in the array; `what` is done with them.
  Status check_range(std::string_view what, std::uint64_t offset_bytes, std::uint64_t size_bytes) const;

  device::DeviceAddress address() const override { return buffer_->address(); }
  Status write(std::uint64_t offset_bytes, std::span<const std::byte> source) override;
  Status wait(std::uint64_t offset_bytes, std::uint64_t size_bytes,
              std::optional<std::chrono::nanoseconds> timeout) override;
  Status read(std::uint64_t offset_bytes, std::span<std::byte> destination) override;
  Result<std::span<const std::byte>> view() override;
  Result<std::span<std::byte>> host(session::Access access, std::optional<std::chrono::nanoseconds> timeout) override;
  Status prefetch(session::Location to) override;
  session::Location location() const override;
  using Array::fill;
  Status fill(std::uint64_t offset_bytes, std::uint64_t size_bytes, std::span<const std::byte> value) override;
  Status copy_from(std::uint64_t offset_bytes, const session::ArrayPtr& source, std::uint64_t source_offset_bytes,
                   std::uint64_t size_bytes) override;
  Result<session::TexturePtr> create_texture(device::TextureDescription description) override;

 private:
  scheduler::Access whole(scheduler::Mode mode) const { return {resource_.get(), {0, size_bytes()}, mode}; }
  // Whether the host reaches buffer_, and whether that is without moving it.
  bool is_on_host() const { return buffer_->host_pointer() != nullptr; }
  bool is_here() const { return managed_ ? managed_->is_on_host() : is_on_host(); }
  bool is_restricted() const { return managed_ && managed_->is_restricted(); }
  Status prefetch_managed(session::Location to);
  Status read_now(std::uint64_t offset_bytes, std::span<std::byte> destination);
  Status read_in_turn(std::uint64_t offset_bytes, std::span<std::byte> destination);  // not of managed memory
  Result<bool> write_in_turn(std::uint64_t offset_bytes, std::span<const std::byte> source);  // false: it has not
  Status await_uses(const scheduler::Access& written);
  // Work that uses the array on the device, and `source` too; `accesses` has its own part of it.
  Status submit(scheduler::Work work, scheduler::Scheduler::Enqueue enqueue, const LocalArray* source = nullptr);
  Status submit_fill(scheduler::Range bytes, scheduler::Scheduler::Enqueue enqueue);
  Status fill_by_doubling(scheduler::Range bytes, std::span<const std::byte> value);

  const std::shared_ptr<LocalSession> session_;
  device::BufferPtr buffer_;                       // never null but in the destructor, as the next
  std::unique_ptr<scheduler::Resource> resource_;  // what the scheduler orders
  bool is_shared_ = false;
  mutable std::atomic<bool> is_in_parts_{false};
  mutable ArrayTasks tasks_;
  mutable std::optional<ManagedMemory> managed_;  // of kManaged buffers
  const std::shared_ptr<HostMirror> mirror_;  // used where the host does not reach buffer_
  std::mutex view_mutex_;
  device::BufferPtr view_;  // where it does: made by the first view(); guarded by view_mutex_
};

}  // namespace pergola::runtime
