// What queues and graphs do: launches, copies and fills, checked when they are made and run later.
//
// Each holds its modules and buffers. make() does every check that can be done before running (validate.h) and that
// all handles are of `device`. run() is thread-compatible.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "src/device/cpu/aligned_bytes.h"
#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/cpu_module.h"
#include "src/device/graph.h"

namespace pergola::device::cpu {

class CpuDevice;
class QueueWorker;

// What a struct parameter may be aligned to (a 64-byte descriptor, and room to spare).
inline constexpr std::size_t kParameterAlignBytes = 128;

// A launch that can be: the kernel as this device has it, and what a block of it takes.
struct CheckedLaunch {
  const CpuKernel* kernel = nullptr;  // of the module it was checked with
  std::uint32_t shared_bytes = 0;
};
// Every check of a launch that needs no arguments but their size; errors say that `what` of `device` takes it.
Result<CheckedLaunch> check_launch(const CpuDevice& device, const ModulePtr& module, const Kernel& kernel,
                                   const LaunchConfig& config, std::size_t parameter_bytes, std::string_view what);

// The launch as the runner takes it, but for a grid's workspace. What it is given outlives it.
Launch launch_of(CpuDevice& device, const CpuKernel& kernel, const LaunchConfig& config,
                 std::span<const std::byte> parameters, FaultSlot& fault, PrintBuffer& print);

class LaunchWork {
 public:
  static Result<LaunchWork> make(CpuDevice& device, const ModulePtr& module, const Kernel& kernel,
                                 const LaunchConfig& config, std::span<const std::byte> parameters);
  Status run(QueueWorker& worker) const;
  // The size is checked by the caller (validate_update).
  void set_parameters(std::span<const std::byte> parameters);

 private:
  LaunchWork() = default;
  ModulePtr module_;  // keeps kernel_
  const CpuKernel* kernel_ = nullptr;
  LaunchConfig config_;
  std::uint32_t shared_bytes_ = 0;
  AlignedBytes parameters_;
  std::size_t parameter_bytes_ = 0;
};

class CopyWork {
 public:
  static Result<CopyWork> make(CpuDevice& device, const CopyNode& node);
  Status run() const;

 private:
  CopyNode node_;
};

class FillWork {
 public:
  static Result<FillWork> make(CpuDevice& device, const FillNode& node);
  Status run() const;

 private:
  FillNode node_;
};

// `buffer` as one of `device`; kInvalidArgument where it is null or of another device.
Result<CpuBuffer*> own_buffer(const CpuDevice& device, const BufferPtr& buffer);

}  // namespace pergola::device::cpu
