// Launches that have not ended, with what they use, and the first failure among them.
//
// A kernel's raw addresses do not keep memory alive (device/buffer.h), so this does: an entry holds its launch's
// buffers and module until its event has ended. The queue is in order, so entries end from the front. Bounded: add()
// waits for the oldest launch once kMaxLaunches are in flight.
//
// Thread-compatible: the session guards it.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/device.h"

namespace pergola::runtime {

// "Kernel 'saxpy' failed: ..." unless the message names the kernel by itself.
Status name_kernel(std::string_view kernel, const Status& status);

class InFlight {
 public:
  static constexpr std::size_t kMaxLaunches = 1024;

  struct Launch {
    device::EventPtr event;
    device::ModulePtr module;
    std::string_view kernel;  // the name; owned by the module
    std::vector<device::BufferPtr> buffers;
  };

  void add(Launch launch);
  // Lets go of launches that have ended; keeps the first failure that is not a consequence of another.
  void reap();
  const Status& failure() const { return failure_; }
  Status take_failure() { return std::exchange(failure_, Status()); }
  std::size_t size() const { return launches_.size(); }

 private:
  void finish(const Launch& launch, const Status& status);

  std::deque<Launch> launches_;
  Status failure_;
};

}  // namespace pergola::runtime
