// The forms that a programmer writes against the driver, each made from the table of plan.h before anything is timed:
//
//   serial   one stream, and the host waits after each step
//   streams  the table's streams; an event only behind a step that another stream waits for, and no wait that an
//            earlier one implies; at the end the host waits for the streams whose work nobody else waited for
//   capture  the same calls captured into a graph
//   graph    a graph of explicit nodes with the table's dependencies
//
// While it is timed a form goes through a list of prepared driver calls: what its author would have written out.
#pragma once

#include <memory>

#include "../support/gpu.h"
#include "form.h"
#include "plan.h"

namespace dag {

using bench::check;
using bench::Gpu;

enum class Style { kSerial, kStreams, kCapture, kGraph };

// On device memory of its own. The GPU and the plan's host memory outlive it. Throws std::runtime_error.
std::unique_ptr<Form> hand_written(const Gpu& gpu, const Plan& plan, Style style);

}  // namespace dag
