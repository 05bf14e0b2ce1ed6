// For tests: what the fake CUDA driver is told and tells (device/cuda/fake/fake_control.h), in the library that
// sessions of it load.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "src/device/cuda/fake/fake_control.h"

namespace pergola::runtime {

// A module with its add(). The fake runs kernels by name and not these bodies, which are for the analysis: what each
// reads and writes. More entries may follow.
inline const std::string kAddPtx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 count) {
  .reg .b64 %a<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %a0, [x];
  ld.param.u64 %a1, [y];
  ld.global.u32 %r0, [%a0];
  ld.global.u32 %r1, [%a1];
  add.u32 %r0, %r0, %r1;
  st.global.u32 [%a1], %r0;
  ret;
}
)";

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
