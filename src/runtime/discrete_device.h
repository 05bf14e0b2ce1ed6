// A CPU device whose memory the host does not reach, as a GPU's: everything runs for real, and whatever forgets a copy
// shows. For tests.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "src/device/device.h"

namespace pergola::runtime {

class DiscreteBuffer final : public device::Buffer {
 public:
  explicit DiscreteBuffer(device::BufferPtr real) : inner(std::move(real)) {}
  device::DeviceAddress address() const override { return inner->address(); }
  std::size_t size_bytes() const override { return inner->size_bytes(); }
  device::MemoryKind kind() const override { return device::MemoryKind::kDevice; }
  std::byte* host_pointer() const override { return nullptr; }
  const device::BufferPtr inner;
};

inline device::BufferPtr inner_of(const device::BufferPtr& buffer) {
  const auto* discrete = dynamic_cast<const DiscreteBuffer*>(buffer.get());
  return discrete == nullptr ? buffer : discrete->inner;
}

class DiscreteQueue final : public device::Queue {
 public:
  explicit DiscreteQueue(std::unique_ptr<device::Queue> inner) : inner_(std::move(inner)) {}
  Status launch(const device::ModulePtr& module, const device::Kernel& kernel, const device::LaunchConfig& config,
                std::span<const std::byte> parameters) override {
    return inner_->launch(module, kernel, config, parameters);
  }
  Status copy_to_device(const device::BufferPtr& destination, std::size_t offset_bytes,
                        std::span<const std::byte> source) override {
    return inner_->copy_to_device(inner_of(destination), offset_bytes, source);
  }
  Status copy_to_host(std::span<std::byte> destination, const device::BufferPtr& source,
                      std::size_t offset_bytes) override {
    return inner_->copy_to_host(destination, inner_of(source), offset_bytes);
  }
  Status copy(const device::BufferPtr& destination, std::size_t destination_offset_bytes,
              const device::BufferPtr& source, std::size_t source_offset_bytes, std::size_t size_bytes) override {
    return inner_->copy(inner_of(destination), destination_offset_bytes, inner_of(source), source_offset_bytes,
                        size_bytes);
  }
  Status fill(const device::BufferPtr& destination, std::size_t offset_bytes, std::size_t size_bytes,
              std::uint32_t pattern, std::uint32_t pattern_bytes) override {
    return inner_->fill(inner_of(destination), offset_bytes, size_bytes, pattern, pattern_bytes);
  }
  Status wait(const device::EventPtr& event) override { return inner_->wait(event); }
  Status wait_for_gate(const device::GatePtr& gate, std::uint32_t number) override {
    return inner_->wait_for_gate(gate, number);
  }
  Result<device::EventPtr> record() override { return inner_->record(); }
  std::optional<Status> poll() override { return inner_->poll(); }
  Status synchronize() override { return inner_->synchronize(); }

 private:
  const std::unique_ptr<device::Queue> inner_;
};

class DiscreteDevice final : public device::Device {
 public:
  explicit DiscreteDevice(device::DevicePtr inner) : inner_(std::move(inner)) {}
  const device::DeviceInfo& info() const override { return inner_->info(); }
  Result<device::ModulePtr> load(const device::ModuleSource& source) override { return inner_->load(source); }
  Result<device::BufferPtr> allocate(std::size_t size_bytes, device::MemoryKind kind) override {
    if (kind == device::MemoryKind::kHostVisible && has_no_host_memory)
      return PERGOLA_ERROR(kResourceExhausted, "No page-locked memory is left.");
    PERGOLA_ASSIGN(auto buffer, inner_->allocate(size_bytes, kind));
    if (kind == device::MemoryKind::kHostVisible) return buffer;
    return device::BufferPtr(std::make_shared<DiscreteBuffer>(std::move(buffer)));
  }
  Result<device::TexturePtr> create_texture(const device::TextureDescription& description) override {
    device::TextureDescription inner = description;
    inner.buffer = inner_of(description.buffer);
    return inner_->create_texture(inner);
  }
  Result<std::unique_ptr<device::Queue>> create_queue() override {
    PERGOLA_ASSIGN(auto queue, inner_->create_queue());
    return std::unique_ptr<device::Queue>(std::make_unique<DiscreteQueue>(std::move(queue)));
  }
  Result<device::GatePtr> create_gate() override {
    if (has_no_gates) return PERGOLA_ERROR(kUnsupported, "Queues of the discrete device of the tests cannot wait.");
    return inner_->create_gate();
  }
  Result<std::unique_ptr<device::ExecutableGraph>> instantiate(device::GraphSpec spec) override {
    return PERGOLA_ERROR(kUnsupported, "A graph of {} nodes: the discrete device of the tests runs none.",
                         spec.nodes.size());
  }
  Status health() const override { return inner_->health(); }

  std::atomic<bool> has_no_host_memory{false}, has_no_gates{false};

 private:
  const device::DevicePtr inner_;
};

}  // namespace pergola::runtime
