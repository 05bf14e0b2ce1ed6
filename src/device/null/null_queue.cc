#include "src/device/null/null_queue.h"

#include <cstring>

#include "src/device/null/null_module.h"
#include "src/device/validate.h"

namespace pergola::device::null {

Result<double> NullEvent::elapsed_ns(const Event& start) {
  const auto* from = dynamic_cast<const NullEvent*>(&start);
  if (from == nullptr || from->device_ != device_)
    return PERGOLA_ERROR(kInvalidArgument, "The start event is of another device; time is kept by one device.");
  return std::chrono::duration<double, std::nano>(ended_ - from->ended_).count();
}

Result<NullBuffer*> NullQueue::own(const BufferPtr& buffer) const {
  auto* mine = dynamic_cast<NullBuffer*>(buffer.get());
  if (mine != nullptr && mine->budget() == budget_.get()) return mine;
  return PERGOLA_ERROR(kInvalidArgument, "The buffer is {}.",
                       buffer == nullptr ? "null" : "of another device; a queue takes buffers of its own device");
}

Status NullQueue::launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                         std::span<const std::byte> parameters) {
  const auto* mine = dynamic_cast<const NullModule*>(module.get());
  if (mine == nullptr || !mine->owns(kernel))
    return PERGOLA_ERROR(kInvalidArgument, "The kernel is not one of the module that is given with it.");
  PERGOLA_TRY(validate_launch(device_->info(), kernel, config, parameters.size()));
  const std::lock_guard lock(mutex_);
  failure_.fail(PERGOLA_ERROR(kUnsupported, "Kernel '{}' is not run: the null device runs no kernels; choose another "
                              "with PERGOLA_DEVICE.",
                              kernel.signature().name));
  return {};
}

Status NullQueue::copy_to_device(const BufferPtr& destination, std::size_t offset_bytes,
                                 std::span<const std::byte> source) {
  PERGOLA_ASSIGN(NullBuffer * to, own(destination));
  PERGOLA_TRY(validate_range("destination", to, offset_bytes, source.size()));
  const std::lock_guard lock(mutex_);
  // memmove: the source may lie in a host-visible buffer, even in this one.
  if (!failure_.failed() && !source.empty()) std::memmove(to->bytes() + offset_bytes, source.data(), source.size());
  return {};
}

Status NullQueue::copy_to_host(std::span<std::byte> destination, const BufferPtr& source, std::size_t offset_bytes) {
  PERGOLA_ASSIGN(NullBuffer * from, own(source));
  PERGOLA_TRY(validate_range("source", from, offset_bytes, destination.size()));
  const std::lock_guard lock(mutex_);
  if (!failure_.failed() && !destination.empty())
    std::memmove(destination.data(), from->bytes() + offset_bytes, destination.size());
  return {};
}

Status NullQueue::copy(const BufferPtr& destination, std::size_t destination_offset_bytes, const BufferPtr& source,
                       std::size_t source_offset_bytes, std::size_t size_bytes) {
  PERGOLA_ASSIGN(NullBuffer * to, own(destination));
  PERGOLA_ASSIGN(NullBuffer * from, own(source));
  PERGOLA_TRY(validate_copy(to, destination_offset_bytes, from, source_offset_bytes, size_bytes));
  const std::lock_guard lock(mutex_);
  if (!failure_.failed() && size_bytes != 0)
    std::memcpy(to->bytes() + destination_offset_bytes, from->bytes() + source_offset_bytes, size_bytes);
  return {};
}

Status NullQueue::fill(const BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
                       std::uint32_t pattern, std::uint32_t pattern_bytes) {
  PERGOLA_ASSIGN(NullBuffer * to, own(destination));
  PERGOLA_TRY(validate_fill(to, offset_bytes, size_bytes, pattern, pattern_bytes));
  const std::lock_guard lock(mutex_);
  if (!failure_.failed()) expand_fill({to->bytes() + offset_bytes, size_bytes}, pattern, pattern_bytes);
  return {};
}

Status NullQueue::wait(const EventPtr& event) {
  auto* mine = dynamic_cast<NullEvent*>(event.get());
  if (mine == nullptr || mine->device() != budget_.get())
    return PERGOLA_ERROR(kInvalidArgument, "The event is {}.",
                         event == nullptr ? "null" : "of another device; a queue waits for events of its own device");
  const Status outcome = *mine->poll();
  const std::lock_guard lock(mutex_);
  if (!outcome.ok()) failure_.fail(skipped_because(outcome));
  return {};
}

Result<EventPtr> NullQueue::record() {
  const std::lock_guard lock(mutex_);
  return EventPtr(std::make_shared<NullEvent>(failure_.outcome(), budget_.get()));
}

std::optional<Status> NullQueue::poll() {
  const std::lock_guard lock(mutex_);
  return failure_.outcome();
}

Status NullQueue::synchronize() {
  const std::lock_guard lock(mutex_);
  return failure_.take();
}

}  // namespace pergola::device::null
