// A recorded CUDA event. All failures on a GPU are sticky, so an event ends well or with the device lost.
//
// The driver tells the sticky error for events that had completed before the fault too: an event whose success was not
// yet seen by poll() or wait() is then reported lost. Thread-safe: the outcome is kept once it is known, until its only
// owner has the event recorded again.
#pragma once

#include <mutex>

#include "src/device/cuda/context.h"
#include "src/device/event.h"

namespace pergola::device::cuda {

class CudaEvent final : public Event {
 public:
  // Owns `event`, which is recorded and goes back to the context.
  // With a word, which the stream brings to `number` right before the event.
  CudaEvent(ContextPtr context, CUevent event, bool timed, HostWord word = {}, std::uint32_t number = 0)
      : context_(std::move(context)), event_(event), timed_(timed), word_(word), number_(number) {}
  ~CudaEvent() override { context_->give_event(event_, timed_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  std::optional<Status> poll() override;
  Status wait(std::optional<std::chrono::nanoseconds> timeout) override;
  // The GPU's clock has a resolution of about 0.5 microseconds.
  Result<double> elapsed_ns(const Event& start) override;

  // For its only owner. Whether it may be recorded again: it has no time and no word.
  bool may_be_recorded_again() const { return !timed_ && !word_; }
  // It has been: it stands for later work from now on, whose outcome is not known. Without mutex_, as nobody else has
  // it.
  void was_recorded_again() { outcome_.reset(); }

  CUevent handle() const { return event_; }
  const Context* context() const { return context_.get(); }

 private:
  std::optional<Status> known() const;
  Status settle(CUresult result);
  Status settle_unasked();  // it is known to have ended well, by no wait in the driver
  bool word_has_come() const { return word_ && word_.has_come_to(number_); }
  bool word_comes_within(std::chrono::nanoseconds time) const;

  const ContextPtr context_;
  const CUevent event_;
  const bool timed_;
  const HostWord word_;
  const std::uint32_t number_;
  mutable std::mutex mutex_;  // guards outcome_; not held while the driver is asked
  std::optional<Status> outcome_;
};

}  // namespace pergola::device::cuda
