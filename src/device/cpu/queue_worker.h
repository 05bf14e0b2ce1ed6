// The thread behind a queue: runs its tasks in order, keeps its failure, and ends it without ever hanging.
//
//   submit() ─▶ [task][task][task] ─▶ worker thread: run, or skip where an earlier one failed ─▶ ended
//
// run_now(), where nothing is queued, runs a short task on the calling thread; tasks submitted meanwhile wait for it.
//
// Shared by its queue and its thread, so that a kernel that ignores cancellation can be left behind with all that it
// uses. Lock: mutex_ guards everything but the thread; no task runs and no event ends under it. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "src/base/result.h"
#include "src/device/cpu/block.h"
#include "src/device/failure.h"

namespace pergola::device::cpu {

class CpuDevice;
class QueueWorker;

// A piece of queued work. Run, or skipped, and destroyed by one thread.
class Task {
 public:
  virtual ~Task() = default;
  virtual Status run(QueueWorker& worker) = 0;
  // True for what runs behind a failure too: events end all the same.
  virtual bool runs_always() const { return false; }
};

class QueueWorker {
 public:
  static std::shared_ptr<QueueWorker> start(std::shared_ptr<CpuDevice> device);
  explicit QueueWorker(std::shared_ptr<CpuDevice> device) : device_(std::move(device)) {}
  QueueWorker(const QueueWorker&) = delete;
  QueueWorker& operator=(const QueueWorker&) = delete;

  // Blocks while kMostPending tasks are queued. kDeviceLost after cancel().
  Status submit(std::unique_ptr<Task> task);
  // Runs `task` here and now where nothing is queued; false where it must be submitted instead.
  bool run_now(Task& task);
  // Waits for all work submitted so far; takes the failure.
  Status synchronize();
  // What an event that ends now ends with.
  Status outcome();

  // outcome(), where all work submitted so far has ended; else empty.
  std::optional<Status> poll();

  // Ends the queue for good: the running launch is stopped, what is queued is skipped, `why` is the error of both.
  void cancel(const Error& why);
  // Waits for the work, cancels it where every kernel of the device has only waited for `grace`, ends the thread.
  // Once, by the owning queue.
  void close(std::chrono::milliseconds grace);

  // For tasks: registers what is running now, so that cancel() reaches it. kDeviceLost where it is too late.
  Status begin_launch(FaultSlot& fault);
  void end_launch();
  bool cancelled() const;

  CpuDevice& device() const { return *device_; }

 private:
  static constexpr std::size_t kMostPending = 16384;
  static constexpr std::chrono::microseconds kLookFor{20};

  void loop();
  // Waking a thread costs the one that wakes it some microseconds: so the thread looks for more work before it sleeps.
  void look_for_work(std::unique_lock<std::mutex>& lock);
  bool idle() const { return submitted_ == ended_; }  // under mutex_
  bool await_idle(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds grace);

  const std::shared_ptr<CpuDevice> device_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_, has_ended_;
  std::deque<std::unique_ptr<Task>> tasks_;
  std::uint64_t submitted_ = 0, ended_ = 0;  // tasks ever; they end in order
  std::atomic<std::uint64_t> arrived_{0};    // grows with every task. Relaxed: what it tells is looked at under mutex_
  bool running_here_ = false;                // run_now() is at work: the thread leaves tasks_ alone
  bool stop_ = false;
  FailureState failure_;
  Status cancelled_;                         // why, once cancel() was called
  FaultSlot* running_fault_ = nullptr;       // of the launch that runs now
  bool waiting_for_event_ = false;
  std::thread thread_;                       // started and joined by the queue's owner

  friend class WaitTask;
};

}  // namespace pergola::device::cpu
