// What goes ahead of launches that are held back (BlockMaestro, III-C: copies and allocations between two kernels are
// moved before the first where nothing forbids it, so that the two come together).
//
//   program    a  b  copy u  c  d        held a b, expected c d; neither a nor b uses u's bytes
//   device     copy u  graph of a b c d
//
// Why it may. The results of a program are those of every order in which conflicting pieces of work are as they were
// written: two that are next to each other and do not conflict may change places. Something that conflicts with no held
// launch changes places with each of them, the last one first, and so comes before all. To the dependencies it is as
// if it had been written there, since held launches take their places among them only when they are launched:
//   its parents    are all that it conflicts with and that came before it, as what is held is none of these;
//   what is held   finds it there if it uses the same bytes otherwise than in conflict: both read them;
//   what follows   conflicts with it, with held launches or with both, and all of them are there before it.
// A held launch that may use anything conflicts with everything.
//
// What it means for where the chunk is cut: nothing, whether the chunk's launches before this place are held in this
// turn or were launched one by one. But a graph begins when all of its launches may, and a copy over the link takes
// long: where a later launch of the chunk has to wait for it, a new chunk begins with that.
#include <algorithm>

#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {

std::span<const Launch> GraphLowering::interrupt_for(std::span<const Access> accesses, bool over_the_link) {
  if (region_ == nullptr) return interrupt();
  const Chunk* const chunk = region_->chunk_of(phase_).get();  // until it is cut
  if (chunk->begin == phase_) return interrupt();  // nothing is held
  const auto first_in_conflict = [&](std::size_t begin, std::size_t end, bool have_come) {
    return region_->first_in_conflict(accesses, begin, end, readers_conflict_, have_come);
  };
  if (first_in_conflict(chunk->begin, phase_, true) != phase_) return interrupt();
  const std::size_t waiting = over_the_link ? first_in_conflict(phase_, chunk->end, false) : chunk->end;
  if (waiting == phase_) return interrupt();
  begins_turn_ = true;
  if (waiting == chunk->end) {
    if (held_ != 0) ++counters_.passed;
    return {};
  }
  const std::span<const Launch> held = take_held();
  if (!held.empty()) ++counters_.interrupted, ++region_->story->report.interrupted;
  cut_before(waiting);
  return held;
}

bool GraphLowering::holds_use_of(const Resource& resource) const {
  if (held_ == 0) return false;
  const auto uses = [&](const Launch& launch) {
    return launch.universal != Mode::kNone || std::ranges::any_of(launch.now_accesses(), [&](const Access& access) {
             return access.resource == &resource;
           });
  };
  const auto end = region_->launches.begin() + static_cast<std::ptrdiff_t>(phase_);
  return std::any_of(end - static_cast<std::ptrdiff_t>(held_), end, uses);
}

}  // namespace pergola::scheduler
