// Launches whose arrays change from turn to turn, as graphs.
//
//   while ...:  t = zeros(n)                 another array in each turn
//               k1(x[i:i + n], t)            another part of x
//               k2(t, y)
//
// Nothing of such a turn recurs but its kernels and how its launches stand to each other: k2 reads what k1 has just
// written, and y is what it was one turn ago (pattern_of()). So that is looked for as well, beside turns of the same
// arrays, for which it waits: those need nothing brought to the device before each graph, and have other ways.
//
// A region that is found so rebinds. Its launches count as expected whatever their arrays are, as long as they use them
// alike. What is held of a chunk is bound to what comes (array_slots.h). Where the graph does not stand for that, what
// is held goes launch by launch and so does the rest of the chunk. If that happens in most turns the region is given
// up, and none is looked for a while, longer each time.
//
// A launch with other arrays has all of its parameters in the chunk's block, as one whose scalars change. What it uses
// is told the scheduler when the graph is launched. Launches of the region whose arrays never change stay part of the
// graph, as they are; one that changes and whose kernel takes no block goes alone, between two graphs.
#include <algorithm>

#include <fmt/format.h>

#include "src/base/check.h"
#include "src/scheduler/graph_lowering.h"

namespace pergola::scheduler {
namespace {

constexpr std::uint32_t kAnUnbound = 4, kMostUnbound = 32;  // against each graph launched
constexpr std::uint64_t kPatternsRest = 4096;               // launches, twice as many each time
constexpr std::uint32_t kMostPatternRests = 10;
constexpr std::uint64_t kRestsForPeriods = 4, kRest = 2 * Recurrence::kConfirm;

}  // namespace

// While none is looked for launches recur with their arrays, or do not.
std::uint64_t GraphLowering::pattern_hash(const Work& work, std::uint64_t whole) {
  ++looked_for_pattern_;
  const bool may_rebind = work.call->block_form != nullptr && *work.call->block_form != nullptr;
  return may_rebind && offered_ >= patterns_rest_until_ ? pattern_of(work, looked_for_pattern_) : whole;
}

// Whether it is to be acted on: no turn is on its way that is of the same arrays.
bool GraphLowering::is_pattern_period(std::size_t period) const {
  if (offered_ < patterns_rest_until_) return false;
  for (const Recurrence* const of : {&recurrence_, &turns_, &shape_})
    if (of->run() >= kWorthKeeping) return false;
  return period >= Recurrence::kConfirm || pattern_.run() >= kConfirmShortShape;
}

// The latest launches, whole turns of them: as they met each other, and so not one turn several times over.
std::vector<Launch> GraphLowering::met_with_arrays(std::size_t period) {
  std::vector<Launch> launches;
  for (const Launch& kept : kept_)
    if (!kept.copy) launches.push_back(kept);
  const std::size_t borne_out = std::min<std::size_t>(launches.size(), pattern_.run() + period);
  const std::size_t turns = std::min(std::max<std::size_t>(1, kFewestRepeated / period), borne_out / period);
  launches.erase(launches.begin(), launches.end() - static_cast<std::ptrdiff_t>(turns * period));
  for (std::size_t i = 0; i < period; ++i) {
    bool varies = false, rebinds = false;
    for (std::size_t at = i; at < launches.size(); at += period) {
      const std::size_t ago = launches.size() - 1 - at;  // what they have seen are the same launches
      varies = varies || !recurrence_.equalled(ago, period);
      rebinds = rebinds || !shape_.equalled(ago, period);
    }
    for (std::size_t at = i; at < launches.size(); at += period) {
      if (rebinds)
        launches[at].rebind();
      else if (varies && !launches[at].scalars.empty() && launches[at].may_be_in_block())
        launches[at].vary();
    }
    counters_.rebinding += rebinds ? 1 : 0;
  }
  return launches;
}

// The launch that is expected has come, and its chunk is held or begins to be: whether the graph still stands for it.
// `work`: null where it is the same as ever.
bool GraphLowering::binds(const Work* work) {
  ArraySlots* const slots = held_chunk_->slots.get();
  if (slots == nullptr) return true;
  if (held_ == 0) slots->begin();
  const Launch& launch = region_->launches[phase_];
  if (!launch.rebinds()) return true;
  PERGOLA_CHECK(work != nullptr);  // it has no text
  if (slots->bind(phase_ - held_chunk_->begin, work->accesses)) return true;
  RegionReport& report = region_->story->report;
  ++report.mismatched;
  report.mismatch = fmt::format("'{}', launch {}, with arrays that stand otherwise to those of the launches before it",
                                launch.site == nullptr ? "?" : launch.site->name, phase_);
  region_->unbound += kAnUnbound;
  return false;
}

// A launch that rebinds has come. Where arrays come again after a turn or more, as those of buffers that take turns do
// and of loops over all tiles, a longer turn of the same arrays is the better one: the region is left, and patterns
// rest until that turn has been found.
void GraphLowering::look_at_arrays(const Launch& launch) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  auto hash = reinterpret_cast<std::uintptr_t>(launch.kernel) * kOdd;
  for (std::size_t i = 0; i < launch.latest_ids.size(); ++i) {
    const Range& range = launch.latest_accesses[i].range;
    for (const std::uint64_t number : {launch.latest_ids[i], range.begin, range.end}) {
      hash = (hash ^ number) * kOdd;
      hash ^= hash >> 29;
    }
  }
  if (launch.goes_alone)  // its scalars are part of what would recur
    for (const std::byte byte : launch.latest) hash = (hash ^ static_cast<std::uint8_t>(byte)) * kOdd;
  const std::size_t period = recurrence_.push(hash);
  if (period == 0) return;
  const auto turn = std::span(region_->launches).first(region_->turn);
  const auto rebound = static_cast<std::size_t>(std::ranges::count_if(turn, &Launch::rebinds));
  if (period < rebound) return;  // within a turn
  region_->same_again = true;
  patterns_rest_until_ =
      offered_ + kRestsForPeriods * (period / rebound + 1) * turn.size() + (kRest << patterns_rests_);
  patterns_rests_ = std::min(patterns_rests_ + 1, kMostPatternRests);
  look_at_arrays_until_ = 0;
}

void GraphLowering::give_up_binding() {
  if (region_ == nullptr || region_->unbound < kMostUnbound) return;
  for (const std::shared_ptr<Chunk>& chunk : region_->chunks) {
    if (chunk->report == nullptr) continue;
    chunk->report->state = GraphReport::State::kRefused;
    chunk->report->refusal = "in most turns its arrays stand otherwise to each other";
  }
  rest_from_patterns();
  before_turning_ = region_;  // what is flushed is of it
  forget(std::shared_ptr<const Region>(region_));
  wake_.notify_all();  // its graphs go
}

void GraphLowering::rest_from_patterns() {
  patterns_rest_until_ = offered_ + (kPatternsRest << patterns_rests_);
  patterns_rests_ = std::min(patterns_rests_ + 1, kMostPatternRests);
}

}  // namespace pergola::scheduler
