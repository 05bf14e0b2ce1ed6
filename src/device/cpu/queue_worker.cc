#include "src/device/cpu/queue_worker.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/device/cpu/cpu_device.h"

namespace pergola::device::cpu {

using std::chrono::milliseconds;

std::shared_ptr<QueueWorker> QueueWorker::start(std::shared_ptr<CpuDevice> device) {
  auto worker = std::make_shared<QueueWorker>(std::move(device));
  worker->thread_ = std::thread([worker] { worker->loop(); });
  return worker;
}

Status QueueWorker::submit(std::unique_ptr<Task> task) {
  {
    std::unique_lock lock(mutex_);
    has_ended_.wait(lock, [this] { return tasks_.size() < kMostPending || !cancelled_.ok(); });
    PERGOLA_TRY(cancelled_);
    tasks_.push_back(std::move(task));
    ++submitted_;
    arrived_.fetch_add(1, std::memory_order_relaxed);
  }
  has_work_.notify_one();
  return {};
}

bool QueueWorker::run_now(Task& task) {
  bool skip = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!idle() || !cancelled_.ok()) return false;
    ++submitted_;
    running_here_ = true;
    skip = failure_.failed() && !task.runs_always();
  }
  Status status = skip ? Status() : task.run(*this);
  bool more = false;
  {
    const std::scoped_lock lock(mutex_);
    failure_.fail(std::move(status));
    ++ended_;
    running_here_ = false;
    more = !tasks_.empty();
  }
  if (more) has_work_.notify_one();
  has_ended_.notify_all();
  return true;
}

void QueueWorker::look_for_work(std::unique_lock<std::mutex>& lock) {
  if (!tasks_.empty() || stop_) return;
  const std::uint64_t seen = arrived_.load(std::memory_order_relaxed);
  lock.unlock();
  const auto until = std::chrono::steady_clock::now() + kLookFor;
  while (arrived_.load(std::memory_order_relaxed) == seen && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  lock.lock();
}

void QueueWorker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    look_for_work(lock);
    has_work_.wait(lock, [this] { return (!tasks_.empty() && !running_here_) || (stop_ && idle()); });
    if (tasks_.empty()) return;
    std::unique_ptr<Task> task = std::move(tasks_.front());
    tasks_.pop_front();
    const bool skip = failure_.failed() && !task->runs_always();
    lock.unlock();
    Status status = skip ? Status() : task->run(*this);
    task.reset();  // before it counts as ended: whoever has synchronized finds its buffers let go
    lock.lock();
    failure_.fail(std::move(status));
    ++ended_;
    has_ended_.notify_all();
  }
}

Status QueueWorker::synchronize() {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = submitted_;
  has_ended_.wait(lock, [&] { return ended_ >= target; });
  if (!cancelled_.ok()) return cancelled_;  // for good
  return failure_.take();
}

Status QueueWorker::outcome() {
  const std::scoped_lock lock(mutex_);
  return failure_.outcome();
}

std::optional<Status> QueueWorker::poll() {
  const std::scoped_lock lock(mutex_);
  if (!idle()) return std::nullopt;
  return failure_.outcome();
}

void QueueWorker::cancel(const Error& why) {
  bool running = false;
  {
    const std::scoped_lock lock(mutex_);
    if (cancelled_.ok()) cancelled_ = why;
    failure_.fail(why);
    running = running_fault_ != nullptr;
    if (running) running_fault_->raise(why);
  }
  if (running) device_->runner().poke();
  has_ended_.notify_all();
}

Status QueueWorker::begin_launch(FaultSlot& fault) {
  const std::scoped_lock lock(mutex_);
  PERGOLA_TRY(cancelled_);
  running_fault_ = &fault;
  return {};
}

void QueueWorker::end_launch() {
  const std::scoped_lock lock(mutex_);
  running_fault_ = nullptr;
}

bool QueueWorker::cancelled() const {
  const std::scoped_lock lock(mutex_);
  return !cancelled_.ok();
}

// True once all work has ended; false where kernels or events have been waited for during `grace`, and no kernel of
// the device made progress meanwhile or the process ends. Right behind a queue that has waited so long it is a look.
bool QueueWorker::await_idle(std::unique_lock<std::mutex>& lock, milliseconds grace) {
  const milliseconds slice = std::clamp(grace / 8, milliseconds(1), milliseconds(100));
  milliseconds still = device_->has_just_given_up() ? grace - slice : milliseconds(0);
  while (!has_ended_.wait_for(lock, slice, [this] { return idle(); })) {
    const bool may_hang = running_fault_ != nullptr || waiting_for_event_;
    still = device_->gets_on() || !may_hang ? milliseconds(0) : still + slice;
    if (still >= grace) return false;
  }
  return true;
}

void QueueWorker::close(milliseconds grace) {
  std::unique_lock lock(mutex_);
  bool ended = await_idle(lock, grace);
  if (!ended) {
    lock.unlock();
    PERGOLA_WARN("A queue of the CPU device is destroyed while its kernel runs and gets nowhere, or while the process "
                 "ends; the kernel is stopped after {} ms.", grace.count());
    cancel(PERGOLA_ERROR(kDeviceLost, "The queue was destroyed, and this work did not end within {} ms.",
                         grace.count()));
    lock.lock();
    ended = has_ended_.wait_for(lock, std::max(grace, milliseconds(2000)), [this] { return idle(); });
    device_->note_given_up();
  }
  stop_ = true;
  lock.unlock();
  has_work_.notify_one();
  if (ended) {
    thread_.join();
    return;
  }
  PERGOLA_WARN("A kernel of the CPU device does not stop when it is told to; its thread is left behind.");
  thread_.detach();
}

}  // namespace pergola::device::cpu
