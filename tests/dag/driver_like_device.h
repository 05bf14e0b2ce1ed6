// A CPU device that waits as a CUDA driver may (measured on an H200): whoever makes a graph or loads a module waits for
// all that runs, a resident kernel too, and has a lock meanwhile that most other calls need. For tests of what else
// would then never end.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/send_away.h"

namespace pergola {

struct LikeDriver {
  std::shared_mutex lock;  // of most calls, shared; of those that wait for all that runs, alone
  std::mutex mutex;
  std::vector<device::Queue*> queues;  // guarded by mutex
  device::SendAways send_away;

  bool is_idle() {
    const std::lock_guard guard(mutex);
    return std::all_of(queues.begin(), queues.end(), [](device::Queue* queue) { return queue->poll().has_value(); });
  }
  template <typename Call>
  auto when_idle(const Call& call) {
    const std::unique_lock alone(lock);
    while (!is_idle()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return call();
  }
};

class DriverLikeQueue final : public device::Queue {
 public:
  DriverLikeQueue(std::unique_ptr<device::Queue> of, std::shared_ptr<LikeDriver> driver)
      : inner(std::move(of)), driver_(std::move(driver)) {
    const std::lock_guard guard(driver_->mutex);
    driver_->queues.push_back(inner.get());
  }
  ~DriverLikeQueue() override {
    (void)inner->synchronize();
    const std::lock_guard guard(driver_->mutex);
    std::erase(driver_->queues, inner.get());
  }
  Status launch(const device::ModulePtr& module, const device::Kernel& kernel, const device::LaunchConfig& config,
                std::span<const std::byte> parameters) override {
    const std::shared_lock call(driver_->lock);
    return inner->launch(module, kernel, config, parameters);
  }
  Status copy_to_device(const device::BufferPtr& destination, std::size_t offset_bytes,
                        std::span<const std::byte> source) override {
    const std::shared_lock call(driver_->lock);
    return inner->copy_to_device(destination, offset_bytes, source);
  }
  Status copy_to_host(std::span<std::byte> destination, const device::BufferPtr& source,
                      std::size_t offset_bytes) override {
    const std::shared_lock call(driver_->lock);
    return inner->copy_to_host(destination, source, offset_bytes);
  }
  Status copy(const device::BufferPtr& destination, std::size_t destination_offset_bytes,
              const device::BufferPtr& source, std::size_t source_offset_bytes, std::size_t size_bytes) override {
    const std::shared_lock call(driver_->lock);
    return inner->copy(destination, destination_offset_bytes, source, source_offset_bytes, size_bytes);
  }
  Status fill(const device::BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
              std::uint32_t pattern, std::uint32_t pattern_bytes) override {
    const std::shared_lock call(driver_->lock);
    return inner->fill(destination, offset_bytes, size_bytes, pattern, pattern_bytes);
  }
  Status wait(const device::EventPtr& event) override {
    const std::shared_lock call(driver_->lock);
    return inner->wait(event);
  }
  Status wait_for_gate(const device::GatePtr& gate, std::uint32_t number) override {
    const std::shared_lock call(driver_->lock);
    return inner->wait_for_gate(gate, number);
  }
  Result<device::EventPtr> record() override {
    const std::shared_lock call(driver_->lock);
    return inner->record();
  }
  std::optional<Status> poll() override { return inner->poll(); }
  Status synchronize() override { return inner->synchronize(); }
  const std::unique_ptr<device::Queue> inner;

 private:
  const std::shared_ptr<LikeDriver> driver_;
};

class DriverLikeGraph final : public device::ExecutableGraph {
 public:
  DriverLikeGraph(std::unique_ptr<device::ExecutableGraph> of, std::shared_ptr<LikeDriver> driver)
      : inner_(std::move(of)), driver_(std::move(driver)) {}
  Status update_parameters(device::NodeId node, std::span<const std::byte> parameters) override {
    return inner_->update_parameters(node, parameters);
  }
  Status launch(device::Queue& queue) override {
    const std::shared_lock call(driver_->lock);
    return inner_->launch(*static_cast<DriverLikeQueue&>(queue).inner);
  }

 private:
  const std::unique_ptr<device::ExecutableGraph> inner_;
  const std::shared_ptr<LikeDriver> driver_;
};

class DriverLikeDevice final : public device::Device {
 public:
  explicit DriverLikeDevice(device::DevicePtr of) : inner_(std::move(of)) {}
  const device::DeviceInfo& info() const override { return inner_->info(); }
  Result<device::ModulePtr> load(const device::ModuleSource& source) override {
    std::vector<std::shared_ptr<void>> away;
    if (source.when_compiled != nullptr) {
      PERGOLA_TRY((*source.when_compiled)());
    } else {
      PERGOLA_ASSIGN(away, driver_->send_away.without_residents());
    }
    device::ModuleSource compiled = source;
    compiled.when_compiled = nullptr;
    return driver_->when_idle([&] { return inner_->load(compiled); });
  }
  Result<device::BufferPtr> allocate(std::size_t size_bytes, device::MemoryKind kind) override {
    const std::shared_lock call(driver_->lock);
    return inner_->allocate(size_bytes, kind);
  }
  Result<device::TexturePtr> create_texture(const device::TextureDescription& description) override {
    return inner_->create_texture(description);
  }
  Result<std::unique_ptr<device::Queue>> create_queue() override {
    const std::shared_lock call(driver_->lock);
    PERGOLA_ASSIGN(std::unique_ptr<device::Queue> queue, inner_->create_queue());
    return std::unique_ptr<device::Queue>(std::make_unique<DriverLikeQueue>(std::move(queue), driver_));
  }
  Result<device::GatePtr> create_gate() override { return inner_->create_gate(); }
  Result<std::unique_ptr<device::ExecutableGraph>> instantiate(device::GraphSpec spec) override {
    PERGOLA_ASSIGN(const auto away, driver_->send_away.without_residents());
    PERGOLA_ASSIGN(auto graph, driver_->when_idle([&] { return inner_->instantiate(std::move(spec)); }));
    return std::unique_ptr<device::ExecutableGraph>(std::make_unique<DriverLikeGraph>(std::move(graph), driver_));
  }
  Status health() const override { return inner_->health(); }
  void add_resident(const void* owner, const SendAway& send_away) override { driver_->send_away.add(owner, send_away); }
  void remove_resident(const void* owner) override { driver_->send_away.remove(owner); }

 private:
  const device::DevicePtr inner_;
  const std::shared_ptr<LikeDriver> driver_ = std::make_shared<LikeDriver>();
};

}  // namespace pergola
