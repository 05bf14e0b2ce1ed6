// Runs a kernel on the interpreter and says which of its buffers it truly read and wrote.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/pointer_modes.h"
#include "src/device/device.h"
#include "tests/ptx_cases/case_file.h"

namespace pergola::pointer_modes_test {

// Where a buffer's address stands in the kernel's parameters.
struct Bound {
  std::uint32_t parameter = 0;
  std::uint32_t offset_bytes = 0;  // inside that parameter
  std::size_t buffer = 0;
  std::size_t position = 0;  // of what it points at, in the buffer
};

struct Experiment {
  std::string text, name, kernel;  // kernel: empty for the first entry
  device::LaunchConfig config;
  std::vector<std::vector<std::byte>> buffers;     // what they hold at first
  std::vector<std::vector<std::byte>> parameters;  // of each, in order; addresses are put in where `bound` says
  std::vector<Bound> bound;
};

// The case's kernel on the case's buffers.
Experiment experiment_of(const ptx_cases::Case& test);

struct Outcome {
  analysis::PointerModes modes;              // what the analysis says
  std::vector<analysis::AccessMode> truth;   // by buffer: what the run did
  // The buffers that were touched in a way the modes do not allow, with the reasons given; empty where sound.
  std::string violations;
  bool is_exact = true;  // nothing universal, and every mode is what the run did
};

// Holds modes against what each buffer saw; fills in the rest of the outcome.
void judge(const Experiment& experiment, Outcome& outcome);

// `device` must be a CPU device of the interpreter tier, and nothing else may run on it.
Result<Outcome> run_experiment(device::Device& device, const Experiment& experiment);

}  // namespace pergola::pointer_modes_test
