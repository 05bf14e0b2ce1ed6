#include <cstdlib>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/device/cpu/jit_loader.h"
#include "src/device/cuda/cuda_device.h"
#include "src/device/null/null_device.h"
#include "tests/conformance/registry.h"

namespace pergola::conformance {
namespace {

struct Found {
  std::vector<DeviceCase> devices;
  std::vector<std::string> missing;

  void add(std::string name, Result<device::DevicePtr> device, bool loses_on_fault = false) {
    if (device.ok())
      devices.push_back({std::move(name), loses_on_fault, std::move(device).value()});
    else
      missing.push_back(name + " is not tested: " + device.message());
  }
};

Result<device::DevicePtr> cpu(Result<std::shared_ptr<device::cpu::Engine>> engine) {
  if (!engine.ok()) return engine.status();
  device::cpu::CpuOptions options;
  options.memory_bytes = std::uint64_t{4} << 30;
  return device::cpu::create_cpu_device(options, std::move(engine).value());
}

Found find() {
  Found found;
  found.add("null", device::create_null_device());
  found.add("cpu_interpreter", cpu(device::cpu::create_interpreter()));
  found.add("cpu_jit", cpu(device::cpu::load_jit_engine()));
  found.add("cpu_vector", cpu(device::cpu::load_jit_engine(device::cpu::VectorUse::kWhereItCan)));
  found.add("cuda_0", device::create_cuda_device(0), true);
  return found;
}

const Found& found() {
  static const Found* const kept = new Found(find());  // for the whole process: tests share the devices
  return *kept;
}

}  // namespace

const std::vector<DeviceCase>& devices() { return found().devices; }
const std::vector<std::string>& missing_devices() { return found().missing; }

}  // namespace pergola::conformance
