// The CUDA device: an NVIDIA GPU, through the driver's API.
//
// The driver is opened when a device is created and never linked: without one, everything else of the program works.
// README.md says which calls wait for a kernel that stays resident, and what a lost device means.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/base/end_grace.h"
#include "src/device/device.h"

namespace pergola::device {

struct CudaDeviceOptions {
  std::string driver_library;           // empty: libcuda.so.1
  bool exact_rounding = true;           // src/device/cuda/exact_rounding.h; false lets the driver contract
  unsigned optimization_level = 4;      // of the driver's compiler: 0 (to rule its optimiser out) to 4
  bool packs_memory = true;             // src/device/cuda/device_arena.h; false: each buffer is the driver's own
  // How long a queue that is destroyed waits while nothing of its work is seen to end. Its stream is left then.
  std::chrono::milliseconds end_grace = kEndGrace;

  // $PERGOLA_CUDA_OPTIMIZATION 0 to 4, $PERGOLA_CUDA_ROUNDING exact or driver, $PERGOLA_CUDA_MEMORY packed or driver,
  // $PERGOLA_END_GRACE_MS; kInvalidArgument for anything else.
  static Result<CudaDeviceOptions> from_environment();
};

// GPU number `ordinal`, as CUDA_VISIBLE_DEVICES shows them. kUnavailable says why there is none and what to do.
// Two devices of one ordinal share the GPU's primary context, and with it a fault.
Result<DevicePtr> create_cuda_device(int ordinal, const CudaDeviceOptions& options = {});

// What `pergola doctor` tells: never fails, starts no work, makes no context.
struct CudaStatus {
  bool available = false;      // a driver that works and at least one GPU
  std::string reason;          // why not; empty where available
  std::string driver_library;  // the file; empty where none was opened
  std::string driver_version;  // "CUDA 13.0, driver 580.95.05"
  struct Gpu {
    int ordinal = 0;
    std::string name;
    std::uint32_t compute_major = 0, compute_minor = 0;
    std::uint64_t memory_bytes = 0;
  };
  std::vector<Gpu> gpus;
};
CudaStatus cuda_status(const std::string& driver_library = {});

}  // namespace pergola::device
