// A queue of the CPU device: checks each call, makes a task of it, and hands that to the queue's thread.
#pragma once

#include <memory>

#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/queue_worker.h"
#include "src/device/queue.h"

namespace pergola::device::cpu {

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(std::shared_ptr<QueueWorker> worker) : worker_(std::move(worker)) {}
  ~CpuQueue() override;
  CpuQueue(const CpuQueue&) = delete;
  CpuQueue& operator=(const CpuQueue&) = delete;

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
  Status wait_for_gate(const GatePtr& gate, std::uint32_t number) override;
  Result<EventPtr> record() override;
  std::optional<Status> poll() override { return worker_->poll(); }
  Status synchronize() override;

  QueueWorker& worker() { return *worker_; }
  CpuDevice& device() const { return worker_->device(); }

 private:
  const std::shared_ptr<QueueWorker> worker_;
};

}  // namespace pergola::device::cpu
