#include "src/runtime/in_flight.h"

#include <utility>

namespace pergola::runtime {

Status name_kernel(std::string_view kernel, const Status& status) {
  if (status.ok() || kernel.empty() || status.message().find(fmt::format("'{}'", kernel)) != std::string::npos)
    return status;
  Error error = status.error();
  error.message = fmt::format("Kernel '{}' failed: {}", kernel, error.message);
  return error;
}

void InFlight::add(Launch launch) {
  if (launches_.size() >= kMaxLaunches) {
    const Launch oldest = std::move(launches_.front());
    launches_.pop_front();
    finish(oldest, oldest.event->wait());
  }
  launches_.push_back(std::move(launch));
}

void InFlight::reap() {
  while (!launches_.empty()) {
    const std::optional<Status> status = launches_.front().event->poll();
    if (!status) return;
    finish(launches_.front(), *status);
    launches_.pop_front();
  }
}

void InFlight::finish(const Launch& launch, const Status& status) {
  if (!status.ok() && status.code() != Code::kSkipped && failure_.ok()) failure_ = name_kernel(launch.kernel, status);
}

}  // namespace pergola::runtime
