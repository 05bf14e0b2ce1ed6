// How a graph of two launches would be made on a GPU (docs/blocks.md), for `pergola analyze` and `pergola explain`
// alike: what runtime::BlockWays asks of kernels, launches and the device, without making anything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/device/device.h"
#include "src/ptx/module.h"
#include "tools/pergola/analyze_blocks.h"

namespace pergola::tool {

// Whose limits count: those of the device where that is a GPU; else, as no other device has such graphs, those of an
// NVIDIA H200, and `assumed` says so.
struct GpuLimits {
  device::DevicePtr gpu;  // null where they are assumed
  std::string id;         // of the device that was asked for
  std::string assumed;    // "" where they are a device's own
  std::uint32_t sm_count = 132, blocks_per_sm = 32, threads_per_sm = 2048;
  std::uint64_t shared_bytes_per_sm = 228u << 10, shared_bytes_per_block = 227u << 10, reserved_shared_bytes = 1024;
};
GpuLimits gpu_limits(const device::DevicePtr& device);

struct LaunchPair {
  struct Launch {
    std::string plain_reason;              // why it cannot start early; "" where it can
    std::optional<std::uint64_t> at_once;  // blocks that the device holds at once, where it can tell
    std::string device_refusal;            // why it cannot
  };
  // One of the ways beside plain, early and by-block.
  struct Other {
    std::string way;
    bool is_possible = false;
    std::string why;  // in how many columns, or why not
  };
  std::string way;  // the first of by-block, early and plain that they can be
  std::string why;
  std::string waits_for;   // of the first: "all", "blocks" or "nothing"
  std::string all_reason;  // why for all; "" where it does not
  Launch launches[2];
  std::vector<Other> others;
};

// Two launches, the later after the earlier; `ptx` is the module's text.
Result<LaunchPair> launch_pair(const ptx::Module& module, std::string_view ptx,
                               std::span<const AnalysedLaunch> launches, const device::DevicePtr& device,
                               const GpuLimits& limits);

// "in a graph: by-block, ...", and whose limits that is said of.
std::string way_text(const LaunchPair& pair, const GpuLimits& limits);

}  // namespace pergola::tool
