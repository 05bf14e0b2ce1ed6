// The CPU device: a virtual GPU that runs PTX on the host's cores, through a tier that the caller gives it.
//
//   CpuDevice ─┬─ DeviceMemory   what kernels may touch           cpu_buffer.h, memory_map.h
//              ├─ DeviceHeap     malloc in kernels                heap.h
//              ├─ GridRunner     virtual SMs                      grid_runner.h
//              └─ Engine         a tier: interpreter, JIT         block.h
//
// One SM is one OS thread; memory is the host's, both kinds of buffer are reachable by both sides. Thread-safe.
//
// A kernel that spins for ever cannot keep the process: a queue that is destroyed with one stops it after
// CpuOptions::teardown_grace, and exit() cancels all work in flight of every device (process_exit.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/device/cpu/cpu_buffer.h"
#include "src/device/cpu/cpu_options.h"
#include "src/device/cpu/heap.h"
#include "src/device/device.h"

namespace pergola::device::cpu {

class QueueWorker;
class TaskCrew;

// kInvalidArgument where an option is out of range or `engine` is null.
Result<DevicePtr> create_cpu_device(const CpuOptions& options, std::shared_ptr<Engine> engine);

class CpuDevice final : public Device, public std::enable_shared_from_this<CpuDevice> {
 public:
  CpuDevice(const CpuOptions& options, std::shared_ptr<Engine> engine);

  const DeviceInfo& info() const override { return info_; }
  Result<ModulePtr> load(const ModuleSource& source) override;
  Result<BufferPtr> allocate(std::size_t size_bytes, MemoryKind kind) override;
  Result<TexturePtr> create_texture(const TextureDescription& description) override;
  Result<std::unique_ptr<Queue>> create_queue() override;
  Result<GatePtr> create_gate() override;
  Result<std::unique_ptr<ExecutableGraph>> instantiate(GraphSpec spec) override;
  Status health() const override { return {}; }  // a fault ends a launch, never the device
  bool gets_on() override;
  void note_given_up() override;
  // Within the last moment: whoever ends now has most likely been waited for as long.
  bool has_just_given_up() const;

  std::uint64_t staged_bytes() const override { return memory_->staged_bytes.load(std::memory_order_relaxed); }

  // So that cancel_all() reaches it.
  void add_crew(const std::shared_ptr<TaskCrew>& crew);

  // Stops what runs in every queue and crew, for good; `why` becomes its error.
  void cancel_all(const Error& why);

  const CpuOptions& options() const { return options_; }
  const std::shared_ptr<DeviceMemory>& memory() const { return memory_; }
  DeviceHeap& heap() { return heap_; }
  const std::shared_ptr<PrintOutput>& output() const { return output_; }
  Engine& engine() { return *engine_; }
  GridRunner& runner() { return runner_; }
  // Set by every block of any launch that gets on (grid_runner.h).
  ProgressFlag& progress() { return progress_; }
  std::uint64_t next_grid_id() { return next_grid_id_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const CpuOptions options_;
  const DeviceInfo info_;
  const std::shared_ptr<DeviceMemory> memory_;
  DeviceHeap heap_;
  const std::shared_ptr<PrintOutput> output_;
  const std::shared_ptr<Engine> engine_;
  ProgressFlag progress_{false};
  std::atomic<std::chrono::steady_clock::rep> gave_up_at_{0};  // relaxed: it orders nothing
  std::atomic<std::uint64_t> next_grid_id_{1};                 // relaxed: only distinct
  std::mutex mutex_;                                           // guards the two below
  std::vector<std::weak_ptr<QueueWorker>> workers_;
  std::vector<std::weak_ptr<TaskCrew>> crews_;
  GridRunner runner_;  // last: its threads end first
};

}  // namespace pergola::device::cpu
