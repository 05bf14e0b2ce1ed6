// A wavefront as a hand would write it: one launch whose blocks take tiles and wait for those that these need
// (wavefront.h). By the device layer, so it runs on the CPU device too.
#pragma once

#include <memory>

#include "bench/blocks/forms/form.h"
#include "bench/blocks/forms/program_on_device.h"
#include "bench/blocks/forms/wavefront.h"

namespace pergola::bench::blocks {

// All throw std::runtime_error. `device` and `loaded` must outlive the form.
std::unique_ptr<Form> megakernel_form(device::Device& device, const Program& program, const Wavefront& wavefront,
                                      ProgramOnDevice& loaded);

}  // namespace pergola::bench::blocks
