#include "src/device/cpu/cpu_queue.h"

#include <chrono>
#include <cstring>
#include <functional>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/cpu_event.h"
#include "src/device/cpu/cpu_gate.h"
#include "src/device/cpu/work.h"
#include "src/device/validate.h"

namespace pergola::device::cpu {

class LaunchTask final : public Task {
 public:
  explicit LaunchTask(LaunchWork work) : work_(std::move(work)) {}
  Status run(QueueWorker& worker) override { return work_.run(worker); }

 private:
  const LaunchWork work_;
};

template <typename Work>
class MemoryTask final : public Task {
 public:
  explicit MemoryTask(Work work) : work_(std::move(work)) {}
  Status run(QueueWorker&) override { return work_.run(); }

 private:
  const Work work_;
};

// A source that had to be copied before the call returned.
class Staged {
 public:
  Staged(std::span<const std::byte> source, std::shared_ptr<DeviceMemory> memory)
      : bytes_(source.begin(), source.end()), memory_(std::move(memory)) {
    memory_->staged_bytes.fetch_add(bytes_.size(), std::memory_order_relaxed);
  }
  ~Staged() { memory_->staged_bytes.fetch_sub(bytes_.size(), std::memory_order_relaxed); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  const std::byte* data() const { return bytes_.data(); }

 private:
  const std::vector<std::byte> bytes_;
  const std::shared_ptr<DeviceMemory> memory_;
};

// Between a buffer of the device and host memory; `own_buffer_` is read or written at `bytes`.
struct HostCopy {
  BufferPtr device_buffer;
  BufferPtr host_buffer;           // kept alive where the host side lies in a kHostVisible buffer
  std::shared_ptr<const Staged> staged{};  // null: it lies where it stays
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t size_bytes = 0;

  Status run() const {
    // memmove: the host side may lie in a host-visible buffer, even in this one.
    if (size_bytes != 0) std::memmove(to, from, size_bytes);
    return {};
  }
};

class RecordTask final : public Task {
 public:
  explicit RecordTask(std::shared_ptr<CpuEvent> event) : event_(std::move(event)) {}
  Status run(QueueWorker& worker) override {
    event_->end(worker.outcome());
    return {};
  }
  bool runs_always() const override { return true; }

 private:
  const std::shared_ptr<CpuEvent> event_;
};

class WaitTask final : public Task {
 public:
  explicit WaitTask(EventPtr event) : event_(std::move(event)) {}
  Status run(QueueWorker& worker) override {
    mark(worker, true);
    Status outcome;
    // In slices, so that cancel() is heeded. kTimeout is also how work ends that the watchdog stopped.
    while (true) {
      outcome = event_->wait(std::chrono::milliseconds(50));
      if (outcome.code() != Code::kTimeout) break;
      if (const std::optional<Status> ended = event_->poll()) {
        outcome = *ended;
        break;
      }
      if (worker.cancelled()) break;
    }
    mark(worker, false);
    if (outcome.ok()) return {};
    return skipped_because(outcome);
  }
  // Whether the worker's task is a wait, which may be for ever.
  static void mark(QueueWorker& worker, bool waiting) {
    const std::scoped_lock lock(worker.mutex_);
    worker.waiting_for_event_ = waiting;
  }

 private:
  const EventPtr event_;
};

class GateTask final : public Task {
 public:
  GateTask(std::shared_ptr<CpuGate> gate, std::uint32_t number) : gate_(std::move(gate)), number_(number) {}
  Status run(QueueWorker& worker) override {
    WaitTask::mark(worker, true);
    while (!gate_->wait(number_, std::chrono::milliseconds(50)) && !worker.cancelled()) continue;
    WaitTask::mark(worker, false);
    return {};
  }

 private:
  const std::shared_ptr<CpuGate> gate_;
  const std::uint32_t number_;
};

namespace {

// A copy or fill: at once where nothing is ahead of it, which saves waking a thread.
template <typename Work>
Status run_or_submit(QueueWorker& worker, Work work) {
  auto task = std::make_unique<MemoryTask<Work>>(std::move(work));
  if (worker.run_now(*task)) return {};
  return worker.submit(std::move(task));
}

}  // namespace

CpuQueue::~CpuQueue() { worker_->close(device().options().teardown_grace); }

Status CpuQueue::launch(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config,
                        std::span<const std::byte> parameters) {
  PERGOLA_ASSIGN(LaunchWork work, LaunchWork::make(device(), module, kernel, config, parameters));
  return worker_->submit(std::make_unique<LaunchTask>(std::move(work)));
}

Status CpuQueue::copy_to_device(const BufferPtr& destination, std::size_t offset_bytes,
                                std::span<const std::byte> source) {
  PERGOLA_ASSIGN(CpuBuffer * to, own_buffer(device(), destination));
  PERGOLA_TRY(validate_range("destination", to, offset_bytes, source.size()));
  HostCopy copy{.device_buffer = destination, .to = to->bytes() + offset_bytes, .from = source.data(),
                .size_bytes = source.size()};
  {
    MemoryTask<HostCopy> now(copy);
    if (worker_->run_now(now)) return {};
  }
  copy.host_buffer = device().memory()->host_visible(source.data(), source.size());
  if (copy.host_buffer == nullptr) {
    copy.staged = std::make_shared<const Staged>(source, device().memory());
    copy.from = copy.staged->data();
  }
  return worker_->submit(std::make_unique<MemoryTask<HostCopy>>(std::move(copy)));
}

Status CpuQueue::copy_to_host(std::span<std::byte> destination, const BufferPtr& source, std::size_t offset_bytes) {
  PERGOLA_ASSIGN(CpuBuffer * from, own_buffer(device(), source));
  PERGOLA_TRY(validate_range("source", from, offset_bytes, destination.size()));
  return run_or_submit(*worker_,
                       HostCopy{.device_buffer = source,
                                .host_buffer = device().memory()->host_visible(destination.data(), destination.size()),
                                .to = destination.data(), .from = from->bytes() + offset_bytes,
                                .size_bytes = destination.size()});
}

Status CpuQueue::copy(const BufferPtr& destination, std::size_t destination_offset_bytes, const BufferPtr& source,
                      std::size_t source_offset_bytes, std::size_t size_bytes) {
  PERGOLA_ASSIGN(CopyWork work, CopyWork::make(device(), {destination, destination_offset_bytes, source,
                                                          source_offset_bytes, size_bytes}));
  return run_or_submit(*worker_, std::move(work));
}

Status CpuQueue::fill(const BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
                      std::uint32_t pattern, std::uint32_t pattern_bytes) {
  PERGOLA_ASSIGN(FillWork work,
                 FillWork::make(device(), {destination, offset_bytes, size_bytes, pattern, pattern_bytes}));
  return run_or_submit(*worker_, std::move(work));
}

Status CpuQueue::wait(const EventPtr& event) {
  auto* own = dynamic_cast<CpuEvent*>(event.get());
  if (own == nullptr || own->device() != device().memory().get()) {
    return PERGOLA_ERROR(kInvalidArgument, "The event is {}.",
                         event == nullptr ? "null" : "of another device; a queue waits for events of its own device");
  }
  const std::optional<Status> ended = own->poll();
  if (ended && ended->ok()) return {};
  return worker_->submit(std::make_unique<WaitTask>(event));
}

Status CpuQueue::wait_for_gate(const GatePtr& gate, std::uint32_t number) {
  auto own = std::dynamic_pointer_cast<CpuGate>(gate);
  if (own == nullptr || own->device() != device().memory().get())
    return PERGOLA_ERROR(kInvalidArgument, "The gate is {}.",
                         gate == nullptr ? "null" : "of another device; a queue waits for gates of its own device");
  return worker_->submit(std::make_unique<GateTask>(std::move(own), number));
}

Result<EventPtr> CpuQueue::record() {
  auto event = std::make_shared<CpuEvent>(device().memory());
  auto task = std::make_unique<RecordTask>(event);
  if (!worker_->run_now(*task)) PERGOLA_TRY(worker_->submit(std::move(task)));
  return EventPtr(std::move(event));
}

Status CpuQueue::synchronize() { return worker_->synchronize(); }

}  // namespace pergola::device::cpu
