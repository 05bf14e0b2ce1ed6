// The programs of which each call of the driver fails once: between them they call every function that there is.
#pragma once

#include <span>

#include "tests/driver_faults/fault_run.h"

namespace pergola::driver_faults {

std::span<const Program> programs();

// Programs on a device alone, without a session (device_programs.cc).
void use_device(Trial& trial);
void use_device_graphs(Trial& trial);

}  // namespace pergola::driver_faults
