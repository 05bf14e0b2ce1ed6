#include "src/device/cpu/cpu_event.h"

namespace pergola::device::cpu {

std::optional<CpuEvent::Ended> CpuEvent::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

std::optional<Status> CpuEvent::poll() {
  const std::scoped_lock lock(mutex_);
  if (!ended_) return std::nullopt;
  return ended_->outcome;
}

Status CpuEvent::wait(std::optional<std::chrono::nanoseconds> timeout) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [this] { return ended_.has_value(); };
  // A timeout beyond the clock's range is for ever.
  constexpr auto kForever = std::chrono::hours(24 * 365);
  if (!timeout || *timeout > kForever) {
    changed_.wait(lock, has_ended);
  } else if (!changed_.wait_for(lock, *timeout, has_ended)) {
    return PERGOLA_ERROR(kTimeout, "The event is still pending after {} ns; its work goes on.", timeout->count());
  }
  return ended_->outcome;
}

Result<double> CpuEvent::elapsed_ns(const Event& start) {
  const auto* from = dynamic_cast<const CpuEvent*>(&start);
  if (from == nullptr || from->device() != device()) {
    return PERGOLA_ERROR(kInvalidArgument, "The start event is of another device; time is kept by one device.");
  }
  const std::optional<Ended> first = from->ended(), last = ended();
  if (!first || !last) {
    return PERGOLA_ERROR(kFailedPrecondition, "The {} event is still pending; wait for it before asking for times.",
                         first ? "end" : "start");
  }
  if (!first->outcome.ok()) return first->outcome;
  if (!last->outcome.ok()) return last->outcome;
  return std::chrono::duration<double, std::nano>(last->at - first->at).count();
}

void CpuEvent::end(Status outcome) {
  {
    const std::scoped_lock lock(mutex_);
    PERGOLA_CHECK(!ended_);
    ended_ = Ended{std::move(outcome), Clock::now()};
  }
  changed_.notify_all();
}

}  // namespace pergola::device::cpu
