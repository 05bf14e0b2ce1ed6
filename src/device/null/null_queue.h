// A queue of the null device: work is done, or fails, inside the call that queues it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "src/device/device.h"
#include "src/device/failure.h"
#include "src/device/null/null_buffer.h"

namespace pergola::device::null {

// Ended when it is made; immutable, thread-safe.
class NullEvent final : public Event {
 public:
  NullEvent(Status outcome, const MemoryBudget* device)
      : outcome_(std::move(outcome)), device_(device), ended_(std::chrono::steady_clock::now()) {}
  std::optional<Status> poll() override { return outcome_; }
  Status wait(std::optional<std::chrono::nanoseconds>) override { return outcome_; }
  Result<double> elapsed_ns(const Event& start) override;
  const MemoryBudget* device() const { return device_; }

 private:
  Status outcome_;
  const MemoryBudget* device_;
  std::chrono::steady_clock::time_point ended_;
};

class NullQueue final : public Queue {
 public:
  // `device` keeps the device alive; `budget` tells its buffers and events from other devices'.
  NullQueue(std::shared_ptr<const Device> device, std::shared_ptr<const MemoryBudget> budget)
      : device_(std::move(device)), budget_(std::move(budget)) {}

  Status launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                std::span<const std::byte> parameters) override;
  Status copy_to_device(const BufferPtr& destination, std::size_t offset_bytes,
                        std::span<const std::byte> source) override;
  Status copy_to_host(std::span<std::byte> destination, const BufferPtr& source, std::size_t offset_bytes) override;
  Status copy(const BufferPtr& destination, std::size_t destination_offset_bytes, const BufferPtr& source,
              std::size_t source_offset_bytes, std::size_t size_bytes) override;
  Status fill(const BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes, std::uint32_t pattern,
              std::uint32_t pattern_bytes) override;
  Status wait(const EventPtr& event) override;
  Result<EventPtr> record() override;
  std::optional<Status> poll() override;
  Status synchronize() override;

 private:
  // The buffer as one of this device, or why it is none.
  Result<NullBuffer*> own(const BufferPtr& buffer) const;

  const std::shared_ptr<const Device> device_;
  const std::shared_ptr<const MemoryBudget> budget_;
  std::mutex mutex_;      // orders the calls of several threads, and guards failure_
  FailureState failure_;
};

}  // namespace pergola::device::null
