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

  // Whether it runs from now on as it will: asked again and again while it warms up.
  virtual bool is_steady() { return true; }

  std::string name;
  double instantiate_ms = 0;
  int warm_ups = 3;  // runs at least, until it is as it will be
};

}  // namespace pergola::bench::blocks
