// A wavefront whose grids one thread launches from the device, one after the other (dynamic parallelism, the paper's
// "Tasks as Kernels"): compiled to be linked with CUDA's device runtime, libcudadevrt.a, found beside the toolkit.
#pragma once

#include <memory>

#include "bench/blocks/forms/form.h"
#include "bench/blocks/forms/program_on_device.h"
#include "bench/blocks/forms/wavefront.h"
#include "bench/support/gpu.h"

namespace pergola::bench::blocks {

// Throws std::runtime_error; says so where the library is missing. `gpu` and `loaded` must outlive the form.
std::unique_ptr<Form> device_launches_form(const ::bench::Gpu& gpu, const Program& program, const Wavefront& wavefront,
                                           ProgramOnDevice& loaded);

}  // namespace pergola::bench::blocks
