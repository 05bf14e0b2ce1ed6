// What one launch, fill or copy does about tasks while it is submitted:
//
//   comes_after(tasks of an array) ... ─▶ take() ─┬─▶ behind(): its stream waits for tasks (task_edges.h)
//                                                 └─▶ the tasks have ended; the resident kernel is away till the end
//   scheduler::submit ─▶ submitted()
//
// It goes behind tasks where it comes after some, and where a resident kernel stays for others' sake, which it would
// have to wait for. Else the calling thread waits: for the kernel's leaving, and for tasks where TaskEdges::follow()
// says that the host has to.
//
// The submitting thread's.
#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>

#include "src/runtime/local_session.h"
#include "src/runtime/task_edges.h"

namespace pergola::runtime {

class TaskTurn final : public scheduler::HeldFromTasks {
 public:
  // `may_follow`: nothing keeps the work from being queued now and run later. `is_hosts`: it is an access of the host,
  // which is told of tasks that have failed; other work runs, whatever those ended with, and leaves it to the host's
  // next wait to be told.
  TaskTurn(LocalSession& session, bool may_follow, bool is_hosts = false)
      : session_(session), may_follow_(may_follow), is_hosts_(is_hosts) {}

  // The work uses an array that these have been given. An error where a resident kernel is lost.
  Status comes_after(ArrayTasks& tasks);
  Status comes_after_all();
  // After tasks that the scheduler knows of (tasks=small); it waits for those that behind() does not cover.
  void comes_after_launches() { follows_ = true; }
  bool follows() const { return follows_; }

  // Right before the work is submitted.
  Status take();
  const scheduler::BehindTasks* behind() const { return behind_ ? &*behind_ : nullptr; }
  // Once it has been, which may have been too late for the gate that it is behind.
  Status submitted();

  // What keeps a resident kernel away, while the scheduler waits for its tasks.
  void release() override { quiet_.reset(); }
  Status acquire() override;

 private:
  Status wait();

  LocalSession& session_;
  const bool may_follow_, is_hosts_;
  bool follows_ = false, comes_after_all_ = false;
  boost::container::small_vector<ArrayTasks*, 4> arrays_;
  std::optional<TaskEdges::Behind> behind_;
  LocalSession::Quiet quiet_;
};

}  // namespace pergola::runtime
