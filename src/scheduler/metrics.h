// How much of a timeline overlaps, and how far it is from what its dependencies allow (paper 003, V-E and V-F).
//
// Pure functions. Kernels, fills and copies within the device are computation; copies between host and device, and the
// host's own reads and writes of arrays, are transfers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/base/function_ref.h"
#include "src/base/result.h"
#include "src/scheduler/timeline.h"

namespace pergola::scheduler {

// Shares from 0 to 1, of the sum of durations; what overlaps several others counts once. 0 where there is nothing.
struct Overlap {
  double ct = 0;                               // of computation, with any transfer
  double tc = 0;                               // of transfers, with any computation
  double cc = 0;                               // of computation, with any other computation
  double tot = 0;                              // of both, with anything else
  double computation_ns = 0, transfer_ns = 0;  // sums of durations
  double span_ns = 0;                          // from the first start to the last end
};
Overlap overlap(const Timeline& timeline);

// The time that a computation takes by itself, in nanoseconds; empty where it is not known.
using SerialTime = FunctionRef<std::optional<double>(const Slice&)>;

// The least time that the dependencies allow, were there no contention: the longest path, each computation as long as
// it takes by itself. Computations come after their parents and after what the thread that submitted them had waited
// for; the host's own work between its calls counts as nothing, as do waits for events that programs make.
struct CriticalPath {
  double length_ns = 0;
  std::vector<std::uint64_t> ids;  // computations on it, in order
  std::set<std::string> unknown;   // names whose time by itself is not known: they count as long as they took here
};
CriticalPath critical_path(const Timeline& timeline, SerialTime serial);

// Times by themselves from another timeline, recorded with execution=sync: the least of the same work (kind, name,
// shape, bytes) there.
class SerialRun {
 public:
  // kInvalidArgument where computations overlap in it: those times are not of work by itself.
  static Result<SerialRun> from(const Timeline& timeline);
  std::optional<double> operator()(const Slice& slice) const;

 private:
  std::map<std::string, double> least_ns_;
};

}  // namespace pergola::scheduler
