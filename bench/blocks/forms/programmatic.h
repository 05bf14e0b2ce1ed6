// Kernels for launches that start early, as one writes them by hand (programmatic dependent launch).
#pragma once

#include <string>

namespace pergola::bench::blocks {

// `ptx`, of kernels that know nothing of the launches around them, with two instructions at the begin of each: the next
// launch may start once all of this one's blocks have, and this one waits until the one before has ended and its writes
// are seen (griddepcontrol of the PTX ISA; in CUDA C++ cudaTriggerProgrammaticLaunchCompletion and
// cudaGridDependencySynchronize). A launch has ended only after the one before it, so one that waits for the last waits
// for all.
std::string programmatic_kernels(std::string ptx);

}  // namespace pergola::bench::blocks
