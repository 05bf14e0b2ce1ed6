// A computational element (paper 003, IV-A): a kernel launch, a copy or fill, an access of the host.
//
// Only the frontier is kept. A computation lives while something may still depend on it:
//   dependency_set   in how many places of arrays later work still meets it, as last writer or as reader since then.
//                    The paper's dependency set, counted: work that modifies an argument takes it out of the set, and
//                    with an empty set a computation introduces no dependency any more.
//   holds            its stream's tail, a universal access, a Dependency on it under way.
// With neither it goes back to the pool, so a million launches need no more memory than the arrays have places.
//
// Guarded by the scheduler's lock, like everything of this folder but policies.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/device/event.h"
#include "src/device/queue.h"
#include "src/scheduler/size_class.h"
#include "src/scheduler/task_report.h"

namespace pergola::scheduler {

// What is not known is taken to be long.
inline constexpr double kUnknownDurationNs = 1e7;
// What two events measure beyond what is between them, on an H200.
inline constexpr double kEventsAddNs = 3e3;
// How long a kernel that was timed by events takes at least.
inline double at_least(double expected_ns) {
  return expected_ns >= kUnknownDurationNs ? 0 : std::max(0.0, expected_ns - kEventsAddNs);
}
// What a copy over the link takes at least, where the device makes it by itself: PCIe 5 carries 64 bytes a nanosecond
// over 16 lanes. Over a faster link launches are held a few microseconds too soon, no longer than they may be.
inline double least_of_copy_ns(std::size_t size_bytes) {
  constexpr double kLinkBytesPerNs = 64;
  return static_cast<double>(size_bytes) / kLinkBytesPerNs;
}

struct Stream;

// Whether an event behind a kernel is worth recording before its stream goes on: a saturating counter like a branch
// predictor's, one for each kernel. A wrong "no" costs overlap once (the wait is for later work of that stream too); a
// wrong "yes" an unused event. A kernel that runs on several arrays by turns has a counter for each (by `slot`).
class EventPrediction {
 public:
  static constexpr std::uint8_t kSlots = 8;
  bool expects_use(std::uint8_t slot) const { return doubt_[slot] < kMost; }
  void used(std::uint8_t slot) { doubt_[slot] = 0; }
  void unused(std::uint8_t slot) {
    if (doubt_[slot] < kMost) ++doubt_[slot];
  }

 private:
  static constexpr std::uint8_t kMost = 4;
  std::uint8_t doubt_[kSlots] = {};
};

// What a kernel took at sizes of one class; durations.h keeps it.
struct KernelDurations {
  SizeClass size;
  std::uint32_t launches = 0, timed = 0;
  std::uint32_t on_their_way = 0;  // launches between two timed events, not in `timed` yet: their times are not known
  std::uint32_t doubtful = 0;  // launches that are to be timed next, as one took much longer than is expected
  std::uint32_t doubted_from = 0;  // launches before which there is no further doubt: twice those at the last one
  float ns[4] = {};     // of the last ones timed, in a ring
  double expected_ns = kUnknownDurationNs;  // by those; by an earlier run while they are too few
};

// What computations of one name share: a kernel's launches, all fills. Owned by the scheduler and as old as it grows,
// since computations outlive the module that their kernel came from.
struct WorkSite {
  std::string name;
  std::unique_ptr<TaskTally> tasks;  // of launches of this name, once one might have been a task
  EventPrediction prediction;
  std::vector<KernelDurations> durations;  // by class of sizes; durations.h
};

// By the index of a stream a position on it.
using Clock = boost::container::small_vector<std::uint64_t, 8>;

// An event recorded on a stream: it covers that stream's computations up to `position` and, of other streams, those up
// to clock[their index], for which the stream had waited by then.
struct Mark {
  device::EventPtr event;
  Stream* stream = nullptr;
  std::uint64_t position = 0;
  Clock clock;
  bool timed = false;
  double at_least_ns = 0;  // Stream::all_at_least_ns up to it
};
using MarkPtr = std::shared_ptr<Mark>;

struct Computation {
  std::uint64_t id = 0;  // in order of submission, from 1
  Stream* stream = nullptr;
  std::uint64_t position = 0;  // on its stream, from 1
  std::uint32_t dependency_set = 0;
  std::uint32_t holds = 0;
  WorkSite* site = nullptr;  // may be null
  std::uint8_t prediction_slot = 0;
  MarkPtr mark;            // recorded right behind it
  bool mark_used = false;  // somebody waited for it
  // The stream's that it goes on where it waits for nothing and that has nothing to do; null: any.
  const device::Queue* queue = nullptr;
  bool had_choice = false;    // it might have gone on another stream that had nothing to do; or what it follows might
  bool leads = false;         // an upload that went when it came, before a graph with the rest of its turn
  bool follows_lead = false;  // such a one that nothing but that graph waits for
  double expected_until_ns = 0;  // Stream::expected_ns with it
  // It could not be queued, and so is on no stream: what was to come after it comes after its parents, which it holds.
  bool is_left_out = false;
  std::vector<Computation*> stands_for;
};

// `in` holds that, once.
inline void hold_once(Computation& computation, std::vector<Computation*>& in) {
  if (std::ranges::find(in, &computation) != in.end()) return;
  ++computation.holds;
  in.push_back(&computation);
}

// Computations, reused. Addresses are stable.
class ComputationPool {
 public:
  Computation* take() {
    Computation* computation = take_any();
    computation->id = ++last_id_;
    return computation;
  }
  // Of work that had its number before.
  Computation* take_as(std::uint64_t id) {
    Computation* computation = take_any();
    computation->id = id;
    return computation;
  }
  // One that is no work but stands for some, each once and held: it has no number.
  Computation* stand_in_for(const std::vector<Computation*>& work) {
    Computation* computation = take_any();
    computation->is_left_out = true;
    for (Computation* one : work) hold_once(*one, computation->stands_for);
    return computation;
  }
  void release_if_unused(Computation& computation) {
    if (computation.dependency_set != 0 || computation.holds != 0) return;
    if (computation.mark != nullptr && !computation.mark_used && computation.site != nullptr)
      computation.site->prediction.unused(computation.prediction_slot);
    computation.mark.reset();
    if (!computation.stands_for.empty())
      for (Computation* parent : std::exchange(computation.stands_for, {})) let_go(*parent);
    free_.push_back(&computation);
  }
  // One of its holds ends.
  void let_go(Computation& computation) {
    --computation.holds;
    release_if_unused(computation);
  }
  std::uint64_t last_id() const { return last_id_; }
  // A number among theirs, of what is none.
  std::uint64_t next_id() { return ++last_id_; }
  // Of bytes that were used it is not known any more by whom, as they have ended: how often that has come about.
  void note_forgotten() { ++forgotten_; }
  std::uint64_t forgotten() const { return forgotten_; }
  std::size_t in_use() const { return all_.size() - free_.size(); }

 private:
  Computation* take_any() {
    if (free_.empty()) free_.push_back(&all_.emplace_back());
    Computation* computation = free_.back();
    free_.pop_back();
    *computation = Computation{};
    return computation;
  }

  std::deque<Computation> all_;
  std::vector<Computation*> free_;
  std::uint64_t last_id_ = 0, forgotten_ = 0;
};

}  // namespace pergola::scheduler
