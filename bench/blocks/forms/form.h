// A way to run a program of bench/blocks on a GPU.
#pragma once

#include <string>

namespace pergola::bench::blocks {

// Throws std::runtime_error. Used by one thread.
class Form {
 public:
  virtual ~Form() = default;
  // All launches once; the host waits at the end.
  virtual void run() = 0;
  // Memory as it is before the first launch. Waits.
  virtual void reset() = 0;
  // What Program::check says of the memory now.
  virtual std::string check() = 0;

  std::string name;
  double instantiate_ms = 0;
  // Until it is as it will be: so many runs, and so long.
  int warm_ups = 3;
  double warm_up_ms = 0;
};

}  // namespace pergola::bench::blocks
