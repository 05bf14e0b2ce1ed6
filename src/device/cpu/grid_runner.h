// Runs grids on a virtual GPU: one OS thread per virtual SM, each with some blocks resident that take turns.
//
//   run(launch) ── Grid ──┬─▶ SM 0: [block 0][block 2] …  step() each in turn; a finished one makes room for the next
//                         └─▶ SM 1: [block 1][block 3] …  all of them waiting: admit one more, else back off
//
// Blocks are handed out in order of their linear index, in runs of about kRunTime where the execution takes them
// (block.h); what it leaves of a run the SM sets aside and starts block by block from then on. An SM takes a further
// block of a launch only when those it has all wait for something, or when kPatience has passed since the last: blocks
// that run through never share a cache, and blocks that wait for a later one (a spin the tier did not notice included)
// always meet it, up to the residency limit. Cooperative launches are admitted at once, evenly over the SMs.
//
// Residency (the limit per SM) follows the H200: 2048 threads (whole warps), 228 KiB of shared memory with 1 KiB
// kept per block, and a configurable number of blocks. Per launch by default: launches of several queues never take
// each other's room, so none can starve another. Occupancy::kShared counts all launches together and hands blocks out
// strictly in launch order, as a real GPU does: a grid behind one that fills the device and spins waits for ever.
//
// Watchdog. A grid of which every running block has only waited for RunnerOptions::watchdog is ended: each SM reports
// where its blocks stand when the time is over and its own last turn got nowhere; the report that completes the count
// of running blocks raises the fault, and any progress in between begins anew.
//
// Time limit. A grid that has run for RunnerOptions::time_limit is ended, whatever it does: each SM reports where its
// blocks stand once it sees that the time is over, and the report that completes the count of blocks, or the first
// after kReportTime, raises the fault. It needs code that comes back now and then: loop_polls.h has the JIT's part.
//
// Threads. Grids in flight are listed under mutex_; each SM copies what is new when version_ has moved, so handing out
// and finishing blocks is lock-free on the Grid's own word. An idle SM sleeps; a resident block that waits costs a
// short poll each backoff (at most kLongestNap).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/device/cpu/block.h"
#include "src/device/cpu/resident_block.h"

namespace pergola::device::cpu {

enum class Occupancy : std::uint8_t { kPerLaunch, kShared };

struct RunnerOptions {
  std::uint32_t sms = 1;
  std::uint32_t blocks_per_sm = 32;
  std::uint32_t threads_per_sm = 2048;
  std::uint32_t shared_bytes_per_sm = 228 * 1024;
  Occupancy occupancy = Occupancy::kPerLaunch;
  std::uint64_t step_budget = 1 << 16;  // per BlockExecution::step()
  std::chrono::milliseconds watchdog{0};  // of waiting; 0: none
  std::chrono::milliseconds time_limit{0};  // of a launch in all; 0: none
};

inline constexpr std::uint32_t kReservedSharedBytesPerBlock = 1024;

class GridRunner {
 public:
  explicit GridRunner(const RunnerOptions& options);
  ~GridRunner();  // no run() may be in progress
  GridRunner(const GridRunner&) = delete;
  GridRunner& operator=(const GridRunner&) = delete;

  // Blocks of this shape that one SM holds at once; 0 where even one does not fit.
  std::uint32_t resident_blocks_per_sm(std::uint32_t threads, std::uint32_t shared_bytes) const;

  // Runs the whole grid and returns when its last block has ended: the launch's fault, or success. `shared_bytes` is
  // what each block gets in all. `launch` (its fault slot set) and `code` stay valid till then. After a fault, blocks
  // that run stop at their next step and the others never start; raising the fault from outside cancels.
  // A grid of one block runs on the calling thread. Thread-safe.
  Status run(const Launch& launch, const KernelCode& code, std::uint32_t shared_bytes, ProgressFlag* progress = nullptr);

  // Makes every SM look at its fault slots now: call it after raising one from outside.
  void poke();

  const RunnerOptions& options() const { return options_; }

 private:
  void stop();
  struct Grid;
  class SmWorker;

  Status run_here(const Launch& launch, const KernelCode& code, std::uint32_t shared_bytes, ProgressFlag* progress);
  void finish(Grid& grid);

  const RunnerOptions options_;
  std::mutex mutex_;                          // guards grids_, stop_; version_ is written under it
  std::condition_variable changed_;           // SMs sleep on it
  std::vector<std::shared_ptr<Grid>> grids_;  // in flight, in order of submission
  std::uint64_t next_serial_ = 1;
  std::atomic<std::uint64_t> version_{0};     // moves with each submission, poke and stop; release, SMs acquire
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pergola::device::cpu
