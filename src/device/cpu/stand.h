// Where the warps of a kernel stand that gets nowhere: for the messages of deadlocks and of the watchdog.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/device/types.h"

namespace pergola::device::cpu {

// Lanes of one warp that wait at the same place for the same.
struct Stand {
  Dim3 block;
  std::uint32_t warp = 0;
  std::uint32_t lanes = 0;  // mask
  std::string place;        // "k.cu:12 (bar.sync)"; empty: not known
  std::string waits;        // "waits at barrier 0, where 32 of 64 threads have arrived"
};

// A line for each place and reason, in order of their first stand, with the warps that stand there:
//   "\n  k.cu:12 (bar.sync): waits at barrier 0, ...: block (0,0,0) warp 0 lanes 0xffffffff, warp 1 ... and 6 more warps"
std::string describe_stands(std::span<const Stand> stands);

// "barrier 1, where 32 of 64 threads have arrived".
std::string describe_barrier(std::uint32_t id, std::uint32_t arrived, std::uint32_t expected);

}  // namespace pergola::device::cpu
