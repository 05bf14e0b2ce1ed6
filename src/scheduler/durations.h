// How long kernels take, by class of sizes (history.h), for choices between streams: always kept, from few launches.
//
//   launch   1   2   3   4   5 ... 8 ... 16 ... 1024 ... 2048 ...
//            -   s   s   s   -     s     s        s        s         s: between two timed events
//
// The first one loads code.
// One that took much longer than those before has the next ones timed, too: the shortest of the last four counts.
//
// Events around a kernel also time what the host needs to launch it, where the stream has nothing else to do; that much
// is taken off. So a time is rather too small than too large, by a launch at most.
//
// Guarded by the scheduler's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "src/scheduler/computation.h"
#include "src/scheduler/history.h"
#include "src/scheduler/work.h"

namespace pergola::scheduler {

class Durations {
 public:
  explicit Durations(std::string device) : device_(std::move(device)) {}

  // Of this launch, which counts from now on; null for what is none.
  KernelDurations* of(const Work& work);
  static double expected_ns(const KernelDurations* durations) {
    return durations == nullptr ? kUnknownDurationNs : durations->expected_ns;
  }
  // Of a launch that does not count: what is known of it by now.
  static double expected_ns_of(const Work& work, const device::LaunchConfig& config);
  // What a launch that may go elsewhere than to a stream is expected to take: not known where it is one to be timed.
  // count_elsewhere() once it has gone there.
  double expected_elsewhere_ns(const Work& work);
  void count_elsewhere(const Work& work) { ++find(*work.site, size_of(work)).launches; }
  bool wants(const KernelDurations& durations) const { return wants(durations, durations.launches); }
  // of() one more launch of the site at that size; null where wants() would say so of it, and then it has not counted.
  KernelDurations* count_untimed(WorkSite& site, SizeClass size) {
    KernelDurations& durations = find(site, size);
    if (wants(durations, durations.launches + 1)) return nullptr;
    ++durations.launches;
    return &durations;
  }
  static SizeClass size_of(std::span<const Access> accesses, const device::LaunchConfig& config);

  // Between the two events ran a launch of `work`, which took the host `launch_ns`.
  void add(const Work& work, device::EventPtr start, device::EventPtr end, double launch_ns);
  bool is_empty() const { return samples_.empty(); }
  // Reads the times of launches that have ended, oldest first; never blocks.
  void settle();
  // Times of earlier runs: for kernels until they have been timed here.
  void know(const History& earlier) { known_.merge(earlier); }

 private:
  struct Sample {
    WorkSite* site = nullptr;
    SizeClass size;
    device::EventPtr start, end;
    double launch_ns = 0;
  };
  static SizeClass size_of(const Work& work) { return size_of(work.accesses, work.call->config); }
  bool wants(const KernelDurations& durations, std::uint32_t launches) const;
  KernelDurations& find(WorkSite& site, SizeClass size);

  const std::string device_;
  History known_;
  std::deque<Sample> samples_;
};

}  // namespace pergola::scheduler
