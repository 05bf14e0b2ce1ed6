#include "src/base/left_to_process.h"

#include <mutex>
#include <utility>
#include <vector>

namespace pergola {

void leave_to_the_process(std::shared_ptr<const void> what) {
  static std::mutex mutex;
  static auto& left = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  left.push_back(std::move(what));
}

}  // namespace pergola
