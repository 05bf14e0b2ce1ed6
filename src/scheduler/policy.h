// The scheduling policies of paper 003 (section IV-C), as options by name.
//
// A text is a list of name=value, separated by commas; what it leaves out keeps its default:
//
//   retrieve-new-stream=reuse|always-new
//       where no parent's stream is taken: the stream free the longest, or a new one
//   retrieve-parent-stream=disjoint|same-as-parent
//       the first child on its parent's stream, later ones elsewhere; or all on it
//   dependency=with-const|no-const
//       whether two readers of an array may run at once
//   execution=async|sync
//       sync: every call waits for its own work
//   max-streams=N
//       at the bound, the stream used least recently is taken
//   fork-cost=N
//       microseconds that an event between streams is taken to cost: a kernel goes behind others on a parent's stream
//       that are expected to take less, as earlier launches did (durations.h); 0: never, and nothing is timed
//   graphs=measured|recurring|off|always
//       launches that recur run as graphs while the device has enough to do (graph_lowering.h), and turns that the host
//       waits for whatever it has, where that was measured to be faster (turn_forms.h); only while it has; never;
//       whatever it has
//   blocks=off|measured|trimmed|packed|packed-early|early|by-block|fused|columns|merged|merged-kernels|merged-early|
//          stacked|stacked-alone|merged-stacked|constants|copies-together
//       what a graph's launches wait for (runtime/block_ways.h): launches; whatever turns out fastest; launches, but
//       each is on the device before; blocks; runs of tiny launches are one; launches of a kernel that may run at once
//       are; or those of any kernels; or those of a kernel, and what that makes is on the device before;
//       launches that follow each other block by block are one; and so is what merging leaves; several copies are one
//   turns=measured|leads|whole|launches
//       of turns that the host waits for (turn_forms.h): whatever turns out fastest; uploads that they begin with go at
//       once and the rest is a graph; the graph has these, too; there is none where they begin with such (by one of
//       these three names nothing is held on an idle device, but with graphs=always)
//   memory=device|managed
//       arrays in the device's own memory; or in memory that moves to whichever side uses it, where it has been
//       prefetched (IV-C), read by the session that makes the arrays
//   tasks=off|small
//       every launch goes to a stream; or small ones that conflict with nothing under way run as narrow tasks
//       (task_launches.h)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace pergola::scheduler {

enum class RetrieveNewStream : std::uint8_t { kReuse, kAlwaysNew };
enum class RetrieveParentStream : std::uint8_t { kDisjoint, kSameAsParent };
enum class DependencyPolicy : std::uint8_t { kWithConst, kNoConst };
enum class Execution : std::uint8_t { kAsync, kSync };
enum class Memory : std::uint8_t { kDevice, kManaged };
enum class Blocks : std::uint8_t {
  kOff,
  kMeasured,
  kTrimmed,
  kPacked,
  kPackedEarly,
  kEarly,
  kByBlock,
  kFused,
  kColumns,
  kMerged,
  kMergedKernels,
  kMergedEarly,
  kStacked,
  kStackedAlone,
  kMergedStacked,
  kConstants,
  kCopiesTogether
};
enum class Graphs : std::uint8_t { kMeasured, kRecurring, kOff, kAlways };
enum class Turns : std::uint8_t { kMeasured, kLeads, kWhole, kLaunches };
enum class Tasks : std::uint8_t { kOff, kSmall };

struct Policy {
  RetrieveNewStream retrieve_new_stream = RetrieveNewStream::kReuse;
  RetrieveParentStream retrieve_parent_stream = RetrieveParentStream::kDisjoint;
  DependencyPolicy dependency = DependencyPolicy::kWithConst;
  Execution execution = Execution::kAsync;
  std::uint32_t max_streams = 32;  // 1 or more
  std::uint32_t fork_cost_us = 8;
  Graphs graphs = Graphs::kMeasured;
  Blocks blocks = Blocks::kMeasured;
  Turns turns = Turns::kMeasured;
  Memory memory = Memory::kDevice;
  Tasks tasks = Tasks::kOff;
  bool operator==(const Policy&) const = default;
};

// `base` with what `text` says. kInvalidArgument names the word, and what is known.
Result<Policy> parse_policy(std::string_view text, Policy base = {});
// The text that parse_policy() takes, with every name.
std::string to_string(const Policy& policy);

}  // namespace pergola::scheduler
