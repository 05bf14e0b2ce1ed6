// Processes that were forked from one that uses devices.
//
// A forked child has the parent's memory and none of its threads: queues whose worker is gone never end, locks that
// another thread held stay locked, and a GPU's context belongs to the parent. So nothing of Pergola can work there, and
// the C interface refuses every call instead of waiting for ever (capi/guard.h). exec() and children forked before the
// first session are not touched.
#pragma once

#include <condition_variable>
#include <string_view>
#include <utility>

namespace pergola {

// From now on a forked child knows that it is one. Called when a session is made. Thread-safe.
void watch_for_fork();

// True in a child that was forked after watch_for_fork(). Thread-safe.
bool is_forked_child();

// What to tell the caller there.
std::string_view forked_child_message();

// A condition variable that threads of the library wait for. A forked child leaves it undestroyed: destroying one waits
// for its waiters, which are threads of the parent.
template <typename Condition>
class BasicForkedCondition {
 public:
  BasicForkedCondition() : condition_(new Condition) {}
  ~BasicForkedCondition() {
    if (!is_forked_child()) delete condition_;
  }
  BasicForkedCondition(const BasicForkedCondition&) = delete;
  BasicForkedCondition& operator=(const BasicForkedCondition&) = delete;

  template <typename... Args>
  void wait(Args&&... args) {
    condition_->wait(std::forward<Args>(args)...);
  }
  template <typename... Args>
  auto wait_for(Args&&... args) {
    return condition_->wait_for(std::forward<Args>(args)...);
  }
  template <typename... Args>
  auto wait_until(Args&&... args) {
    return condition_->wait_until(std::forward<Args>(args)...);
  }
  void notify_all() { condition_->notify_all(); }

 private:
  Condition* const condition_;
};

using ForkedCondition = BasicForkedCondition<std::condition_variable>;
using AnyForkedCondition = BasicForkedCondition<std::condition_variable_any>;  // of locks of any type

}  // namespace pergola
