// For tests: what the fake CUDA driver is told and tells (device/cuda/fake/fake_control.h), in the library that
// sessions of it load.
#pragma once

#include <dlfcn.h>

#include <stdexcept>

#include "src/device/cuda/fake/fake_control.h"

namespace pergola::runtime {

inline const device::cuda::FakeControl& control() {
  static const device::cuda::FakeControl* const found = [] {
    void* library = dlopen(PERGOLA_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    const auto get = library == nullptr
                         ? nullptr
                         : reinterpret_cast<device::cuda::FakeControlFunction>(dlsym(library, "fake_cuda_control"));
    if (get == nullptr) throw std::runtime_error(dlerror());
    return get();
  }();
  return *found;
}

}  // namespace pergola::runtime
