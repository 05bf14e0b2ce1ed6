// Where an instruction comes from, for messages: file and line of the source where `.loc` says so, else the line of the
// PTX.
#pragma once

#include <string>

#include "src/ptx/module.h"

namespace pergola::ptx {

// "saxpy.cu:7". Of what headers define that are no files (NVRTC's own, and Pergola's for kernels, which are compiled
// in) it is the line that calls it: that is nearer to the reader.
std::string source_place(const Module& module, const Instruction& in);

}  // namespace pergola::ptx
