// The host's side of one ring (abi/task_ring.h): writes records, reads what is done with.
//
// Who writes what: records, `head` and `free` are written by the one thread that owns the ring (producers.h); the
// answer by the device; `known` by anybody, to a position that it has seen all before of to be done with. Any thread
// may ask.
//
// What is done with may be told by the answer's frontier before its bit says so, as the frontier comes at once and bits
// with the scheduler warp's next round. A place is given out again only once its bit has been told: the bit of the lap
// before the last would say of the new record that it is done with. So of a position before `head` the bit is never
// older than the record, for the thread that pushed it and, by `head`, for all others.
//
// Ordering: a record needs none between its words (their phases), and all its words are release stores, so that what
// the host wrote before is seen by a device that acquires after it has read them. An answer's words are read by
// acquire: what the task wrote is seen.
//
// A line of its own: who asks for one ring's does not take its neighbour's from that one's owner.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

#include "src/abi/task_ring.h"
#include "src/executor/record_words.h"

namespace pergola::executor {

class alignas(64) HostRing {
 public:
  // Of zeroed memory that outlives this.
  void attach(abi::TaskRing* ring, const abi::TaskAnswer* answer) {
    ring_ = ring;
    answer_ = answer;
  }

  // Called with what the block has told of tasks that failed and nobody has taken (task_faults.h), before a place is
  // given out again; calls note_faults().
  void on_faults(std::function<void()> take) {
    take_faults_ = std::make_unique<const std::function<void()>>(std::move(take));
  }
  std::uint32_t faults_told() const { return load(answer_->faults); }
  std::uint32_t faults_seen() const { return faults_seen_.load(std::memory_order_acquire); }
  void note_faults(std::uint32_t seen) { faults_seen_.store(seen, std::memory_order_release); }
  // Behind a look at what is done: acquired there, so the faults of what is done are seen.
  void take_faults() {
    if (faults_told() != faults_seen() && take_faults_ != nullptr) [[unlikely]]
      (*take_faults_)();
  }

  // Positions given out so far.
  std::uint64_t head() const { return head_.load(std::memory_order_acquire); }

  // Whether the next record's place is free, and fewer than `depth` records are open. The owner's.
  bool has_room(std::uint32_t depth) {
    if (known_room(depth) != 0) return true;
    const std::uint64_t head = head_.load(std::memory_order_relaxed), at = frontier();
    // The answer is here now, for whichever of the two is asked next.
    free_.store(first_untold(free_.load(std::memory_order_relaxed), head), std::memory_order_relaxed);
    if (head - at >= depth && (head - at >= abi::kRingRecords || count_open(at, head) >= depth)) return false;
    return free_places(head) != 0;
  }
  // The same where only those that are not urgent count against `depth`: of a ring that urgent ones fill.
  bool has_room_beside_urgent(std::uint32_t depth) {
    std::uint32_t others = 0;
    for_each_open([&](std::uint64_t position, std::uint32_t) {
      const std::uint64_t record = std::atomic_ref(ring_->records[position % abi::kRingRecords].words[0]).load();
      others += (record >> abi::kRecordUrgentShift & 1) == 0;
    });
    return others < depth && has_room(abi::kRingRecords);
  }
  // For how many records there is, from what is known already; 0 where the answer is to be asked.
  std::uint32_t known_room(std::uint32_t depth) const {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t open = head - known_.load(std::memory_order_acquire);
    if (open >= depth) return 0;
    return std::min(depth - static_cast<std::uint32_t>(open), free_places(head));
  }

  // The owner's, before it puts `count` records of that depth here: brings into its cache the places that they get,
  // which the device has read since they were last written, and the answer, which the device has written, if that is
  // going to be asked.
  void prefetch(std::uint32_t count, std::uint32_t depth) const {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (std::uint64_t n = 0; n < count; ++n) prefetch_to_write(&ring_->records[(head + n) % abi::kRingRecords]);
    if (head + count - known_.load(std::memory_order_relaxed) > depth) __builtin_prefetch(answer_);
  }

  // Writes a record into the next place, which has_room(), and returns its position. `kind` is the number and, above
  // it, whether it is urgent, as word 0 has them (task_ring.h); `parameters` are kMostWords at most; the owner's.
  template <std::size_t kMostWords = abi::kRecordWords - 1>
  [[gnu::always_inline]] std::uint64_t push(std::uint32_t kind, std::uint32_t piece,
                                            std::span<const std::byte> parameters) {
    const std::uint64_t position = head_.load(std::memory_order_relaxed);
    RecordWords::write<kMostWords>(ring_->records[position % abi::kRingRecords], abi::phase_of(position),
                                   std::uint64_t{kind} << abi::kRecordKindShift | piece, parameters);
    head_.store(position + 1, std::memory_order_release);
    return position;
  }

  // Whether the record of that position, which has been given out, is done with.
  bool is_done(std::uint64_t position) const {
    if (position < known_.load(std::memory_order_acquire) || position + abi::kRingRecords < head()) return true;
    if (bit(position) == abi::phase_of(position) || position < told_frontier(head())) return true;
    return position + abi::kRingRecords < head();  // its place has been given to another since;
  }

  // Whether all records before that position, which have been given out, are done with. Looks at no faults, whose texts
  // take locks: whoever asks may be what the holder of one waits for.
  bool are_done(std::uint64_t before) const {
    for (std::uint64_t at = std::max(known_.load(std::memory_order_acquire), told_frontier(head())); at < before; ++at)
      if (!is_done(at)) return false;
    return true;
  }

  // look(position, kind) of each record before the head, as it is now, that is not done with. One that has come to be
  // done with meanwhile, and its place another's, may be looked at with the other's kind.
  template <typename Look>
  void for_each_open(Look&& look) {
    const std::uint64_t head = this->head();
    for (std::uint64_t position = frontier(); position < head; ++position) {
      if (is_done(position)) continue;
      const std::uint64_t record = std::atomic_ref(ring_->records[position % abi::kRingRecords].words[0]).load();
      look(position, static_cast<std::uint32_t>(record >> abi::kRecordKindShift) & (abi::kMostKinds - 1));
    }
  }

  // Of a record that is not done with: whether a word of its parameters is in [begin, end]. The place of one that has
  // come to be done with meanwhile may have another's.
  bool has_word_in(std::uint64_t position, std::uint64_t begin, std::uint64_t end) const {
    constexpr std::uint64_t kPhase = std::uint64_t{1} << abi::kRecordPhaseBit;  // which no address has
    for (std::uint64_t& word : std::span(ring_->records[position % abi::kRingRecords].words).subspan(1)) {
      const std::uint64_t given = std::atomic_ref(word).load(std::memory_order_acquire) & ~kPhase;
      if (begin <= given && given <= end) return true;
    }
    return false;
  }

  // The first position that is not known to be done with.
  std::uint64_t frontier() {
    const std::uint64_t head = this->head();
    std::uint64_t at = known_.load(std::memory_order_acquire);
    if (at >= head) return at;  // the head has gone on since
    at = first_untold(std::max(at, told_frontier(head)), head);
    take_faults();
    // A store takes the line from the owner, even of what is there.
    if (at != known_.load(std::memory_order_relaxed)) known_.store(at, std::memory_order_release);
    return at;
  }

 private:
  static_assert(abi::kRingRecords == 64, "the bits of a ring are those of a word");

  // Bit n: the record at position `at` + n is done with, where that is before `head`.
  std::uint64_t done_from(std::uint64_t at, std::uint64_t head) const {
    const std::uint64_t done = load(answer_->done[0]) | std::uint64_t{load(answer_->done[1])} << 32;
    // Places before the head's have its lap's phase when they are done with, the others the phase of the lap before.
    const std::uint64_t this_lap = (std::uint64_t{1} << head % abi::kRingRecords) - 1;
    const std::uint64_t phases = abi::phase_of(head) != 0 ? this_lap : ~this_lap;
    return std::rotr(~(done ^ phases), static_cast<int>(at % abi::kRingRecords));
  }
  // The first from `at` on whose bit does not say that it is done with; `head` where all do.
  std::uint64_t first_untold(std::uint64_t at, std::uint64_t head) const {
    const auto done = static_cast<unsigned>(std::countr_one(done_from(at, head)));
    return at + std::min<std::uint64_t>(done, head - at);
  }
  // How many places may be given out before the answer is asked again.
  std::uint32_t free_places(std::uint64_t head) const {
    return abi::kRingRecords - static_cast<std::uint32_t>(head - free_.load(std::memory_order_relaxed));
  }
  // Of the records from `at` to `head`, fewer than a ring's, those that are not done with.
  std::uint64_t count_open(std::uint64_t at, std::uint64_t head) const {
    const std::uint64_t mask = (std::uint64_t{1} << (head - at)) - 1;
    return static_cast<std::uint64_t>(std::popcount(~done_from(at, head) & mask));
  }
  std::uint32_t bit(std::uint64_t position) const {
    const auto at = static_cast<std::uint32_t>(position % abi::kRingRecords);
    return load(answer_->done[at / 32]) >> at % 32 & 1;
  }
  // The answer's low bits as a position: not more than a ring's records are open at once, so anything else is an older
  // answer.
  std::uint64_t told_frontier(std::uint64_t head) const {
    constexpr std::uint32_t kMask = (1u << abi::kFrontierBits) - 1;
    const std::uint32_t open = (static_cast<std::uint32_t>(head) - load(answer_->frontier)) & kMask;
    return open <= abi::kRingRecords && open <= head ? head - open : 0;
  }
  static std::uint32_t load(const std::uint32_t& word) {
    return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire);
  }

  abi::TaskRing* ring_ = nullptr;
  const abi::TaskAnswer* answer_ = nullptr;
  std::atomic<std::uint64_t> head_{0}, known_{0};
  std::atomic<std::uint64_t> free_{0};  // the bits of all before have been told; not more than a ring behind head_
  std::atomic<std::uint32_t> faults_seen_{0};  // of the answer's `faults`; writer: who takes them, under its lock
  std::unique_ptr<const std::function<void()>> take_faults_;
};
static_assert(sizeof(HostRing) == 64);

}  // namespace pergola::executor
