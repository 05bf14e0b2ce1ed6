// A CPU device on which whoever waits for an event is overtaken: for tests of what happens when others' work comes, or
// somebody else is told a failure, just while one thread waits. Events call the hooks, in the thread that waits. As
// long as there is one for before a wait, nothing is seen to have ended but by waiting: work that ends before a thread
// comes to it, as on a machine that stood still, would leave nothing to wait for.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "src/device/device.h"

namespace pergola::runtime {

struct OvertakingHooks {
  std::function<void()> before_wait, after_wait;  // may be empty; may change themselves
  std::function<void(device::Queue& inner)> before_record;  // likewise; the queue that records
  bool hide_ends() const { return before_wait != nullptr; }
  static void call(const std::function<void()>& hook) {
    if (const std::function<void()> now = hook; now) now();
  }
};

class OvertakingEvent final : public device::Event {
 public:
  OvertakingEvent(device::EventPtr of, std::shared_ptr<OvertakingHooks> by)
      : inner(std::move(of)), hooks_(std::move(by)) {}
  std::optional<Status> poll() override {
    if (hooks_->hide_ends() && !waited_for_) return std::nullopt;
    return inner->poll();
  }
  Status wait(std::optional<std::chrono::nanoseconds> timeout) override {
    OvertakingHooks::call(hooks_->before_wait);
    const Status ended = inner->wait(timeout);
    waited_for_ = inner->poll().has_value();
    OvertakingHooks::call(hooks_->after_wait);
    return ended;
  }
  Result<double> elapsed_ns(const device::Event& start) override {
    return inner->elapsed_ns(*static_cast<const OvertakingEvent&>(start).inner);
  }
  const device::EventPtr inner;

 private:
  const std::shared_ptr<OvertakingHooks> hooks_;
  std::atomic<bool> waited_for_ = false;
};

class OvertakingQueue final : public device::Queue {
 public:
  OvertakingQueue(std::unique_ptr<device::Queue> of, std::shared_ptr<OvertakingHooks> by)
      : inner_(std::move(of)), hooks_(std::move(by)) {}
  Status launch(const device::ModulePtr& module, const device::Kernel& kernel, const device::LaunchConfig& config,
                std::span<const std::byte> parameters) override {
    return inner_->launch(module, kernel, config, parameters);
  }
  Status copy_to_device(const device::BufferPtr& destination, std::size_t offset_bytes,
                        std::span<const std::byte> source) override {
    return inner_->copy_to_device(destination, offset_bytes, source);
  }
  Status copy_to_host(std::span<std::byte> destination, const device::BufferPtr& source,
                      std::size_t offset_bytes) override {
    return inner_->copy_to_host(destination, source, offset_bytes);
  }
  Status copy(const device::BufferPtr& destination, std::size_t destination_offset_bytes,
              const device::BufferPtr& source, std::size_t source_offset_bytes, std::size_t size_bytes) override {
    return inner_->copy(destination, destination_offset_bytes, source, source_offset_bytes, size_bytes);
  }
  Status fill(const device::BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
              std::uint32_t pattern, std::uint32_t pattern_bytes) override {
    return inner_->fill(destination, offset_bytes, size_bytes, pattern, pattern_bytes);
  }
  Status wait(const device::EventPtr& event) override {
    return inner_->wait(static_cast<const OvertakingEvent&>(*event).inner);
  }
  Status wait_for_gate(const device::GatePtr& gate, std::uint32_t number) override {
    return inner_->wait_for_gate(gate, number);
  }
  Result<device::EventPtr> record() override {
    if (const std::function<void(device::Queue&)> now = hooks_->before_record; now) now(*inner_);
    PERGOLA_ASSIGN(device::EventPtr event, inner_->record());
    return device::EventPtr(std::make_shared<OvertakingEvent>(std::move(event), hooks_));
  }
  std::optional<Status> poll() override {
    if (hooks_->hide_ends()) return std::nullopt;
    return inner_->poll();
  }
  Status synchronize() override { return inner_->synchronize(); }

 private:
  const std::unique_ptr<device::Queue> inner_;
  const std::shared_ptr<OvertakingHooks> hooks_;
};

class OvertakingDevice final : public device::Device {
 public:
  explicit OvertakingDevice(device::DevicePtr of) : inner_(std::move(of)) {}
  OvertakingHooks& hooks() { return *hooks_; }
  const device::DeviceInfo& info() const override { return inner_->info(); }
  Result<device::ModulePtr> load(const device::ModuleSource& source) override { return inner_->load(source); }
  Result<device::BufferPtr> allocate(std::size_t size_bytes, device::MemoryKind kind) override {
    return inner_->allocate(size_bytes, kind);
  }
  Result<device::TexturePtr> create_texture(const device::TextureDescription& description) override {
    return inner_->create_texture(description);
  }
  Result<std::unique_ptr<device::Queue>> create_queue() override {
    PERGOLA_ASSIGN(std::unique_ptr<device::Queue> queue, inner_->create_queue());
    return std::unique_ptr<device::Queue>(std::make_unique<OvertakingQueue>(std::move(queue), hooks_));
  }
  Result<std::unique_ptr<device::ExecutableGraph>> instantiate(device::GraphSpec spec) override {
    return inner_->instantiate(std::move(spec));
  }
  Status health() const override { return inner_->health(); }

 private:
  const device::DevicePtr inner_;
  const std::shared_ptr<OvertakingHooks> hooks_ = std::make_shared<OvertakingHooks>();
};

}  // namespace pergola::runtime
