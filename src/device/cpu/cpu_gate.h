// A gate of the CPU device: a number under a lock, for which threads of queues sleep. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "src/device/gate.h"

namespace pergola::device::cpu {

class DeviceMemory;

class CpuGate final : public Gate {
 public:
  // `device` tells it from gates of other devices.
  explicit CpuGate(std::shared_ptr<const DeviceMemory> device) : device_(std::move(device)) {}
  void open(std::uint32_t number) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!has_come_to(number)) number_ = number;
    }
    opened_.notify_all();
  }
  // Whether it has been opened to `number`, by then at the latest.
  bool wait(std::uint32_t number, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, timeout, [&] { return has_come_to(number); });
  }
  const DeviceMemory* device() const { return device_.get(); }

 private:
  bool has_come_to(std::uint32_t number) const { return static_cast<std::int32_t>(number_ - number) >= 0; }

  const std::shared_ptr<const DeviceMemory> device_;
  std::mutex mutex_;
  std::condition_variable opened_;
  std::uint32_t number_ = 0;  // guarded by mutex_
};

}  // namespace pergola::device::cpu
