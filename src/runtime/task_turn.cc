#include "src/runtime/task_turn.h"

#include "src/runtime/local_task_pool.h"

namespace pergola::runtime {

Status TaskTurn::comes_after(ArrayTasks& tasks) {
  if (!session_.has_open_tasks_of(tasks)) return {};
  if (!may_follow_ || session_.tasks()->is_idle()) {
    return is_hosts_ ? session_.end_tasks_of(tasks) : session_.await_tasks_of(tasks);
  }
  follows_ = true;
  arrays_.push_back(&tasks);
  return {};
}

Status TaskTurn::comes_after_all() {
  if (!session_.has_tasks()) return {};
  if (!may_follow_ || session_.tasks()->is_idle()) return session_.tasks()->await_all().status();
  follows_ = comes_after_all_ = true;
  return {};
}

Status TaskTurn::take() {
  if (!session_.has_tasks()) return {};
  TaskEdges& edges = session_.tasks()->edges();
  if (follows_) {
    behind_ = edges.follow();
    if (!behind_) PERGOLA_TRY(wait());
  } else if (may_follow_) {
    behind_ = edges.join();
  }
  if (!behind_) return acquire();
  session_.note_ordinary_work();
  return {};
}

Status TaskTurn::wait() {
  if (comes_after_all_) return session_.tasks()->await_all().status();
  for (ArrayTasks* const tasks : arrays_) PERGOLA_TRY(session_.await_tasks_of(*tasks));
  return {};
}

Status TaskTurn::submitted() {
  if (!behind_ || !session_.tasks()->edges().has_left(*behind_)) return {};
  return session_.quiet_tasks().status();
}

Status TaskTurn::acquire() {
  if (behind_) return {};
  PERGOLA_ASSIGN(quiet_, session_.quiet_tasks());
  return {};
}

}  // namespace pergola::runtime
