// The shape of a CPU device's virtual GPU, and what it is limited to.
#pragma once

#include <chrono>
#include <cstdint>

#include "src/base/end_grace.h"
#include "src/base/result.h"
#include "src/device/cpu/grid_runner.h"
#include "src/device/cpu/print.h"

namespace pergola::device::cpu {

struct CpuOptions {
  std::uint32_t sms = 0;             // OS threads that run blocks; 0: one per hardware thread
  std::uint32_t blocks_per_sm = 32;  // resident blocks of each; the H200's 2048 threads and 228 KiB per SM hold too
  Occupancy occupancy = Occupancy::kPerLaunch;
  std::uint32_t max_shared_bytes_per_block = 227 * 1024;
  std::uint64_t heap_bytes = std::uint64_t{8} << 20;  // malloc() in kernels, all launches together
  std::uint64_t memory_bytes = 0;                     // buffers; 0: the host's physical memory
  // What buffers begin at a multiple of: 256, as pergola.h promises, or a lower power of two from 16 on, which lets guard
  // pages see what a kernel reads or writes past the end of a buffer to so many bytes.
  std::uint32_t buffer_align_bytes = 256;
  std::uint64_t step_budget = 1 << 16;
  // How long every resident block of a launch may only wait before the launch fails and says where each warp stands;
  // 0: for ever, as a kernel may well wait for the host for hours. A loop that looks at nothing is no waiting.
  std::chrono::milliseconds watchdog{0};
  // How long a launch may run in all before it fails and says where its threads stand, whatever they do; 0: for ever.
  std::chrono::milliseconds time_limit{0};
  // The interpreter, with races in shared memory and reads of it before any write as faults (interpreter/shared_check.h).
  // Read by whoever chooses the engine.
  bool check = false;
  PrintOutput::Sink print_sink;                       // printf in kernels; none: standard output
  // How long a queue that is destroyed bears a kernel of which every block only waits, before it is cancelled. All queues
  // that go one after the other share it.
  std::chrono::milliseconds teardown_grace = kEndGrace;

  // PERGOLA_CPU_SMS, PERGOLA_CPU_BLOCKS_PER_SM, PERGOLA_CPU_OCCUPANCY=per-launch|shared, PERGOLA_CPU_HEAP_BYTES,
  // PERGOLA_CPU_MEMORY_BYTES, PERGOLA_CPU_BUFFER_ALIGN, PERGOLA_CPU_CHECK=0|1,
  // PERGOLA_CPU_WATCHDOG=seconds, PERGOLA_CPU_TIME_LIMIT=seconds, PERGOLA_END_GRACE_MS; what is not set keeps its default. kInvalidArgument
  // names the variable and its value.
  static Result<CpuOptions> from_environment();
};

}  // namespace pergola::device::cpu
