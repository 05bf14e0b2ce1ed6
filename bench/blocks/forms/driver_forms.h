// A program's launches as an expert would make them with the driver alone: one stream, several streams with events,
// graphs captured from either, and one whose launches begin early. The kernels are compiled by the driver as they are,
// those of the last with two instructions more.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/blocks/forms/form.h"
#include "bench/blocks/forms/program_on_device.h"
#include "bench/support/gpu.h"

namespace pergola::bench::blocks {

enum class DriverStyle {
  kStream,        // "stream"
  kStreams,       // "streams": launches that share no buffer, or only read it, on streams of their own
  kGraph,         // "graph": the one stream captured
  kGraphStreams,  // "graph-streams": the several captured
  kProgrammatic,  // "graph-programmatic": the one stream captured, its launches with programmatic edges between them
};

// `loaded` has the program's memory; `gpu` has the kernels by name, which `module` is, or with kProgrammatic those that
// programmatic_kernels makes of it. All outlive the form.
// Null where it would be the same as one of the others: several streams where all launches depend on each other.
std::unique_ptr<Form> driver_form(const ::bench::Gpu& gpu, const Program& program, const ptx::Module& module,
                                  ProgramOnDevice& loaded, DriverStyle style);

}  // namespace pergola::bench::blocks
