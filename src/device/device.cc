#include "src/device/device.h"

namespace pergola::device {

Result<BufferPtr> Device::adopt(const ForeignMemory&) {
  return PERGOLA_ERROR(kUnsupported, "The device '{}' does not take over memory of other libraries: copy it.",
                       info().id);
}

Result<EventPtr> Device::record_foreign(std::uint64_t) {
  return PERGOLA_ERROR(kUnsupported, "The device '{}' has no streams that it shares with other libraries.", info().id);
}

Status Device::make_foreign_wait(std::uint64_t, const EventPtr&) {
  return PERGOLA_ERROR(kUnsupported, "The device '{}' has no streams that it shares with other libraries.", info().id);
}

Result<GatePtr> Device::create_gate() {
  return PERGOLA_ERROR(kUnsupported, "Queues of the device '{}' cannot wait for what the host writes.", info().id);
}

Status Queue::wait_for_gate(const GatePtr&, std::uint32_t) {
  return PERGOLA_ERROR(kUnsupported, "The queue is of a device whose queues cannot wait for what the host writes.");
}

Status Queue::launch_between(Between& between, const ModulePtr& module, const Kernel& kernel,
                             const LaunchConfig& config, std::span<const std::byte> parameters) {
  for (const EventPtr* const event : between.after) PERGOLA_TRY(wait(*event));
  between.has_waited = true;
  PERGOLA_TRY(launch(module, kernel, config, parameters));
  if (between.behind == nullptr) return {};
  Result<EventPtr> recorded = record_untimed();
  *between.behind = recorded.ok() ? *std::move(recorded) : nullptr;
  return {};
}

Status Queue::take_managed(const BufferPtr&) {
  return PERGOLA_ERROR(kUnsupported, "The queue is of a device that has no managed memory.");
}

Status Queue::give_managed_to_host(const BufferPtr&) {
  return PERGOLA_ERROR(kUnsupported, "The queue is of a device that has no managed memory.");
}

}  // namespace pergola::device
