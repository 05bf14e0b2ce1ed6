// A stream: an in-order queue of the device, and what the host knows of its progress.
//
//   position   1 ·· well ···· ended ········ tail    computations queued so far; those up to `ended` are known to have
//                                                    ended, those up to `well` without a failure, or with one that
//                                                    synchronize() has told
//   clock            for each stream, the position up to which everything that is queued here from now on comes after
//   it
//
// `ended`, `well` and `clock` are vector clocks: they make a wait, or a question, that is implied by others
// superfluous.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>

#include "src/device/queue.h"
#include "src/scheduler/computation.h"

namespace pergola::scheduler {

struct Stream {
  std::unique_ptr<device::Queue> queue;
  std::uint32_t index = 0;
  std::uint64_t tail_position = 0;
  std::uint64_t ended_position = 0, well_position = 0;
  Computation* tail = nullptr;  // the last one queued; null before the first
  // Recorded and not known to have ended, in order; without those of steps of repeated turns (turn_repetition.h).
  std::deque<MarkPtr> marks;
  static constexpr std::size_t kManyMarks = 64;
  std::size_t poll_at_marks = kManyMarks;  // once there are so many, it is asked how far the stream is
  Clock clock;
  // What all its work is expected to take, since it was made, and how much of that had ended when it was last known to
  // be idle.
  double expected_ns = 0, expected_idle_ns = 0;
  // Of its work since it was last known to be idle: when that began, and how much of it takes at least how long.
  std::chrono::steady_clock::time_point busy_since{};
  double at_least_ns = 0;
  double all_at_least_ns = 0;  // the same of all its work, since it was made
  bool reserved = false;       // for a library call under way: takes no other work (scheduler_call.cc)

  bool idle() const { return ended_position == tail_position; }
  bool idle_well() const { return well_position == tail_position; }
  // Work comes, before tail_position counts it. `least_ns`: how long it takes at least; 0: not known. `looks_at_clock`:
  // at_least_left_ns() will be asked.
  void expect(double ns, double least_ns, bool looks_at_clock) {
    if (idle()) {
      expected_idle_ns = expected_ns;
      at_least_ns = 0;
      if (looks_at_clock) busy_since = std::chrono::steady_clock::now();
    }
    expected_ns += ns;
    at_least_ns += least_ns;
    all_at_least_ns += least_ns;
  }
  // What it has still to do at least. What comes behind the first mark that has not ended, as it was looked at last;
  // and no more has been done since it began than the time that has gone by, which is believed until that was longer
  // ago than `trusted`, as the error grows with the sum.
  double at_least_left_ns(std::chrono::steady_clock::time_point now, std::chrono::nanoseconds trusted) const {
    if (idle()) return 0;
    const double behind_mark = marks.empty() ? 0 : all_at_least_ns - marks.front()->at_least_ns;
    const std::chrono::duration<double, std::nano> since = now - busy_since;
    return std::max({0.0, behind_mark, since > trusted ? 0 : at_least_ns - since.count()});
  }
  bool knows_end_of(std::uint64_t position) const { return position <= ended_position; }
  // Marks of which nothing is left to be asked.
  void drop_known_marks() {
    while (!marks.empty() && marks.front()->position <= well_position) marks.pop_front();
    poll_at_marks = std::min(poll_at_marks, marks.size() + kManyMarks);
  }
};

// Makes `clock` that of a mark behind all that the stream has.
inline void set_clock_behind(const Stream& stream, Clock& clock) {
  if (clock.size() == stream.clock.size())  // as nearly always: no more than a copy
    std::copy_n(stream.clock.begin(), clock.size(), clock.begin());
  else
    clock = stream.clock;
  if (clock.size() <= stream.index) clock.resize(stream.index + 1, 0);
  clock[stream.index] = stream.tail_position;
}

inline bool has_ended(const Computation& computation) {
  if (computation.stream != nullptr) return computation.stream->knows_end_of(computation.position);
  if (!computation.is_left_out) return false;
  return std::all_of(computation.stands_for.begin(), computation.stands_for.end(),
                     [](const Computation* parent) { return parent->stream->knows_end_of(parent->position); });
}

// It has, and not with a failure, as far as is known. What depends on one that failed comes after it wherever it runs,
// and is skipped, until synchronize() has told the failure.
inline bool has_ended_well(const Computation& computation) {
  if (computation.stream != nullptr) return computation.position <= computation.stream->well_position;
  if (!computation.is_left_out) return false;
  return std::all_of(computation.stands_for.begin(), computation.stands_for.end(),
                     [](const Computation* parent) { return parent->position <= parent->stream->well_position; });
}

// into[i] = max(into[i], from[i]).
inline void merge_clock(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace pergola::scheduler
