// Which launches recurred and ran as graphs, since when and in which way, and why others did not: as values and in
// words. GraphLowering keeps it (graph_lowering.h), a Timeline has it, `pergola explain` prints it.
//
// "After #n": once the computation of that Computation::id had been submitted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/scheduler/task_report.h"

namespace pergola::scheduler {

struct KernelCount {
  std::string name;  // as in the PTX
  std::uint64_t count = 0;
  bool operator==(const KernelCount&) const = default;
};
// "scale 20, add 4"
std::string to_string(const std::vector<KernelCount>& kernels);

// One of the ways in which a run of launches may be a graph (graph_ways.h).
struct WayReport {
  enum class State : std::uint8_t {
    kOnly,     // there is no other
    kTried,    // it is still being tried, by turns with the others
    kKept,     // the fastest, or the first where none is faster by enough
    kPutBack,  // another is kept
    kRefused,  // it could not be made
  };
  std::string name;         // "plain" "early" ...
  std::string why;          // what it does; kRefused: why it is not there
  double best_ns = 0;       // what it takes: the mean of its tries but the longest; 0: not known
  std::uint64_t tries = 0;  // that were timed
  State state = State::kOnly;
  bool operator==(const WayReport&) const = default;
};
std::string_view to_string(WayReport::State state);  // "only" "tried" "kept" "put-back" "refused"

// A run of launches of a region that is a graph, or might be.
struct GraphReport {
  enum class State : std::uint8_t {
    kWaiting,  // for the device to have enough to do
    kMaking,
    kReady,
    kRefused,
    kReplaced,  // the region was cut otherwise, or another launch's scalars were found to change
    kPutBack,   // it was one of a form of turns that did not stay
  };
  std::uint64_t first = 0, launches = 0;  // of the region's; from 0
  std::vector<std::uint64_t> ahead;       // of these the uploads that go when they come, and are no part of the graph
  State state = State::kWaiting;
  std::string refusal;           // kRefused: why
  std::uint64_t made_after = 0;  // where it has ever been ready
  std::uint64_t launched = 0;    // as a graph
  std::uint64_t elsewhere = 0;   // since its way was chosen, on another stream than that on which that is the fastest
  double making_ns = 0;          // that making its plain way took, on a thread of its own; 0: it has not been made
  std::vector<WayReport> ways;
  bool operator==(const GraphReport&) const = default;
};
std::string_view to_string(GraphReport::State state);  // "waiting" "making" "ready" "refused" "replaced" "put-back"

struct RegionReport {
  std::uint64_t number = 0;          // in the order in which they were found, from 1
  std::uint64_t period = 0;          // launches after which it repeats itself
  std::vector<KernelCount> kernels;  // of one period
  std::uint64_t found_after = 0;
  std::uint64_t met_again = 0;         // times that it was found once more, after a mismatch
  std::vector<std::string> varying;    // kernels of which a launch has scalars that change; each once
  std::vector<std::string> rebinding;  // the same, with arrays that change
  std::uint64_t replaced = 0;          // launches for which graphs stood
  std::uint64_t flushed = 0;           // launches that were held back and then launched one by one:
  std::uint64_t interrupted = 0;       //   so often because something that is no launch came,
  std::uint64_t overdue = 0;           //   so often because they had been held for too long,
  std::uint64_t mismatched = 0;        // so often another launch came than was expected;
  std::string mismatch;                //   the last time: which
  std::uint64_t too_little = 0;        // times that launches were not held as the device had too little to do,
  double most_queued_ns = 0;           //   and the most that was seen queued
  std::uint64_t forgotten_graphs = 0;  // older ones, for which there was no room
  // Times that launches were held on an idle device as the host was what took the time (host_pace.h); whether they are
  // now; and what a turn took the last time, from its begin to that of the next one.
  std::uint64_t paced = 0;
  bool holds_pace = false;
  double paced_launches_ns = 0, paced_graphs_ns = 0;
  // In which its turns were tried, where the host waits for them (turn_forms.h): 'best_ns' is what a turn took, from
  // its begin to that of the next one.
  std::vector<WayReport> forms;
  std::vector<GraphReport> graphs;  // in the order in which they were thought of
  bool operator==(const RegionReport&) const = default;
};

struct GraphsReport {
  std::string off;              // why no launches may become graphs; "" where they may
  std::uint64_t launches = 0;   // looked at
  std::uint64_t apart = 0;      // of kernels that cannot be in a graph: cooperative, in clusters, with early start
  std::uint64_t forgotten = 0;  // older regions, for which there was no room
  std::vector<RegionReport> regions;
  TasksReport tasks;  // launches that ran as tasks are looked at apart
  bool operator==(const GraphsReport&) const = default;
};

// For people: a paragraph a region, and one a kernel that might run as tasks.
std::string explain(const GraphsReport& report);
// As JSON, and back; what is read is what was written, but for what is no UTF-8 and times under a picosecond. Any bytes
// may be given. kParseError says what is wrong and where; `where` names the place for messages.
std::string print_graphs(const GraphsReport& report);
Result<GraphsReport> parse_graphs(std::string_view text, const std::string& where);

}  // namespace pergola::scheduler
