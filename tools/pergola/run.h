// `pergola run`: one launch of one kernel with arguments from the command line and from files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/session/session.h"
#include "tools/pergola/argument.h"

namespace pergola::tool {

struct RunRequest {
  std::string device;  // "": PERGOLA_DEVICE
  std::string file;
  session::LoadOptions load;
  std::string kernel;  // "": the only one
  std::string grid, block;
  std::optional<std::uint64_t> for_each;
  std::uint32_t shared_bytes = 0;
  bool cooperative = false;
  bool check = false;          // on the CPU device, with all its checks (PERGOLA_CPU_CHECK)
  std::uint32_t repeat = 1;
  double timeout_seconds = 0;  // 0: none
  std::uint32_t show = 0;      // elements of each array to print after the run
  std::vector<ArgumentSpec> arguments;
};

struct RunReport {
  nlohmann::ordered_json json;
  std::string text;
};

// kTimeout leaves the kernel running: the caller ends the process.
Result<RunReport> run_kernel(const RunRequest& request);

}  // namespace pergola::tool
