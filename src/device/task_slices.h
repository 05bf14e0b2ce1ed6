// When narrow tasks ran, as whoever runs them has noted it (TaskRunner, executor/): on its own clock, with one moment
// of it that is known as an event, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/device/event.h"

namespace pergola::device {

struct TaskSlice {
  std::uint64_t id = 0;      // of the pool; of a piece of a large task its own; 0: another task has spawned it
  std::uint32_t kernel = 0;  // of TaskSlices::kernels
  std::uint32_t place = 0;   // the resident block, or the thread of the CPU device that began it
  std::uint64_t begun_ns = 0, ended_ns = 0;
};

struct TaskSlices {
  std::vector<std::string> kernels;
  std::vector<TaskSlice> slices;  // in the order of their ends, of one place
  std::uint64_t dropped = 0;      // older ones, for which there was no room
  bool is_resident = false;       // places are resident blocks
  // `origin` ended when the clock was at origin_ns, or a little before. Null: the clock is the host's steady one.
  EventPtr origin;
  std::uint64_t origin_ns = 0;
};

}  // namespace pergola::device
