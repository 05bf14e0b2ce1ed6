#include "src/device/device.h"

namespace pergola::device {

Result<BufferPtr> Device::adopt(const ForeignMemory&) {
  return PERGOLA_ERROR(kUnsupported, "The device '{}' does not take over memory of other libraries: copy it.",
                       info().id);
}

}  // namespace pergola::device
