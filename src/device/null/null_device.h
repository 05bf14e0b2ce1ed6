// The null device: every interface of src/device/, complete, and no kernel ever run.
//
// It is the skeleton to copy for a new device (README.md), and it lets everything above src/device/ be tested where
// only the order of work matters. Memory is host memory; copies and fills happen inside the call that queues them, so
// every event has ended when record() returns. load() accepts each well-formed module; a launch that passes the common
// checks is taken, and ends its event with kUnsupported: the failure path of queues, without a faulty kernel.
#pragma once

#include "src/device/device.h"

namespace pergola::device {

struct NullDeviceOptions {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // allocations beyond it end with kResourceExhausted
};

// Never fails. Thread-safe.
DevicePtr create_null_device(const NullDeviceOptions& options = {});

}  // namespace pergola::device
