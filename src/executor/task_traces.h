// The host's side of what resident blocks note of tasks (abi/task_trace.h). Read and cleared while the kernel is away;
// whoever owns it sees to that, and to one thread at a time.
//
// Where the device's clock is on the axis of events: an event ends right before each launch, and the first block that
// starts notes the time. So slices are early by what the device takes from the one to the other, some microseconds. The
// CPU device's clock is the host's, which is exact.
#pragma once

#include <memory>
#include <span>

#include "src/device/device.h"
#include "src/device/task_slices.h"

namespace pergola::executor {

class TaskTraces {
 public:
  static Result<std::unique_ptr<TaskTraces>> create(device::Device& device, device::Queue& copies,
                                                    std::uint32_t blocks);
  device::DeviceAddress address() const { return memory_->address(); }
  std::uint64_t size_bytes() const { return memory_->size_bytes(); }

  // Before a launch of so many blocks, on its queue: where slices are on the device's axis of events.
  Status launches(device::Queue& queue, std::uint32_t blocks);
  // Forgets what there is.
  Status clear(device::Queue& copies);
  // What there is since, without names. `heads`: of each ring, how many records it has had.
  Result<device::TaskSlices> read(device::Queue& copies, std::span<const std::uint64_t> heads) const;

 private:
  device::BufferPtr memory_;
  bool has_hosts_clock_ = false;
  device::EventPtr origin_;     // before the last launch; null with the host's clock
  std::uint32_t launched_ = 0;  // blocks of it
};

}  // namespace pergola::executor
