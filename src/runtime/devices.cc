#include "src/runtime/devices.h"

#include <charconv>

#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/cpu_options.h"
#include "src/device/cpu/engine_choice.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/device/cuda/cuda_device.h"
#include "src/device/null/null_device.h"

namespace pergola::runtime {
namespace {

Result<device::DevicePtr> open_cpu() {
  using namespace device::cpu;  // NOLINT: the CPU device's parts are put together here alone
  PERGOLA_ASSIGN(const EngineChoice choice, engine_choice_from_environment());
  PERGOLA_ASSIGN(const CpuOptions options, CpuOptions::from_environment());
  if (options.check) {
    if (choice == EngineChoice::kJit)
      return PERGOLA_ERROR(kInvalidArgument,
                           "PERGOLA_CPU_CHECK checks in the interpreter, and PERGOLA_CPU_ENGINE asks for "
                           "the JIT: unset one of them.");
    return create_cpu_device(options, create_interpreter({.check = true}));
  }
  PERGOLA_ASSIGN(auto engine, choose_engine(choice, create_interpreter()));
  return create_cpu_device(options, std::move(engine));
}

}  // namespace

Result<DeviceChoice> parse_device_name(std::string_view name) {
  if (name.empty()) return DeviceChoice{device::DeviceKind::kCpu, 0, true};
  if (name == "cpu") return DeviceChoice{device::DeviceKind::kCpu, 0, false};
  if (name == "null") return DeviceChoice{device::DeviceKind::kNull, 0, false};
  if (name == "cuda") return DeviceChoice{device::DeviceKind::kCuda, 0, false};
  if (constexpr std::string_view kPrefix = "cuda:"; name.starts_with(kPrefix)) {
    const std::string_view digits = name.substr(kPrefix.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0)
      return DeviceChoice{device::DeviceKind::kCuda, index, false};
  }
  if (name == "shared")
    return PERGOLA_ERROR(kUnsupported,
                         "The device 'shared' needs a daemon, which this version does not have: use "
                         "'cpu' or 'cuda:N'.");
  return PERGOLA_ERROR(kInvalidArgument,
                       "There is no device '{}': it should be 'cpu', 'cuda:N' (the N-th GPU, from 0) "
                       "or 'null'.",
                       name);
}

namespace {
Result<device::DevicePtr> open_cuda(int ordinal) {
  PERGOLA_ASSIGN(const device::CudaDeviceOptions options, device::CudaDeviceOptions::from_environment());
  return device::create_cuda_device(ordinal, options);
}
}  // namespace

Result<device::DevicePtr> open_device(std::string_view name) {
  if (name.empty()) name = setting("PERGOLA_DEVICE").value_or("");
  PERGOLA_ASSIGN(const DeviceChoice choice, parse_device_name(name));
  if (choice.any) {
    Result<device::DevicePtr> gpu = open_cuda(0);
    if (gpu.ok()) return gpu;
    PERGOLA_DEBUG("no GPU, the CPU device is used: {}", gpu.message());
    return open_cpu();
  }
  switch (choice.kind) {
    case device::DeviceKind::kNull: return device::create_null_device();
    case device::DeviceKind::kCpu: return open_cpu();
    case device::DeviceKind::kCuda: return open_cuda(choice.index);
  }
  return PERGOLA_ERROR(kInternal, "The device '{}' has no kind.", name);
}

}  // namespace pergola::runtime
