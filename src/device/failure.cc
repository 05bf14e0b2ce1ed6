#include "src/device/failure.h"

namespace pergola::device {

Error skipped_because(const Status& cause) {
  if (cause.code() == Code::kSkipped) return cause.error();
  return PERGOLA_ERROR(kSkipped, "This work is not run, because work before it failed ({}): {}",
                       code_name(cause.code()), cause.message());
}

}  // namespace pergola::device
