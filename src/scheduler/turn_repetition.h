// Whole turns of launches that come again, one by one: each is launched where its like was, a turn before, and behind
// the same ones.
//
//   turn   1   a b c │ 2   a b c │ 3   a b c │ 4   a b c │ 5   a b ...
//                        kept         compared   repeated ─────────▶
//
// What placing a launch finds depends on who is in its bytes. From the second of equal turns on that is the same but
// for the turn, as each launch has the bytes of its like, and nothing comes between. So where all launches of a turn
// had the edges of their likes, a turn later (and else just edges to work that had ended before all of them, the same
// for both), those of the next turn will have them, too: who is in their bytes is not asked. Edges to what had ended
// count, as it may not have in the next turn; so where such were forgotten it begins anew
// (ComputationPool::forgotten()).
//
// Nor is it written there that a repeated launch is. The last turn is enough for that, as it has all bytes that any
// has: Scheduler::write_down() does it before anybody looks (state_mutex.h). It brings the log up to date, too, of
// which a number for each launch is kept meanwhile. Streams always are.
//
// An event behind a launch is wanted where one on another stream comes after it. Where its queue records again
// (Queue::records_again()) each such step has one event, recorded again in each turn: what waits for it has been queued
// by then. It becomes a mark of its stream when turns are written down. Elsewhere, and where the device's progress is
// looked at, it has a mark of its stream at once.
//
// A region that has a short turn several times over is repeated by its turn.
//
// Guarded by the scheduler's lock.
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/scheduler/dag_log.h"
#include "src/scheduler/region.h"
#include "src/scheduler/size_class.h"
#include "src/scheduler/stream.h"

namespace pergola::scheduler {

class TurnRepetition {
 public:
  static constexpr std::size_t kMostLaunches = 256;  // of a turn; twice as many are in the log
  // So many in a row; then a turn is placed like any other, as what is known of kernels' times may have changed.
  static constexpr std::uint64_t kMostRepeated = 4096;

  // A launch of the turn, as it went last.
  struct Step {
    using Steps = boost::container::static_vector<std::uint32_t, DagVertex::kEdges>;
    std::uint32_t stream = 0;
    bool has_others = false;   // on other streams, that wait for it
    bool is_recorded = false;  // `event` is, behind it
    bool mark_used = false;
    SizeClass size;
    Steps waits_for;  // steps on other streams, latest first
    Steps parents;    // of each of its edges; kNone of one to what is no part of the turns
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    std::uint64_t position = 0;
    double expected_until_ns = 0;
    const void* known = nullptr;  // Queue::Between::known
    device::EventPtr event;
    Clock clock;             // of the event, as Mark's
    double at_least_ns = 0;  // the same
    MarkPtr mark;            // behind it, where one was recorded in place of `event`; null: none
  };
  // Where a launch stands: of the region that is being followed, among its calls.
  struct At {
    const Region* region = nullptr;
    std::size_t launch = 0;
  };

  // Whether the launch there comes where its like did, and will find what that found. `changes`: how often others had
  // the lock, or something was forgotten.
  bool is_next(const At& at, std::uint64_t changes, std::uint64_t last_id) const {
    return repeats_ && repeated_ < kMostRepeated && next_ == at.launch && changes_ == changes && last_id_ == last_id &&
           is_of(at.region);
  }
  // It has been placed as any other, and is the last of `log`. `region`: that of `at`, or another where it is no more.
  void placed(const At& at, const std::shared_ptr<Region>& region, std::uint64_t changes, std::uint64_t id,
              const DagLog& log);
  // Nothing is known of turns any more; nothing is left to be written down.
  void forget() {
    if (region_at_ == nullptr) return;
    region_at_ = nullptr;
    region_.reset();
    alike_ = 0;
    repeats_ = false;
    steps_.clear();
  }

  bool repeats() const { return repeats_; }
  // ── While is_next() ──
  Step& step() { return steps_[next_]; }
  Step& step(std::size_t at) { return steps_[at]; }
  // The latest on that stream, which is the turn's.
  Step& tail(const Stream& stream) { return steps_[tails_[stream.index]]; }
  // The launch has been repeated. `orders`: of its edges, as DagLog::Repeated has them.
  void repeated(std::uint64_t id, std::uint32_t orders) {
    tails_[steps_[next_].stream] = static_cast<std::uint32_t>(next_);
    next_ = next_ + 1 == steps_.size() ? 0 : next_ + 1;
    last_id_ = id;
    ++repeated_;
    orders_[unlogged_++ % orders_.size()] = orders;
    if (left_ == 0) written_of_ = region_.lock();
    if (left_ != steps_.size()) ++left_;
  }
  // Brings the log up to date.
  void write_log(DagLog& log);
  // The launches that are left to be written down, oldest first: `write(launch, step, id)`. Nothing is left afterwards,
  // and once the next has been placed as its like was, or a whole turn of them after kMostRepeated, turns are repeated
  // again.
  template <typename Write>
  void take_left(Write write) {
    for (std::size_t n = left_; n > 0; --n) {
      const std::size_t at = before(n);
      write(written_of_->launches[at], steps_[at], last_id_ + 1 - n);
    }
    left_ = 0;
    written_of_.reset();
    repeats_ = false;
    alike_ = repeated_ < kMostRepeated ? steps_.size() - 1 : 0;
  }

 private:
  bool is_of(const Region* region) const { return region_at_ == region && !region_.expired(); }
  void begin(const Region& region, const DagLog& log);
  // Of the launch so many before that, a turn at most.
  std::size_t before(std::size_t back) const { return next_ >= back ? next_ - back : next_ + steps_.size() - back; }

  const Region* region_at_ = nullptr;
  std::weak_ptr<const Region> region_;
  std::shared_ptr<const Region> written_of_;  // the same while something is left
  std::uint64_t changes_ = 0, last_id_ = 0, first_id_ = 0;
  std::size_t next_ = 0;   // of Region::calls
  std::size_t alike_ = 0;  // launches in a row that were as their likes
  bool repeats_ = false;
  std::uint64_t repeated_ = 0;
  std::size_t left_ = 0;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> tails_;                       // by the index of a stream: steps
  std::vector<std::uint32_t> counts_;                      // the same: how many a turn has
  std::uint64_t unlogged_ = 0;                             // repeated launches that the log has not got
  std::array<std::uint32_t, DagLog::kCapacity> orders_{};  // of these, in a ring from the first on
};

}  // namespace pergola::scheduler
