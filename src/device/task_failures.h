// What is kept of tasks that have failed: the last kMost, each with its error, and whom it has been told to. Whoever
// runs tasks has one: wait(id) and check(id) tell a task's own error, wait_all() those that nobody has been told of,
// once. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace pergola::device {

class TaskFailures {
 public:
  using Id = std::uint64_t;
  static constexpr std::size_t kMost = 1 << 16;

  // Told as "Task 0x... has failed: " and the message. The first of an id counts.
  void add(Id id, Code code, std::string_view message);
  // What is known of `id` is of `as`.
  void rename(Id id, Id as);
  // From now on messages call the task `id` by the number `as`, which is what its spawner knows. The last kMost count.
  void call_by(Id id, Id as);
  Id called(Id id);  // by messages
  // How the task, which has ended, ended: success where it is not among them.
  Status outcome(Id id);
  // The first error that nobody has been told, and which the others are; success where there is none.
  Status untold();
  bool has_untold();
  std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  struct Failure {
    Code code = Code::kOk;
    std::string message;
    bool told = false;
  };
  Error error(Id id, const Failure& failure) const;
  Id name_of(Id id) const;

  // Written under mutex_; release, before the task's end is seen by those who look here without it.
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;
  std::map<Id, Failure> failed_;  // guarded by mutex_, as the rest
  std::deque<Id> in_order_;
  std::map<Id, Id> names_;
  std::deque<Id> named_;  // keys of names_, oldest first
  std::size_t untold_ = 0;
};

}  // namespace pergola::device
