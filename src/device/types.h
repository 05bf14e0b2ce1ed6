// Plain values that every device speaks of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pergola::device {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

// An address that a kernel may dereference. On the CPU device it is a host address.
using DeviceAddress = std::uint64_t;

enum class DeviceKind : std::uint8_t { kNull, kCpu, kCuda };

// Of memory that both sides use (MemoryKind::kManaged).
enum class ManagedAccess : std::uint8_t {
  kNone,        // the device has none
  kRestricted,  // visible to the host, or to one queue: the host may not touch what a queue with work can see
  kConcurrent,  // whoever touches it gets it, at any time
};

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kNull;
  std::string id;    // as in PERGOLA_DEVICE: "null", "cpu", "cuda:0"
  std::string name;  // "NVIDIA H200", "CPU (interpreter)", ...
  std::string driver;  // version text, for reports
  std::uint32_t compute_major = 0, compute_minor = 0;  // what the PTX's .target is held against
  std::uint32_t sm_count = 0;
  std::uint32_t warp_size_threads = 32;
  std::uint32_t max_threads_per_block = 1024;
  Dim3 max_block{1024, 1024, 64};
  Dim3 max_grid{0x7fffffff, 65535, 65535};
  std::uint32_t max_shared_bytes_per_block = 0;  // static + dynamic, opted in
  std::uint32_t max_blocks_per_sm = 0;
  std::uint32_t max_cluster_blocks = 0;          // 0: the device has no thread block clusters
  std::uint64_t memory_bytes = 0;
  ManagedAccess managed = ManagedAccess::kNone;
};

// How one grid is launched. Shared memory beyond the static is in bytes.
struct LaunchConfig {
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;   // all blocks co-resident, grid-wide barriers allowed; refused where they do not fit
  bool programmatic = false;  // may start before the launch ahead of it has finished (programmatic dependent launch)
  Dim3 cluster{0, 0, 0};      // 0: none
  bool operator==(const LaunchConfig&) const = default;
};

}  // namespace pergola::device
