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

}  // namespace pergola::device
