#include "src/runtime/small_tasks.h"

#include <algorithm>

#include "src/base/fork.h"
#include "src/base/log.h"
#include "src/runtime/local_session.h"
#include "src/runtime/local_task_pool.h"

namespace pergola::runtime {

class SmallForm final : public scheduler::TaskForm, public std::enable_shared_from_this<SmallForm> {
 public:
  SmallForm(SmallTasks& tasks, std::shared_ptr<const std::string> ptx, session::KernelInfo info,
            device::ModulePtr module, const device::Kernel& kernel, const session::LaunchShape& of)
      : shape(of),
        tasks_(tasks),
        ptx_(std::move(ptx)),
        info_(std::move(info)),
        module_(std::move(module)),
        kernel_(kernel) {}

  State state() override {
    if (!asked_.exchange(true, std::memory_order_relaxed)) tasks_.make(shared_from_this());
    return state_.load(std::memory_order_acquire);
  }
  std::string refusal() const override {
    return state_.load(std::memory_order_acquire) == State::kRefused ? refusal_ : "";
  }
  Result<scheduler::TaskId> try_spawn(std::span<const std::byte> parameters) override {
    return work_->try_spawn(kind_, parameters);
  }
  Status get_ready() override { return work_->prepare_to_try(); }

  // On the thread of SmallTasks.
  void make(LocalSession& session) {
    const Status made = try_to_make(session);
    if (!made.ok()) {
      refusal_ = made.message();
      PERGOLA_INFO("Launches of kernel '{}' do not run as tasks: {}", info_.name, refusal_);
    }
    state_.store(made.ok() ? State::kReady : State::kRefused, std::memory_order_release);
  }

  const session::LaunchShape shape;

 private:
  Status try_to_make(LocalSession& session) {
    PERGOLA_ASSIGN(work_, session.task_work({}));
    PERGOLA_ASSIGN(kind_, work_->prepare(ptx_, info_, module_, kernel_, shape));
    if (work_->resident() != nullptr && kind_.resident.pieces != 1)
      return PERGOLA_ERROR(kUnsupported, "With this shape it is several tasks.");
    return {};
  }

  SmallTasks& tasks_;
  const std::shared_ptr<const std::string> ptx_;
  const session::KernelInfo info_;
  const device::ModulePtr module_;
  const device::Kernel& kernel_;
  // Written by make(), before `state_` says so.
  std::shared_ptr<TaskWork> work_;
  TaskWork::Kind kind_;
  std::string refusal_;
  std::atomic<State> state_{State::kMaking};
  std::atomic<bool> asked_{false};  // relaxed: only one caller is to be the first
};

SmallTasks::~SmallTasks() {
  if (is_forked_child()) {  // which has no such thread
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool SmallTasks::stop_by(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  stops_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, deadline, [&] { return !makes_; });
}

void SmallTasks::make(std::shared_ptr<SmallForm> form) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back(std::move(form));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void SmallTasks::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || !wanted_.empty(); });
    if (stops_) return;
    std::shared_ptr<SmallForm> form = std::move(wanted_.front());
    wanted_.pop_front();
    makes_ = true;
    lock.unlock();
    form->make(session_);
    form.reset();
    lock.lock();
    makes_ = false;
    changed_.notify_all();
  }
}

void SmallTasks::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return wanted_.empty() && !makes_; });
}

SmallForms::SmallForms(SmallTasks& tasks, std::shared_ptr<const std::string> ptx, const session::KernelInfo& info,
                       device::ModulePtr module, const device::Kernel& kernel)
    : tasks_(tasks), ptx_(std::move(ptx)), info_(info), module_(std::move(module)), kernel_(kernel) {}

std::shared_ptr<scheduler::TaskForm> SmallForms::of(const session::LaunchShape& shape) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<SmallForm>& form : forms_)
    if (form->shape == shape) return form;
  if (forms_.size() == kMost) forms_.erase(forms_.begin());
  return forms_.emplace_back(std::make_shared<SmallForm>(tasks_, ptx_, info_, module_, kernel_, shape));
}

}  // namespace pergola::runtime
