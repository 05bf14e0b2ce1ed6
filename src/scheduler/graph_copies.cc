// Copies that recur: between an array and its page-locked host side, whose addresses are the same in every turn.
//
//   turn      upload x   k1   upload y   k2   download z   (the host waits, reads z, writes x and y)
//   alone     five calls of the driver, and events between their streams
//   graph     one: a node each, with an edge wherever two conflict
//   at once   upload x when it comes, where it is large, and y, if the link is not busy for long enough with x; the
//   rest
//             is the graph
//
// Such a turn may be bound by the link to the device, which would stand idle until its last call has come. So the
// uploads with which a turn begins where the host steps in are no part of a graph (Region::lead_of()), unless it turns
// out that other forms of the turn are faster (graph_turns.cc): so many that the link is
// busy while the rest is held, and none where their calls would take longer than the link does. Where the link
// is what the turn waits for there are more, and uploads further in the turn go so, too (Region::ahead_in()). The graph comes after
// them, and its own uploads follow them on the link, whenever it begins. Hence to wait for them delays no copy, and a
// graph is not cut because its launches need different ones of them, but because some do not need a large one
// (Region::first_delayed_by()).
//
// A turn with its copies is looked for beside the turn of launches alone, and waited for where it is on its way. Where
// it does not come, or comes otherwise, a copy is what it was before: it goes ahead of what is held, or flushes it
// (graph_passing.cc). A copy between the launches of a turn that has none in it does the same.
//
// A graph begins when all of its launches may, and so do its copies. Where the host waits for each turn nothing is in
// the way but what has gone at once. Where it does not, an upload might run beside work that
// only launches of its graph wait for. So where graphs had to wait for what a copy in them need not wait for (one that
// comes after nothing in the graph) twice in a row, the region is given up, and copies count as no part of a turn for a
// while, longer each time. Turns that were found meanwhile have none in them, and are left when that is over.
#include <algorithm>

#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {
namespace {

constexpr std::uint32_t kMostDelays = 2;     // in a row: where a region is entered, work of the turn may be under way
constexpr std::uint64_t kCopiesRest = 4096;  // launches, twice as many each time
constexpr std::uint32_t kMostCopyRests = 10;

}  // namespace

bool GraphLowering::is_worth_keeping() const {
  return std::max({recurrence_.run(), turns_.run(), shape_.run(), pattern_.run(), with_copies_.run()}) >= kWorthKeeping;
}

// To the launches alone it is something else that comes between them.
void GraphLowering::learn_copy(const Work& work, std::uint64_t hash) {
  begins_turn_ = true;
  copies_come_ = true;
  const std::size_t period = with_copies_.push(hash);
  if (!is_worth_keeping()) return kept_.clear();
  keep(work, hash);
  since_copy_ = 0;
  follow_with_copies(period);
}

// Whether no other turn is to be followed: this one is, or is on its way.
bool GraphLowering::follow_with_copies(std::size_t period) {
  if (with_copies_.run() < kWorthKeeping || since_copy_ >= with_copies_.candidate()) return false;
  if (period == 0) return true;
  if (kept_.size() < period) return false;
  begin_following(period, {.with_copies = true});
  return true;
}

void GraphLowering::copies_went(const std::shared_ptr<Chunk>& chunk, bool delayed) {
  chunk->delays = delayed ? chunk->delays + 1 : 0;
  if (chunk->delays < kMostDelays) return;
  chunk->delays = 0;
  if (region_ == nullptr || std::find(region_->chunks.begin(), region_->chunks.end(), chunk) == region_->chunks.end())
    return;
  if (leaves_form("copies in it would wait for work that only launches wait for")) return;
  for (const std::shared_ptr<Chunk>& each : region_->chunks) {
    if (each->report == nullptr) continue;
    each->report->state = GraphReport::State::kRefused;
    each->report->refusal =
        "its copies would wait for work that only launches of it wait for, and go sooner by themselves";
  }
  copies_rest_until_ = offered_ + (kCopiesRest << copies_rests_);
  copies_rests_ = std::min(copies_rests_ + 1, kMostCopyRests);
  forget(std::shared_ptr<const Region>(region_));
  wake_.notify_all();  // its graphs go
}

}  // namespace pergola::scheduler
