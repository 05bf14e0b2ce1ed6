// Kernels as tasks for launches that go to the session's pool by themselves (policy tasks=small): made on a thread of
// their own, so that no launch waits for a compiler, and kept by kernel and shape. Which launches go there is the
// scheduler's to say (scheduler/task_launches.h).
//
//   form ── state() asked for the first time ─▶ kMaking ── the thread: a pool, a body, a kind ─▶ kReady | kRefused
//
// Ownership: a module holds its kernels' forms, the session the thread; forms hold what they are made of and no module
// of the session's, so that the thread never is the last to hold a session.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/fork.h"
#include "src/device/kernel.h"
#include "src/scheduler/task_launches.h"
#include "src/session/session.h"

namespace pergola::runtime {

class LocalSession;
class SmallForm;

// Of one session. Thread-safe.
class SmallTasks {
 public:
  explicit SmallTasks(LocalSession& session) : session_(session) {}
  ~SmallTasks();  // lets a form that is being made be finished; others stay kMaking
  SmallTasks(const SmallTasks&) = delete;
  SmallTasks& operator=(const SmallTasks&) = delete;

  void make(std::shared_ptr<SmallForm> form);
  // Nothing more is made, and the session not asked for anything. False where a form is still being made then.
  bool stop_by(std::chrono::steady_clock::time_point deadline);
  // For tests: waits until nothing is being made.
  void settle();

 private:
  void run();

  LocalSession& session_;
  std::mutex mutex_;
  ForkedCondition changed_;
  // Guarded by mutex_:
  std::deque<std::shared_ptr<SmallForm>> wanted_;
  bool makes_ = false, stops_ = false;
  std::thread thread_;  // from the first form on
};

// The forms of one kernel, by shape. Thread-safe.
class SmallForms final : public scheduler::TaskForms {
 public:
  // What `kernel` is made of: it is in `module`, and `ptx` is the text of that module alone.
  SmallForms(SmallTasks& tasks, std::shared_ptr<const std::string> ptx, const session::KernelInfo& info,
             device::ModulePtr module, const device::Kernel& kernel);

  std::shared_ptr<scheduler::TaskForm> of(const session::LaunchShape& shape) override;

 private:
  static constexpr std::size_t kMost = 16;  // a further shape takes the place of the first

  SmallTasks& tasks_;
  const std::shared_ptr<const std::string> ptx_;
  const session::KernelInfo& info_;  // the module's, as old as this
  const device::ModulePtr module_;
  const device::Kernel& kernel_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<SmallForm>> forms_;  // guarded by mutex_
};

}  // namespace pergola::runtime
