// The host's side of what fences find (abi/task_fence.h): reads what resident blocks tell of tasks that have failed,
// and makes of it their errors, in the words that launches have on the CPU device.
//
// Who looks at what is done looks whether there is more (HostRing), and takes it, before the place in the ring is given
// to another task. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "src/base/function_ref.h"
#include "src/device/device.h"
#include "src/executor/fence_table.h"
#include "src/executor/host_ring.h"
#include "src/transform/entry_to_task.h"

namespace pergola::executor {

class TaskFaults {
 public:
  // Before anything else, once.
  Status attach(device::Device& device, std::uint32_t rings);
  const device::BufferPtr& memory() const { return memory_; }

  // Before a record names it. `fences` are TaskBody::fences.
  void set_body(std::uint32_t number, std::string kernel, std::vector<transform::FenceSite> fences);
  // tell(position, message) of each that the ring's block has told since; `table` is for what is near.
  void take(std::uint32_t number, HostRing& ring, const FenceTable& table,
            FunctionRef<void(std::uint64_t position, const std::string& message)> tell);

 private:
  struct Body {
    std::string kernel;
    std::vector<transform::FenceSite> fences;
  };
  std::string message(const abi::TaskFault& fault, const FenceTable& table) const;

  device::BufferPtr memory_;
  std::mutex mutex_;
  std::vector<Body> bodies_;  // guarded by mutex_
};

}  // namespace pergola::executor
