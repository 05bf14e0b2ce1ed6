#include "tests/conformance/registry.h"

namespace pergola::conformance {
namespace {

constexpr Exception::Kind kUnsupported = Exception::Kind::kUnsupported;
[[maybe_unused]] constexpr Exception::Kind kExpectedFailure = Exception::Kind::kExpectedFailure;
constexpr const char* kNoKernels = "the null device runs no kernels";

bool matches(const std::string& pattern, const std::string& text) {
  if (pattern.empty() || pattern.back() != '*') return pattern == text;
  return text.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
}

}  // namespace

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> all{
      {"null", "Launches.*", kUnsupported, kNoKernels},
      {"null", "Shared.*", kUnsupported, kNoKernels},
      {"null", "Control.*", kUnsupported, kNoKernels},
      {"null", "Arithmetic.*", kUnsupported, kNoKernels},
      {"null", "Globals.*", kUnsupported, "the null device gives variables no initial values: no kernel reads them"},
      {"null", "GraphLaunches.*", kUnsupported, kNoKernels},
      {"null", "Running.*", kUnsupported, kNoKernels},
      {"null", "Textures.*", kUnsupported, kNoKernels},
      {"null", "Faults.*", kUnsupported, "the null device runs no kernels, so none can fault"},
      {"null", "Modules.LaterArchitecture_IsRefused", kUnsupported, "the null device accepts every module"},
  };
  return all;
}

const Exception* find_exception(const std::string& device, const std::string& test) {
  for (const Exception& exception : exceptions())
    if (matches(exception.device, device) && matches(exception.test, test)) return &exception;
  return nullptr;
}

}  // namespace pergola::conformance
