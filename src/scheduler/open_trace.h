// The files of this process's traces that are on. A trace is written once it ends, over what is there: of two to one
// file, of whatever sessions, only the one that ends last would be left.
//
// Invariant: what is no regular file (a pipe, /dev/stdout) is nobody's: it gets one trace after the other.
#pragma once

#include <string>
#include <utility>

#include "src/base/result.h"

namespace pergola::scheduler {

// Keeps other traces off its file while it lives: from before the trace begins until it has been written.
// Thread-compatible; open() and the end may come from any thread.
class OpenTrace {
 public:
  OpenTrace() = default;  // of no file
  OpenTrace(OpenTrace&& other) noexcept
      : path_(std::exchange(other.path_, {})), place_(std::exchange(other.place_, {})) {}
  OpenTrace& operator=(OpenTrace&& other) noexcept;
  ~OpenTrace();

  // kFailedPrecondition where a trace to the same file is on, by this name or another.
  static Result<OpenTrace> open(const std::string& path);

  const std::string& path() const { return path_; }  // "": of no file

 private:
  OpenTrace(std::string path, std::string place) : path_(std::move(path)), place_(std::move(place)) {}

  std::string path_, place_;  // `place_` is "" where the file is nobody's
};

}  // namespace pergola::scheduler
