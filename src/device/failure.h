// The failure of a queue's work, from the piece that failed to the synchronize() that reports it.
//
//             fail(cause)              first outcome(): the cause        later: kSkipped, quoting the cause
//   (works) ──────────────▶ (failed) ─────────────────────────────▶ (told) ─┐
//      ▲                                                              ▲     │ outcome()
//      └──────────────────────── take(), by synchronize() ────────────┴─────┘
//
// Work that comes while failed() is not run. The event recorded first after the failing piece covers that piece and
// so carries its error; events recorded later cover only skipped work. Thread-compatible: a queue guards its own.
#pragma once

#include <utility>

#include "src/base/result.h"

namespace pergola::device {

// The error of work that was not run because of `cause`; a cause that is itself a skip is handed on as it is.
Error skipped_because(const Status& cause);

class FailureState {
 public:
  bool failed() const { return !cause_.ok(); }
  // Keeps the first failure only. A success changes nothing.
  void fail(Status status) {
    if (cause_.ok() && !status.ok()) cause_ = std::move(status);
  }
  // What an event recorded now ends with.
  Status outcome() {
    if (cause_.ok()) return {};
    if (!std::exchange(told_, true)) return cause_;
    return skipped_because(cause_);
  }
  // For synchronize(): the first error, which is cleared.
  Status take() {
    told_ = false;
    return std::exchange(cause_, Status());
  }

 private:
  Status cause_;
  bool told_ = false;
};

}  // namespace pergola::device
