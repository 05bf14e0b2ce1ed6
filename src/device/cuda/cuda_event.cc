#include "src/device/cuda/cuda_event.h"

#include <algorithm>
#include <thread>

namespace pergola::device::cuda {
namespace {
constexpr std::string_view kDoing = "waiting for queued work";
constexpr std::chrono::milliseconds kLookAtWord{1};  // as busily as the driver waits for an event
// Of a wait with a time to it: it looks at the word as busily, and for so long asks the driver without one. Then it
// sleeps for a hundredth of what it has waited, and sees the end as much later.
constexpr std::chrono::milliseconds kBusilyAtFirst{2};
constexpr std::chrono::microseconds kAskAtFirst{50};
constexpr std::chrono::microseconds kSleepAtMost{500};
}  // namespace

std::optional<Status> CudaEvent::known() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

// What the driver then tells of other work is no matter of this event's, which has ended well.
Status CudaEvent::settle_unasked() {
  if (context_->prints() && context_->enter().ok()) (void)context_->driver().cuEventSynchronize(event_);
  return settle(CUDA_SUCCESS);
}

Status CudaEvent::settle(CUresult result) {
  Status status = context_->check(result, kDoing);
  const std::lock_guard lock(mutex_);
  if (!outcome_) outcome_ = std::move(status);
  return *outcome_;
}

// A fault of the device never brings it: the driver is asked then.
bool CudaEvent::word_comes_within(std::chrono::nanoseconds time) const {
  constexpr int kLooks = 64;
  if (!word_) return false;
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (word_.has_come_to(number_)) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

std::optional<Status> CudaEvent::poll() {
  if (std::optional<Status> status = known()) return status;
  if (word_has_come()) return settle_unasked();
  if (Status entered = context_->enter(); !entered.ok()) return entered;
  const CUresult result = context_->driver().cuEventQuery(event_);
  if (result == CUDA_ERROR_NOT_READY) return std::nullopt;
  return result == CUDA_SUCCESS ? settle_unasked() : settle(result);
}

Status CudaEvent::wait(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) {
    if (std::optional<Status> status = known()) return *status;
    if (word_comes_within(kLookAtWord)) return settle_unasked();
    PERGOLA_TRY(context_->enter());
    return settle(context_->driver().cuEventSynchronize(event_));
  }
  const auto start = std::chrono::steady_clock::now();
  if (!known() && word_comes_within(std::min<std::chrono::nanoseconds>(kBusilyAtFirst, *timeout)))
    return settle_unasked();
  for (;;) {
    if (std::optional<Status> status = poll()) return *status;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited >= *timeout)
      return PERGOLA_ERROR(kTimeout, "The work has not ended within {} ns; it goes on.", timeout->count());
    if (waited < kAskAtFirst) continue;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>({kSleepAtMost, waited / 100, *timeout - waited}));
  }
}

Result<double> CudaEvent::elapsed_ns(const Event& start) {
  const auto* from = dynamic_cast<const CudaEvent*>(&start);
  if (from == nullptr || from->context_ != context_)
    return PERGOLA_ERROR(kInvalidArgument, "The start event is of another device; time is kept by one device.");
  if (!timed_ || !from->timed_)
    return PERGOLA_ERROR(kFailedPrecondition, "An event that was recorded for ordering only has no time.");
  PERGOLA_TRY(context_->enter());
  float milliseconds = 0;
  const CUresult result = context_->driver().cuEventElapsedTime(&milliseconds, from->event_, event_);
  if (result == CUDA_ERROR_NOT_READY)
    return PERGOLA_ERROR(kFailedPrecondition, "Both events must have ended before the time between them is asked for.");
  PERGOLA_TRY(context_->check(result, "reading the time between two events"));
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace pergola::device::cuda
