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
class ForkedCondition {
 public:
  ForkedCondition() : condition_(new std::condition_variable) {}
  ~ForkedCondition() {
    if (!is_forked_child()) delete condition_;
  }
  ForkedCondition(const ForkedCondition&) = delete;
  ForkedCondition& operator=(const ForkedCondition&) = delete;

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
  std::condition_variable* const condition_;
};

}  // namespace pergola
