// The checks that every device makes before it queues work, so that the same mistake ends with the same code and the
// same sentence on each of them.
//
// All functions are pure and thread-safe. An error names the value that is wrong, what it was, and what it may be:
//   kInvalidArgument    a value that is wrong on any device, or beyond what DeviceInfo allows
//   kResourceExhausted  shared memory, threads or blocks that the device does not have at once
//   kUnsupported        a feature that the device lacks
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/result.h"
#include "src/device/buffer.h"
#include "src/device/graph.h"
#include "src/device/kernel.h"
#include "src/device/types.h"
#include "src/ptx/module.h"

namespace pergola::device {

// Grid, block, cluster, shared memory and parameter size against the device and the kernel's own directives
// (.maxntid, .reqntid, .reqnctapercluster). For a cooperative launch also that all blocks fit at once, by
// Kernel::max_resident_blocks_per_sm().
Status validate_launch(const DeviceInfo& info, const Kernel& kernel, const LaunchConfig& config,
                       std::size_t parameter_bytes);
// Of these the grid's and the block's dimensions, one by one, against the device's alone.
Status validate_extents(const DeviceInfo& info, std::string_view kernel, const LaunchConfig& config);

// That [offset, offset + size) lies in the buffer. `what` names the range in the message: "destination", "source".
Status validate_range(std::string_view what, const Buffer* buffer, std::size_t offset_bytes, std::size_t size_bytes);

// That the module's .target is this device's architecture or an earlier one; sm_NNa is held to its own (ISA 11.1.2); and
// that its addresses have 64 bits. kUnsupported names both.
Status validate_target(const DeviceInfo& info, const ptx::Module& module, std::string_view name);

// Both ranges, and that they do not overlap where the buffer is the same.
Status validate_copy(const Buffer* destination, std::size_t destination_offset_bytes, const Buffer* source,
                     std::size_t source_offset_bytes, std::size_t size_bytes);

// The range, and that pattern_bytes is 1, 2 or 4, divides offset and size, and holds the pattern.
Status validate_fill(const Buffer* buffer, std::size_t offset_bytes, std::size_t size_bytes, std::uint32_t pattern,
                     std::uint32_t pattern_bytes);

// Every node by the checks above, and that it comes after earlier nodes only.
Status validate_graph(const DeviceInfo& info, const GraphSpec& spec);

// Checks update_parameters()'s arguments against the spec.
Status validate_update(const GraphSpec& spec, NodeId node, std::size_t parameter_bytes);

// Writes the little-endian pattern over and over; the bytes of `destination` are a multiple of pattern_bytes.
void expand_fill(std::span<std::byte> destination, std::uint32_t pattern, std::uint32_t pattern_bytes);

// "(4, 2, 1)", for messages.
std::string to_string(const Dim3& dim);

}  // namespace pergola::device
