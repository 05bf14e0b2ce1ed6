// One worker of a task crew: everything in it belongs to its thread.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "src/device/cpu/backoff.h"
#include "src/device/cpu/task_crew.h"

namespace pergola::device::cpu {

class TaskCrew::Worker {
 public:
  Worker(TaskCrew& crew, std::uint32_t index) : crew_(crew), index_(index) {}
  void run();  // until the crew stops

 private:
  using Clock = std::chrono::steady_clock;
  struct Resident {
    Part part;
    std::unique_ptr<ResidentBlock> block;
    Clock::time_point begun{}, moved_at{};  // the latter kept where there is a watchdog
  };
  struct Ended {
    Slot* slot = nullptr;
    Status status;
  };

  bool wants_one() const;
  Part next();  // under the crew's mutex
  void admit(const Part& part);
  bool turn();  // true where anything moved on
  void set_aside(Resident& resident);
  void watch(Resident& resident);
  void retire(std::size_t i);

  TaskCrew& crew_;
  const std::uint32_t index_;
  std::vector<Resident> residents_;
  std::vector<Part> aside_;  // taken, and not begun: what executions left of their runs; begun one by one
  std::vector<Ended> ended_;
  bool all_waiting_ = false;
  Clock::time_point admitted_{};
  ResidentPool pool_;
};

}  // namespace pergola::device::cpu
