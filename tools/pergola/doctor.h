// `pergola doctor`: what this machine has of what Pergola can use, what is missing, and the mend for it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace pergola::tool {

struct Finding {
  enum class State { kWorks, kMissing, kBroken, kRead, kUnread };
  std::string group;   // "devices", "compilers", "others", "environment", whose variables are read or not
  std::string name;    // "NVRTC"
  State state = State::kMissing;
  std::string detail;  // what was found, or why it was not
  std::string mend;    // what to do; "" where nothing is needed
};

struct Diagnosis {
  std::vector<Finding> findings;
  std::string default_device;  // PERGOLA_DEVICE; "" where it is unset
  bool can_run = false;        // some device ran the check kernel; where PERGOLA_DEVICE is set, that one
  bool can_compile = false;    // CUDA C++ can be compiled
};

// Looks at the whole machine; runs a small kernel on each device.
Diagnosis diagnose();

// Of its variables ("NAME=value", null behind the last) those for Pergola that are not empty, by name. A copy.
std::vector<Finding> find_settings(const char* const* environment);

// Adds two arrays on the device and checks every element. Success, or what went wrong.
Status check_device(const std::string& device_name);

nlohmann::ordered_json to_json(const Diagnosis& diagnosis);
std::string to_text(const Diagnosis& diagnosis);

}  // namespace pergola::tool
