#include "tests/ptx_cases/test_device.h"

#include <cstdlib>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/device/cpu/jit_loader.h"
#include "src/device/cuda/cuda_device.h"

namespace pergola::ptx_cases {

Result<device::DevicePtr> open_test_device(const std::string& name) {
  device::cpu::CpuOptions options;
  options.sms = 2;
  if (name == "interpreter") return device::cpu::create_cpu_device(options, device::cpu::create_interpreter());
  if (name == "jit") {
    PERGOLA_ASSIGN(auto engine, device::cpu::load_jit_engine());
    return device::cpu::create_cpu_device(options, engine);
  }
  if (name.starts_with("cuda")) {
    device::CudaDeviceOptions cuda;
    if (name.starts_with("cuda-O0")) cuda.optimization_level = 0;
    const std::size_t colon = name.find(':');
    return device::create_cuda_device(colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1), cuda);
  }
  return PERGOLA_ERROR(kInvalidArgument, "There is no test device '{}': use interpreter, jit or cuda:N.", name);
}

std::vector<std::string> test_device_names() {
  const char* chosen = std::getenv("PERGOLA_DEVICE");
  if (chosen != nullptr && std::string(chosen).starts_with("cuda")) return {chosen};
  std::vector<std::string> names{"interpreter"};
  if (device::cpu::load_jit_engine().ok()) names.emplace_back("jit");
  return names;
}

}  // namespace pergola::ptx_cases
