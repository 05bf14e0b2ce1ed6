// The host's clock, by which turns and waits are timed; tests give one that goes as they say.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace pergola::scheduler {

inline double steady_clock_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class HostClock {
 public:
  HostClock() = default;
  explicit HostClock(std::function<double()> now_ns) : now_ns_(std::move(now_ns)) {}
  double now_ns() const { return now_ns_ ? now_ns_() : steady_clock_ns(); }

 private:
  std::function<double()> now_ns_;  // may be empty
};

}  // namespace pergola::scheduler
