#include "tests/ptx_cases/test_device.h"

#include <cstdlib>

#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/device/cpu/jit_loader.h"
#include "src/device/cuda/cuda_device.h"

namespace pergola::ptx_cases {
namespace {

using device::cpu::Engine;

Result<std::shared_ptr<Engine>> open_interpreter() { return device::cpu::create_interpreter(); }
Result<std::shared_ptr<Engine>> open_jit() { return device::cpu::load_jit_engine(device::cpu::VectorUse::kNever); }
// With the scalar tier for what it refuses, as users have it.
Result<std::shared_ptr<Engine>> open_vector() { return device::cpu::load_jit_engine(device::cpu::VectorUse::kWhereItCan); }

// The tiers by name: a new one is a line here.
constexpr std::pair<const char*, Result<std::shared_ptr<Engine>> (*)()> kTiers[] = {
    {"interpreter", open_interpreter},
    {"jit", open_jit},
    {"vector", open_vector},
};

}  // namespace

Result<device::DevicePtr> open_test_device(const std::string& name, device::cpu::CpuOptions options) {
  if (options.sms == 0) options.sms = 2;
  if (name == "checked") return device::cpu::create_cpu_device(options, device::cpu::create_interpreter({.check = true}));
  for (const auto& [tier, open] : kTiers) {
    if (name != tier) continue;
    PERGOLA_ASSIGN(auto engine, open());
    return device::cpu::create_cpu_device(options, std::move(engine));
  }
  if (name.starts_with("cuda")) {
    device::CudaDeviceOptions cuda;
    if (name.starts_with("cuda-O0")) cuda.optimization_level = 0;
    const std::size_t colon = name.find(':');
    return device::create_cuda_device(colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1), cuda);
  }
  return PERGOLA_ERROR(kInvalidArgument, "There is no test device '{}': use a tier of the CPU device or cuda:N.", name);
}

std::vector<std::string> cpu_tier_names() {
  std::vector<std::string> names;
  for (const auto& [tier, open] : kTiers)
    if (open().ok()) names.emplace_back(tier);
  return names;
}

std::vector<std::string> test_device_names() {
  const char* chosen = std::getenv("PERGOLA_DEVICE");
  if (chosen != nullptr && std::string(chosen).starts_with("cuda")) return {chosen};
  if (const char* tier = std::getenv("PERGOLA_TEST_TIER"); tier != nullptr) return {tier};  // one of cpu_tier_names()
  return cpu_tier_names();
}

}  // namespace pergola::ptx_cases
