// One way of running a problem's iterations, as the bench drives it: forms take turns, each on device memory of its
// own.
#pragma once

#include <string>

namespace dag {

enum class Measure { kResident, kCold };
inline const char* to_string(Measure measure) {
  return measure == Measure::kResident ? "resident" : "cold";
}

class Form {
 public:
  virtual ~Form() = default;

  // One iteration, from its first call to the end of its last work. kResident: of kernels alone, on data that load()
  // brought. kCold: inputs in from the host, outputs out to it.
  virtual void run(Measure measure) = 0;

  // None of these is timed; all wait.
  virtual void load() = 0;     // the inputs onto the device
  virtual void fetch() = 0;    // the outputs to the host
  virtual void collect() {}    // and from where the form has them there to where they are checked
  virtual void clobber() = 0;  // the outputs on the device get bytes that no result has

  // Whether it runs from now on as it will: asked again and again while it warms up.
  virtual bool is_steady() { return true; }

  std::string name;
  double device_mib = 0;      // what the device has less of for it, once it has warmed up
  double instantiate_ms = 0;  // of graphs
  double submit_ms = 0;       // of the last resident run, until only the wait for its end was left; 0: not separate
};

}  // namespace dag
