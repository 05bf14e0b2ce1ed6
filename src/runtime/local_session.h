// The in-process session.
//
//   Kernel::launch ──┐                       ┌─▶ Event (device's, wrapped: names the kernel that failed)
//   Array::write ────┼─▶ one device::Queue ──┤
//   Array::read ─────┘    (in order)         └─▶ InFlight: keeps buffers until their launch has ended
//
// Ownership: arrays, modules, kernels and events hold the session; the session holds the device and the queue; launches
// in flight hold buffers and device modules, never session objects, so there is no cycle.
// Threads: everything is thread-safe. submit_mutex_ makes a launch and the event after it one step (so that the event
// carries that launch's failure) and guards in_flight_; nobody waits for work under it but InFlight::add at its bound.
#pragma once

#include <atomic>
#include <mutex>

#include "src/device/device.h"
#include "src/runtime/in_flight.h"
#include "src/session/session.h"

namespace pergola::runtime {

class LocalSession final : public session::Session, public std::enable_shared_from_this<LocalSession> {
 public:
  static Result<std::shared_ptr<LocalSession>> create(device::DevicePtr device);
  ~LocalSession() override;

  const device::DeviceInfo& device() const override { return device_->info(); }
  Result<session::ModulePtr> load_file(const std::string& path, const session::LoadOptions& options) override;
  Result<session::ModulePtr> load_text(std::string_view text, const session::LoadOptions& options) override;
  Result<session::ArrayPtr> allocate(session::ElementType type, std::uint32_t element_bytes,
                                     std::uint64_t count) override;
  Result<session::EventPtr> record() override;
  Status synchronize() override;

  // For arrays, kernels and events of this session.
  std::uint64_t id() const { return id_; }
  device::Device& raw_device() { return *device_; }
  device::Queue& queue() { return *queue_; }
  Result<session::EventPtr> launch(const device::ModulePtr& module, const device::Kernel& kernel,
                                   const device::LaunchConfig& config, std::span<const std::byte> parameters,
                                   std::vector<device::BufferPtr> buffers);
  // Waits for the work submitted so far. A skip is told as the failure that caused it.
  Status wait_for_queue();
  // What to tell of work that ended with `status`; `kernel` is "" where it is not a launch.
  Status explain(const Status& status, std::string_view kernel);

 private:
  LocalSession(device::DevicePtr device, std::unique_ptr<device::Queue> queue);

  const std::uint64_t id_;
  device::DevicePtr device_;
  std::mutex submit_mutex_;
  InFlight in_flight_;                    // guarded by submit_mutex_
  bool failure_told_ = false;             // a caller knows of some failure; guarded by submit_mutex_
  std::unique_ptr<device::Queue> queue_;  // destroyed first: it waits for what uses the rest
};

}  // namespace pergola::runtime
