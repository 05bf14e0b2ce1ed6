// Completion of queued work, and the error it ended with.
//
//          record()            device                      first error of the work before it, or of a dependency
//   (new) ─────────▶ pending ─────────▶ complete | failed
//
// An event covers the work that its queue took since the event before it, and carries the *first* error of that work.
// Work queued behind a failure in the same queue is not run: its events fail as kSkipped and quote the cause, until
// Queue::synchronize() has reported the error (failure.h keeps this for a queue).
// An event that nobody else has may be recorded again by Queue::launch_between(): it is pending again, for later work.
// Thread-safe. Shared: whoever waits keeps it alive.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "src/base/result.h"

namespace pergola::device {

class Event {
 public:
  virtual ~Event() = default;

  // Empty while pending; else how the work ended. Never blocks.
  virtual std::optional<Status> poll() = 0;
  // Blocks until the work has ended, or `timeout` is over (kTimeout; the work goes on).
  virtual Status wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) = 0;
  // Nanoseconds on the device from `start`'s completion to this one's; both must have completed on one device.
  virtual Result<double> elapsed_ns(const Event& start) = 0;
};

using EventPtr = std::shared_ptr<Event>;

}  // namespace pergola::device
