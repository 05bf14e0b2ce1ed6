#include "src/runtime/local_session.h"

#include <limits>

#include "src/base/log.h"
#include "src/runtime/devices.h"
#include "src/runtime/load.h"
#include "src/runtime/local_array.h"
#include "src/runtime/runtime.h"

namespace pergola::runtime {
namespace {

std::uint64_t next_session_id() {
  static std::atomic<std::uint64_t> counter{1};  // relaxed: only distinct values are wanted
  return counter.fetch_add(1, std::memory_order_relaxed);
}

class LocalEvent final : public session::Event {
 public:
  // `module` owns the name.
  LocalEvent(std::shared_ptr<LocalSession> session, device::EventPtr event, device::ModulePtr module,
             std::string_view kernel)
      : session_(std::move(session)), module_(std::move(module)), event_(std::move(event)), kernel_(kernel) {}

  std::optional<Status> poll() override {
    std::optional<Status> status = event_->poll();
    if (!status || status->ok()) return status;
    return session_->explain(*status, kernel_);
  }

  Status wait(std::optional<std::chrono::nanoseconds> timeout) override {
    Status status = event_->wait(timeout);
    if (status.ok() || status.code() == Code::kTimeout) return status;
    return session_->explain(status, kernel_);
  }

  Result<double> elapsed_ns(const Event& start) override {
    const auto* from = dynamic_cast<const LocalEvent*>(&start);
    if (from == nullptr || from->session_ != session_)
      return PERGOLA_ERROR(kInvalidArgument, "The two events are of different sessions, whose clocks do not compare.");
    return event_->elapsed_ns(*from->event_);
  }

 private:
  const std::shared_ptr<LocalSession> session_;
  const device::ModulePtr module_;
  const device::EventPtr event_;
  const std::string_view kernel_;
};

}  // namespace

LocalSession::LocalSession(device::DevicePtr device, std::unique_ptr<device::Queue> queue)
    : id_(next_session_id()), device_(std::move(device)), queue_(std::move(queue)) {}

LocalSession::~LocalSession() {
  queue_.reset();  // waits for its work, each device in its way
  in_flight_.reap();
  if (const Status& failure = in_flight_.failure(); !failure.ok() && !failure_told_)
    PERGOLA_WARN("a session ends with a failure that nobody asked for: {}", failure.message());
}

Result<std::shared_ptr<LocalSession>> LocalSession::create(device::DevicePtr device) {
  PERGOLA_ASSIGN(auto queue, device->create_queue());
  return std::shared_ptr<LocalSession>(new LocalSession(std::move(device), std::move(queue)));
}

Result<session::ModulePtr> LocalSession::load_file(const std::string& path, const session::LoadOptions& options) {
  PERGOLA_ASSIGN(const LoadRequest request, read_source(path, options));
  return load(shared_from_this(), request);
}

Result<session::ModulePtr> LocalSession::load_text(std::string_view text, const session::LoadOptions& options) {
  return load(shared_from_this(), text_source(text, options));
}

Result<session::ArrayPtr> LocalSession::allocate(session::ElementType type, std::uint32_t element_bytes,
                                                 std::uint64_t count) {
  if (!session::is_valid(type))
    return PERGOLA_ERROR(kInvalidArgument, "{} is no element type.", static_cast<std::int32_t>(type));
  const std::uint32_t usual_bytes = session::size_bytes(type);
  if (type != session::ElementType::kBytes) {
    if (element_bytes != 0 && element_bytes != usual_bytes)
      return PERGOLA_ERROR(kInvalidArgument, "An element of type {} has {} bytes, not {}.", session::to_string(type),
                           usual_bytes, element_bytes);
    element_bytes = usual_bytes;
  } else if (element_bytes == 0) {
    element_bytes = 1;
  }
  if (count > std::numeric_limits<std::uint64_t>::max() / 2 / element_bytes)
    return PERGOLA_ERROR(kResourceExhausted, "An array of {} elements of {} bytes is more than any device has.", count,
                         element_bytes);
  {
    const std::lock_guard lock(submit_mutex_);
    in_flight_.reap();
  }
  PERGOLA_ASSIGN(auto buffer, device_->allocate(count * element_bytes, device::MemoryKind::kDevice));
  return session::ArrayPtr(
      std::make_shared<LocalArray>(shared_from_this(), std::move(buffer), type, element_bytes, count));
}

Result<session::EventPtr> LocalSession::record() {
  const std::lock_guard lock(submit_mutex_);
  PERGOLA_ASSIGN(auto event, queue_->record());
  return session::EventPtr(std::make_shared<LocalEvent>(shared_from_this(), std::move(event), nullptr, ""));
}

Status LocalSession::synchronize() {
  const Status status = queue_->synchronize();
  const std::lock_guard lock(submit_mutex_);
  in_flight_.reap();
  const Status failure = in_flight_.take_failure();
  return failure.ok() ? status : failure;
}

Result<session::EventPtr> LocalSession::launch(const device::ModulePtr& module, const device::Kernel& kernel,
                                               const device::LaunchConfig& config,
                                               std::span<const std::byte> parameters,
                                               std::vector<device::BufferPtr> buffers) {
  const std::string_view name = kernel.signature().name;
  device::EventPtr event;
  {
    const std::lock_guard lock(submit_mutex_);
    in_flight_.reap();
    PERGOLA_TRY(queue_->launch(module, kernel, config, parameters));
    Result<device::EventPtr> recorded = queue_->record();
    if (!recorded.ok()) {
      // Nothing tells when the launch ends, so its buffers may go only after everything has.
      const Status ended = queue_->synchronize();
      return ended.ok() ? recorded.status() : name_kernel(name, ended);
    }
    event = *recorded;
    in_flight_.add({event, module, name, std::move(buffers)});
  }
  return session::EventPtr(std::make_shared<LocalEvent>(shared_from_this(), std::move(event), module, name));
}

Status LocalSession::wait_for_queue() {
  device::EventPtr event;
  {
    const std::lock_guard lock(submit_mutex_);
    PERGOLA_ASSIGN(event, queue_->record());
  }
  const Status status = event->wait();
  return status.ok() ? status : explain(status, "");
}

Status LocalSession::explain(const Status& status, std::string_view kernel) {
  const std::lock_guard lock(submit_mutex_);
  in_flight_.reap();
  failure_told_ = true;
  if (status.code() != Code::kSkipped && !kernel.empty()) return name_kernel(kernel, status);
  const Status& failure = in_flight_.failure();
  if (failure.ok()) return status;
  if (kernel.empty()) return failure;
  return PERGOLA_ERROR(kSkipped, "Kernel '{}' was not run, because work before it failed: {}", kernel,
                       failure.message());
}

Result<session::SessionPtr> create_session(device::DevicePtr device) {
  PERGOLA_ASSIGN(auto session, LocalSession::create(std::move(device)));
  return session::SessionPtr(std::move(session));
}

Result<session::SessionPtr> create_session(std::string_view device_name) {
  PERGOLA_ASSIGN(auto device, open_device(device_name));
  return create_session(std::move(device));
}

}  // namespace pergola::runtime
