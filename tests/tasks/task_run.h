// A kernel launched as it is, and as a task: its body run by warps of a block that other tasks' warps share.
//
// The probe is a kernel that does for one task what an executor does: its one-dimensional blocks hold several groups of
// warps side by side, each group takes one block of the task after another, fills the slots of its warps, and calls the
// body.
#pragma once

#include <string>
#include <vector>

#include "src/device/device.h"
#include "src/transform/entry_to_task.h"
#include "tests/corpus/run_line.h"
#include "tests/ptx_cases/case_file.h"

namespace pergola::tasks {

struct Argument {
  int array = -1;  // its address; -1: a value
  std::vector<std::byte> value;
};

struct Launch {
  std::string text, label, kernel;
  device::LaunchConfig config;
  std::vector<std::vector<std::byte>> arrays;
  std::vector<Argument> arguments;
};
Launch launch_of(const ptx_cases::Case& test);
Launch launch_of(const std::string& text, const std::string& label, const corpus::RunLine& line);

using Memory = std::vector<std::vector<std::byte>>;  // the arrays afterwards

struct ProbeOptions {
  std::uint32_t groups = 3;          // of warps in a block, where they fit
  bool gives_named_barriers = true;  // where the body may have them
  bool inlines = false;  // the body under a brx.idx, once for even groups and once for odd ones; else called
  transform::TaskConfig config;
};

Result<Memory> run_plain(device::Device& device, const Launch& launch);
// kUnsupported where the pass refuses the kernel. `body` gets what the pass made, where it is not null.
Result<Memory> run_as_task(device::Device& device, const Launch& launch, const ProbeOptions& options = {},
                           transform::TaskBody* body = nullptr);

// The module that runs `body` over the launch's blocks. Its kernel is "pergola_probe" and takes the parameter block's
// address.
struct Probe {
  std::string text;
  device::LaunchConfig config;
};
Result<Probe> make_probe(const transform::TaskBody& body, const device::LaunchConfig& launch,
                         const ProbeOptions& options);

}  // namespace pergola::tasks
