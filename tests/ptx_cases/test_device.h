// The devices that tests of kernels compare: both tiers of the CPU device, and a GPU.
#pragma once

#include <string>
#include <vector>

#include "src/device/cpu/cpu_options.h"
#include "src/device/device.h"

namespace pergola::ptx_cases {

// "interpreter", "checked" (it, with all checks), "jit" and "vector": the CPU device with that tier (the last with "jit"
// for what it refuses); "cuda:N": a GPU; "cuda-O0:N": the same with the optimiser of the driver's compiler off.
// kUnavailable where it is not here.
// `options` are the CPU device's, which has 2 SMs where they do not say.
Result<device::DevicePtr> open_test_device(const std::string& name, device::cpu::CpuOptions options = {});

// The tiers of the CPU device that are here: "interpreter", "jit", "vector".
std::vector<std::string> cpu_tier_names();

// $PERGOLA_DEVICE alone where it names a GPU; else every tier of the CPU device that is here.
std::vector<std::string> test_device_names();

}  // namespace pergola::ptx_cases
