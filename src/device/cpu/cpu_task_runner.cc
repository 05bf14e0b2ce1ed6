#include <algorithm>
#include <utility>

#include "src/base/fork.h"
#include "src/device/cpu/task_crew.h"

namespace pergola::device::cpu {
namespace {

// The owner of a crew.
class CpuTaskRunner final : public TaskRunner {
 public:
  CpuTaskRunner(const std::shared_ptr<CpuDevice>& device, std::uint32_t most_threads)
      : grace_(device->options().teardown_grace), crew_(std::make_shared<TaskCrew>(device)) {
    device->add_crew(crew_);
    const std::uint32_t sms = device->info().sm_count;
    crew_->start(most_threads == 0 ? sms : std::min(most_threads, sms));
  }
  ~CpuTaskRunner() override {
    if (has_ended_) return;
    is_forked_child() ? crew_->abandon() : crew_->close(grace_);
  }
  void end() override {
    if (!std::exchange(has_ended_, true)) crew_->close(grace_);
  }
  CpuTaskRunner(const CpuTaskRunner&) = delete;
  CpuTaskRunner& operator=(const CpuTaskRunner&) = delete;

  Result<KindPtr> kind(const ModulePtr& module, const Kernel& kernel, const LaunchConfig& config) override {
    return crew_->kind(module, kernel, config);
  }
  Result<Id> spawn(const KindPtr& kind, std::span<const std::byte> parameters, bool high_priority) override {
    return crew_->spawn(kind, parameters, high_priority, true);
  }
  Result<Id> try_spawn(const KindPtr& kind, std::span<const std::byte> parameters) override {
    return crew_->spawn(kind, parameters, false, false);
  }
  Result<std::uint64_t> handle_of(const KindPtr& kind, bool high_priority) override {
    return crew_->handle_of(kind, high_priority);
  }
  Status wait(Id id, std::optional<std::chrono::nanoseconds> timeout) override {
    return crew_->wait(id, deadline(timeout));
  }
  Result<bool> check(Id id) override { return crew_->check(id); }
  bool has_ended(Id id) override { return *crew_->has_ended(id); }
  std::vector<Id> open_tasks() override { return crew_->open_tasks(); }
  void call_by(Id id, Id as) override { crew_->call_by(id, as); }
  Status wait_all(std::optional<std::chrono::nanoseconds> timeout) override {
    return crew_->wait_all(deadline(timeout));
  }
  std::vector<Id> users_of(DeviceAddress begin, DeviceAddress end) override { return crew_->users_of(begin, end); }
  Status wait_for(std::vector<Id> ids, std::optional<std::chrono::nanoseconds> timeout) override {
    return crew_->wait_for(std::move(ids), deadline(timeout));
  }
  void keep_slices(std::size_t most) override { crew_->keep_slices(most); }
  TaskSlices take_slices() override { return crew_->take_slices(); }
  bool has_untold() override { return crew_->has_untold(); }
  TaskRunnerInfo info() const override { return crew_->info(); }

 private:
  // A timeout beyond the clock's range is for ever.
  static TaskCrew::Deadline deadline(std::optional<std::chrono::nanoseconds> timeout) {
    if (!timeout || *timeout > std::chrono::hours(24 * 365)) return std::nullopt;
    return std::chrono::steady_clock::now() + *timeout;
  }

  const std::chrono::milliseconds grace_;
  bool has_ended_ = false;  // of whoever ends it
  const std::shared_ptr<TaskCrew> crew_;
};

}  // namespace

Result<std::unique_ptr<TaskRunner>> create_task_runner(const DevicePtr& device, std::uint32_t most_threads) {
  auto own = std::dynamic_pointer_cast<CpuDevice>(device);
  if (own == nullptr) return std::unique_ptr<TaskRunner>();
  return std::unique_ptr<TaskRunner>(std::make_unique<CpuTaskRunner>(std::move(own), most_threads));
}

}  // namespace pergola::device::cpu
