// One way of running a problem's iterations, as the bench drives it: forms take turns, each on device memory of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  virtual void load() = 0;                    // the inputs onto the device
  virtual void fetch(std::size_t piece) = 0;  // of the outputs, to the host
  virtual void collect() {}                   // and from where the form has them there to where they are checked
  virtual void clobber() = 0;                 // the outputs on the device get bytes that no result has

  // Where its inputs and outputs are on the host.
  virtual std::vector<std::span<std::byte>> on_host() const = 0;

  // Whether it runs from now on as it will: asked again and again while it warms up.
  virtual bool is_steady() { return true; }
  // What it runs as just now, for people.
  virtual std::string state() const { return {}; }

  std::string name;
  double device_mib = 0;            // the most that the device had less of for it until it had warmed up
  double instantiate_ms = 0;        // of graphs; of Pergola's each in its first way, beside the program that runs
  std::optional<double> settle_ms;  // from its first turn until what it runs as changed no more, where that is known
  double submit_ms = 0;  // of the last resident run, until only the wait for its end was left; 0: not separate
};

// As a program does that has made the next inputs and used the last outputs: each line of the memory is read and
// written with what is there. Copies by the device leave it in the host's caches, or out of them, as they find it, and
// from outside they take up to a fifth longer.
inline void go_over(std::span<std::byte> memory) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= memory.size(); at += kLine) {
    auto* const word = reinterpret_cast<volatile std::uint64_t*>(memory.data() + at);
    *word = *word;
  }
}

}  // namespace dag
