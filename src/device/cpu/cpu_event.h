// Events of the CPU device: ended by the worker thread of the queue that recorded them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "src/device/cpu/cpu_buffer.h"
#include "src/device/event.h"

namespace pergola::device::cpu {

class CpuEvent final : public Event {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CpuEvent(std::shared_ptr<const DeviceMemory> device) : device_(std::move(device)) {}

  std::optional<Status> poll() override;
  Status wait(std::optional<std::chrono::nanoseconds> timeout) override;
  Result<double> elapsed_ns(const Event& start) override;

  // Ends the event, once; now is its time.
  void end(Status outcome);
  const DeviceMemory* device() const { return device_.get(); }

 private:
  struct Ended {
    Status outcome;
    Clock::time_point at;
  };
  std::optional<Ended> ended() const;

  const std::shared_ptr<const DeviceMemory> device_;  // tells one device's events from another's
  mutable std::mutex mutex_;                          // guards ended_
  std::condition_variable changed_;
  std::optional<Ended> ended_;
};

}  // namespace pergola::device::cpu
