// The device half of the executor: blocks that never leave, in each a scheduler warp and 31 executor warps (Pagoda,
// paper 000, 4.1 and 4.3: the MasterKernel, algorithms 1 and 2).
//
//   warp 0     reads its ring (abi/task_ring.h) ─▶ entries ─▶ places warps ─▶ tells the host what is done with
//   warps 1-31 wait for an order ─▶ fill their slot ─▶ run a body ─▶ the last one of a block marks its memory as free,
//              the last one of a task its record as done with
//
// Who writes what in shared memory (Board):
//   orders[w]        the scheduler while it is 0; warp w, back to 0
//   entries, blocks  the scheduler until it gives the first order about them; then only their `left`, by the warps
//   idle, freed_*, done   warps set bits (atomics, release); the scheduler takes them (exchange, acquire)
//   under_way, families   both, atomically: what the scheduler has taken, and how much of that is not done with
// What is free is in registers of the scheduler: nobody else allocates, so there is no lock (paper, 5.1).
//
// Ordering. The host's writes before a record are seen behind the scheduler's fence.acq_rel.sys after it has read the
// record, and by a warp through the release of its order. What a task wrote is released by each of its warps to the
// block, and by the fence of whoever tells the host to the whole system (causality order is transitive, PTX ISA 8.8).
//
// Where bodies spawn tasks, blocks have inboxes beside their rings (spawning.h): the same kernel, compiled with
// PERGOLA_TASKS_SPAWN. Where it notes when tasks began and ended (tracing.h), with PERGOLA_TASKS_TRACE.
//
// Compiled by clang when Pergola is built; executor/generation.cc puts the bodies where pergola_run_body() stands.
#include "buddies.h"
#include "executor_board.h"
#include "spawning.h"
#include "task_faults.h"
#include "tracing.h"

using namespace pergola::executor;

extern "C" __device__ void pergola_run_body();  // of the number in the register %pergola_body

namespace {

// While tasks come into its inbox the scheduler looks at its ring once in so many rounds. A multiple of 4, as is what
// is between two looks at `parks`.
constexpr u32 kRoundsOfAHost = 8;
// After so many empty reads of the ring the scheduler sleeps between them, for so many nanoseconds; where tasks may come
// into its inbox it looks there this often meanwhile.
constexpr u32 kHotReads = 64, kWarmReads = 160, kWarmSleep = 300, kColdSleep = 8000, kColdLooks = 16;
// A ring that is never without tasks tells no frontier: so often it tells one that is too old to count.
constexpr u32 kFrontierRefreshShift = 22, kFrontierAge = 4096;
// A load of the whole warp brings so many records. The ring is read by two of them while tasks come: over the bus two
// take as long as one. The inbox, which is near, by one.
constexpr u32 kRecordsOfALoad = 32 / kRecordWords, kRecordsOfARead = 2 * kRecordsOfALoad;
// Entries that wait for warps, beyond which no more are taken.
constexpr u32 kEnoughWaiting = kMostReturned - kRecordsOfARead - kRecordsOfALoad + 1;
static_assert(kEnoughWaiting > kFewestWaiting);
// Rounds in which the first of a class does not fit though warps are free, before others are looked at: where all are of
// one shape, or end soon, that is for nothing, and a round has little time.
constexpr u32 kRoundsBeforePassing = 16;
constexpr u32 kReserved = kAll;  // Stuck::rounds of what is passed no more

// Nothing is under way here: the host hears of it at once. `before`: what board.under_way was.
__device__ void tell_frontier(const TaskExecutorParameters& parameters, u32 before) {
  fence_system();
  store_system(&parameters.answers[blockIdx.x].frontier, before >> 8);
}

class Scheduler {
 public:
  __device__ Scheduler(const TaskExecutorParameters& parameters, u32 lane)
      : parameters_(parameters),
        lane_(lane),
        ring_(parameters.rings + blockIdx.x),
        answer_(parameters.answers + blockIdx.x),
        next_(parameters.states[blockIdx.x].next) {
    if (lane < kRingRecords / 32) told_ = board.done[lane];
    if constexpr (kSpawns) {
      inbox_ = parameters.inboxes + blockIdx.x;
      inbox_next_ = parameters.states[blockIdx.x].inbox_next;
    }
  }

  __device__ void run() {
    take_returned();
    bool parks = false;
    u32 empty_reads = 0, spawned = 0;
    for (u32 round = 0;; ++round) {
      const u32 room = parks || waiting() >= kEnoughWaiting ? 0 : free_entries();
      // While tasks come from other tasks most rounds do without the bus.
      const bool asks_host = !kSpawns || spawned == 0 || round % kRoundsOfAHost == kRoundsOfAHost - 1;
      const u32 wanted = asks_host ? min(empty_reads == 0 ? kRecordsOfARead : 1u, room) : 0;
      const u32 wanted_first = min(wanted, kRecordsOfALoad), wanted_second = wanted - wanted_first;
      const u64 first = read(next_, wanted_first), second = read(next_ + kRecordsOfALoad, wanted_second);
      const u32 inbox_wanted = kSpawns ? min(kRecordsOfALoad, room - wanted) : 0;
      const u64 inbox_word = read_inbox(inbox_wanted);
      const u32 over = read_over();
      const bool looks = !parks && asks_host && (round & 3) == 3;
      const u32 parked = looks ? read_parks() : 0;
      // While the bus is busy with that:
      collect();
      if (!parks) place();
      if (looks) parks = __shfl_sync(kAll, parked, 0) == parameters_.launch;
      end_families(over);
      const u32 come_first = arrived(first, wanted_first, ring_phase_of, next_);
      const u32 come_second =
          come_first != kRecordsOfALoad ? 0 : arrived(second, wanted_second, ring_phase_of, next_ + kRecordsOfALoad);
      const u32 come = come_first + come_second;
      spawned = arrived(inbox_word, inbox_wanted, inbox_phase_of, inbox_next_);
      publish(come != 0);
      if (come + spawned != 0 && empty_reads > kWarmReads) end_cold();
      if (spawned != 0) {
        fence_device();
        take(inbox_word, inbox_next_, spawned, true);
        inbox_next_ += spawned;
        empty_reads = 0;
      }
      if (come != 0) {
        if (lane_ == 0) add(&board.under_way, come << 8 | come);
        take(first, next_, come_first, false);
        if (come_second != 0) take(second, next_ + kRecordsOfALoad, come_second, false);
        // An answer of 2^24 positions ago would be taken for one of now.
        if (((next_ ^ (next_ + come)) >> kFrontierRefreshShift) != 0 && lane_ == 0)
          store_system(&answer_->frontier, (next_ - kFrontierAge) & ((1u << kFrontierBits) - 1));
        next_ += come;
        empty_reads = 0;
      }
      if (come + spawned != 0) continue;
      // A warp that frees its entry has its order still to clear: it is idle after that, and could miss kQuit before.
      if (parks && has_no_begun() && !changed()) break;
      if (wanted == 0) {
        __nanosleep(50);
      } else if (++empty_reads > kHotReads && waiting() == 0) {
        if (empty_reads > kWarmReads) {
          parks = leaves_by_itself();
          sleep_cold();
        } else {
          __nanosleep(kWarmSleep);
        }
      }
    }
    end_cold();
    return_waiting();
    end_trace(parameters_, lane_);
    if (lane_ != 0) store_release(&board.orders[lane_], kQuit);
  }

 private:
  // Of a class of board.waiting: which is the first, how many there are, and how many warps of the first are placed.
  struct Queue {
    u32 first = 0, count = 0, placed = 0;
  };
  __device__ u32 waiting() const { return others_.count + urgent_.count; }
  __device__ u32 free_entries() const { return count(free_entries_[0]) + count(free_entries_[1]); }

  __device__ bool has_no_begun() const {
    return free_warps_ == kExecutors && free_entries() + waiting() == kTaskEntries;
  }

  // Asked between long sleeps. Whether no block has had a task for idle_ms: the host has them leave far sooner, unless
  // whoever would tell them is kept waiting by a call that waits for this kernel (executor.h). What each block says of
  // itself may be over when another reads it: it then leaves beside one that works, and nothing is lost by that.
  __device__ bool leaves_by_itself() const {
    u32 leaves = 0;
    if (lane_ == 0) {
      TaskRingState& all = parameters_.states[0];
      if (!has_no_begun()) {
        end_cold();
      } else if (board.cold_since == 0) {
        board.cold_since = milliseconds();
        add_global(&all.cold_blocks, 1);
      } else {
        const bool is_over = milliseconds() - board.cold_since >= parameters_.idle_ms &&
                             load_relaxed_global(&all.cold_blocks) == gridDim.x;
        if (is_over) store_relaxed_global(&all.left_cold, parameters_.launch);
        leaves = is_over || load_relaxed_global(&all.left_cold) == parameters_.launch;
      }
    }
    return __shfl_sync(kAll, leaves, 0) != 0;
  }
  __device__ void end_cold() const {
    if (lane_ != 0 || board.cold_since == 0) return;
    board.cold_since = 0;
    add_global(&parameters_.states[0].cold_blocks, ~0u);
  }
  // Never 0; only differences count.
  __device__ static u32 milliseconds() {
    const u32 ms = static_cast<u32>(global_time() >> 20);  // of 1.05
    return ms == 0 ? 1 : ms;
  }

  // What lane 0 has read counts: two could read it before and after it is written.
  __device__ u32 read_parks() const { return lane_ == 0 ? load_system(&ring_->parks) : 0; }

  // One word of the records from position `from` on for each lane: eight lanes read one record at once.
  __device__ u64 read(u32 from, u32 wanted) const {
    const u32 record = lane_ / kRecordWords;
    if (record >= wanted) return 0;
    return load_system(&ring_->records[(from + record) % kRingRecords].words[lane_ % kRecordWords]);
  }
  __device__ static u32 ring_phase_of(u32 position) { return phase_of(position); }
  // The same of the inbox.
  __device__ u64 read_inbox(u32 wanted) const {
    const u32 record = lane_ / kRecordWords;
    if (!kSpawns || record >= wanted) return 0;
    return load_relaxed_global(&inbox_->records[(inbox_next_ + record) % kInboxRecords].words[lane_ % kRecordWords]);
  }
  // How many of the records read, from position `first` on, are there as a whole, from that one on.
  template <typename Phase>
  __device__ u32 arrived(u64 word, u32 wanted, Phase phase, u32 first) const {
    if (wanted == 0) return 0;
    const u32 record = lane_ / kRecordWords;
    const bool is_there = record < wanted && (word >> kRecordPhaseBit) == phase(first + record);
    const u32 there = __ballot_sync(kAll, is_there);
    u32 come = 0;
    while (come < wanted && (there >> (come * kRecordWords) & 0xff) == 0xff) ++come;
    return come;
  }

  __device__ void sleep_cold() const {
    if constexpr (kSpawns) {
      for (u32 n = 0; n < kColdLooks; ++n) {
        __nanosleep(kColdSleep / kColdLooks);
        const u64 next = load_relaxed_global(&inbox_->records[inbox_next_ % kInboxRecords].words[0]);
        if (__shfl_sync(kAll, static_cast<u32>(next >> kRecordPhaseBit), 0) == inbox_phase_of(inbox_next_)) return;
        if (__ballot_sync(kAll, read_over() != 0) != 0) return;
      }
    } else {
      __nanosleep(kColdSleep);
    }
  }

  // Which families are over, a word for each of the first lanes.
  __device__ u32 read_over() const {
    return kSpawns && lane_ < kRingRecords / 32 ? load_relaxed_global(&inbox_->over[lane_]) : 0;
  }
  __device__ void end_families(u32 over) {
    if (!kSpawns || __ballot_sync(kAll, over != 0) == 0) return;
    if (over != 0) {
      over = take_bits_global(&inbox_->over[lane_]);
      flip_bit(&board.done[lane_], over);
      subtract(&board.families, count(over));
      const u32 before = subtract(&board.under_way, count(over));
      if ((before & 0xff) == count(over)) tell_frontier(parameters_, before);
    }
    __syncwarp();
  }

  // What warps have freed becomes free.
  __device__ void collect() {
    u32* const word = &board.idle + lane_;
    u32 bits = 0;
    if (lane_ < kTaken && load_relaxed(word) != 0) bits = take_bits(word);
    if (__ballot_sync(kAll, bits != 0) == 0) return;
    free_warps_ |= __shfl_sync(kAll, bits, 0);
    free_blocks_ |= __shfl_sync(kAll, bits, 1);
    free_named_ |= __shfl_sync(kAll, bits, 2);
    for (u32 half = 0; half < 2; ++half) {
      free_entries_[half] |= __shfl_sync(kAll, bits, 3 + half);
      free_leaves_[half] |= __shfl_sync(kAll, bits, 5 + half);
    }
  }

  __device__ bool changed() const {
    const bool mine = lane_ < kRingRecords / 32 && load_relaxed(&board.done[lane_]) != told_;
    return __ballot_sync(kAll, mine) != 0;
  }
  // Tells the host what is done with; one fence serves that, and records that have come.
  __device__ void publish(bool records_have_come) {
    u32 done = told_;
    if (lane_ < kRingRecords / 32) done = load_acquire(&board.done[lane_]);
    const bool tells = __ballot_sync(kAll, done != told_) != 0;
    if (!tells && !records_have_come) return;
    fence_system();
    if (done != told_) {
      store_system(&answer_->done[lane_], done);
      told_ = done;
    }
  }

  __device__ u32 take_entry() {
    const u32 half = free_entries_[0] != 0 ? 0 : 1;
    const u32 bit = lowest(half == 0 ? free_entries_[0] : free_entries_[1]);
    if (half == 0)
      free_entries_[0] &= ~(1u << bit);
    else
      free_entries_[1] &= ~(1u << bit);
    return half * 32 + bit;
  }

  // What the last launch has given back, and what this one does.
  __device__ void take_returned() {
    const TaskRingState& state = parameters_.states[blockIdx.x];
    const u32 returned = state.returned;
    fence_system();
    for (u32 n = 0; n < returned; ++n) {
      const u32 position = state.positions[n];
      const bool from_inbox = kSpawns && (state.from_inbox >> n & 1) != 0;
      u64 word = 0;
      if (lane_ < kRecordWords)
        word = from_inbox ? load_relaxed_global(&inbox_->records[position % kInboxRecords].words[lane_])
                          : load_system(&ring_->records[position % kRingRecords].words[lane_]);
      if (lane_ == 0 && !from_inbox) add(&board.under_way, 1);
      take(word, position, 1, from_inbox);
    }
    // Of the first one of a class some warps may have begun, and ended.
    others_.placed = restore_placed(board.waiting[0][0], state.placed[0]);
    urgent_.placed = restore_placed(board.waiting[1][0], state.placed[1]);
    __syncwarp();
  }
  __device__ u32 restore_placed(u32 number, u32 state) const {
    const u32 placed = state & ~kHasSpawned;
    if (placed != 0 && lane_ == 0) {
      entries[number].left -= placed;
      if (kSpawns) entries[number].has_spawned = state >> 31;
    }
    if (placed != 0) note_begin(number, 0, lane_);  // what has run before the kernel was away counts as nothing
    return placed;
  }
  __device__ void return_waiting() {
    TaskRingState& state = parameters_.states[blockIdx.x];
    bool is_spawned = false;
    if (lane_ < waiting()) {
      const bool is_urgent = lane_ < urgent_.count;
      const u32 at = is_urgent ? urgent_.first + lane_ : others_.first + lane_ - urgent_.count;
      const Entry& entry = entries[board.waiting[is_urgent ? 1 : 0][at % kTaskEntries]];
      state.positions[lane_] = entry.position;
      is_spawned = kSpawns && (entry.family & kFamilyFounder) == 0;
    }
    const u32 from_inbox = __ballot_sync(kAll, is_spawned);
    if (lane_ == 0) {
      state.placed[0] = saved_placed(board.waiting[0], others_);
      state.placed[1] = saved_placed(board.waiting[1], urgent_);
    }
    if (lane_ < kRingRecords / 32) state.done[lane_] = told_;
    if (lane_ == 0) {
      state.next = next_;
      state.returned = waiting();
      if constexpr (kSpawns) {
        state.inbox_next = inbox_next_;
        state.from_inbox = from_inbox;
        state.families = board.families;
        store_system(&answer_->spawned_here, inbox_next_);
      }
    }
  }
  __device__ u32 saved_placed(const u32* waiting, const Queue& queue) const {
    const bool has_spawned =
        kSpawns && queue.placed != 0 && entries[waiting[queue.first % kTaskEntries]].has_spawned != 0;
    return queue.placed | (has_spawned ? kHasSpawned : 0);
  }

  // Records, from position `first` on, become entries: eight lanes each.
  __device__ void take(u64 word, u32 first, u32 come, bool from_inbox) {
    from_inbox = kSpawns && from_inbox;
    const u32 record = lane_ / kRecordWords, in_record = lane_ % kRecordWords;
    u32 number = 0;
    for (u32 n = 0; n < come; ++n) {
      const u32 taken = take_entry();
      if (n == record) number = taken;
    }
    Entry& entry = entries[number];
    const u64 head = __shfl_sync(kAll, word, record * kRecordWords);
    const bool has = record < come;
    if (has && in_record != 0) {
      const u64 bit = head >> (kRecordDisplacedShift + in_record) & 1;
      const u64 value = (word & ~(1ull << kRecordPhaseBit)) | bit << kRecordPhaseBit;
      entry.parameters[in_record - 1] = value;
      if (from_inbox && in_record == kRecordWords - 1) entry.family = static_cast<u32>(value);
    }
    copy_kinds(static_cast<u32>(head >> kRecordKindShift) & (kMostKinds - 1), entry, come);
    const bool leads = has && in_record == 0, is_urgent = (head >> kRecordUrgentShift & 1) != 0;
    const u32 urgent = __ballot_sync(kAll, leads && is_urgent), others = __ballot_sync(kAll, leads && !is_urgent);
    if (leads) {
      const TaskKindEntry& kind = entry.kind;
      entry.position = first + record;
      entry.piece = static_cast<u32>(head) & (from_inbox ? kMostHandlePieces : kAll);
      if (kSpawns && !from_inbox) {
        entry.family = kFamilyFounder | (blockIdx.x * kRingRecords + entry.position % kRingRecords);
        entry.has_spawned = 0;
      }
      const u32 pieces = from_inbox ? static_cast<u32>(head) >> 16 : 1;
      const u32 warps =
          min(pieces * kind.piece_blocks, kind.blocks - entry.piece * kind.piece_blocks) * (kind.blocks_warps & 0xff);
      entry.warps = warps;
      entry.left = warps;
      const u32 rank = count((is_urgent ? urgent : others) & ((1u << lane_) - 1));
      const u32 next = is_urgent ? urgent_.first + urgent_.count : others_.first + others_.count;
      board.waiting[is_urgent ? 1 : 0][(next + rank) % kTaskEntries] = number;
    }
    __syncwarp();
    urgent_.count += count(urgent);
    others_.count += count(others);
    for (u32 n = 0; n < come; ++n) {
      const u32 one = __shfl_sync(kAll, number, n * kRecordWords);
      if (entries[one].kind.parameter_bytes > kRecordParameterBytes) fetch_parameters(one);
    }
  }

  // The kind of each of `come` entries, one for eight lanes.
  __device__ void copy_kinds(u32 number, Entry& entry, u32 come) {
    const u32 record = lane_ / kRecordWords, word = lane_ % kRecordWords, at = number % 16;
    const bool is_known = known_numbers[at] == number + 1;
    u64* const to = reinterpret_cast<u64*>(&entry.kind) + word;
    if (record < come && is_known) *to = reinterpret_cast<const u64*>(&known_kinds[at])[word];
    if (__ballot_sync(kAll, record < come && !is_known) != 0) {
      __syncwarp();
      if (record < come && !is_known) {
        *to = load_relaxed_global(reinterpret_cast<const u64*>(&parameters_.kinds[number]) + word);
        // Of two at one place one is known from now on, as a whole.
        if (word == 0) known_numbers[at] = record;
      }
      __syncwarp();
      const bool is_kept = record < come && !is_known && known_numbers[at] == record;
      if (is_kept) reinterpret_cast<u64*>(&known_kinds[at])[word] = *to;
      __syncwarp();
      if (is_kept && word == 0) known_numbers[at] = number + 1;
    }
    __syncwarp();
  }

  // Parameters that are too many for a record lie where it says, and come nearer.
  __device__ void fetch_parameters(u32 number) {
    Entry& entry = entries[number];
    u64* const to = reinterpret_cast<u64*>(parameters_.large_parameters +
                                           (u64{blockIdx.x} * kTaskEntries + number) * parameters_.large_bytes);
    const u64* const from = reinterpret_cast<const u64*>(entry.parameters[0]);
    for (u32 at = lane_; at < entry.kind.parameter_bytes / 8; at += 32) to[at] = load_system(from + at);
    __syncwarp();
    if (lane_ == 0) entry.parameters[0] = reinterpret_cast<u64>(to);
    __syncwarp();
  }

  // Waiting entries, urgent ones first, and of each class the oldest first (algorithm 2). One that does not fit is passed
  // by narrower ones of its class for reserve_ns, and then waited for: what ends meanwhile is kept for it, so that none
  // waits for ever behind narrower ones. Nor does one of the host's behind urgent ones of the host's, or later ones that
  // pass it: it has one of its ring's places, and the one that is kRingRecords later waits for that.
  __device__ void place() {
    if (urgent_.count != 0 && !place_from<1>(urgent_)) return;
    place_from<0>(others_);
  }
  // Whether all of a class have been placed.
  template <u32 kClass>
  __device__ __forceinline__ bool place_from(Queue& queue) {
    u32* const waiting = board.waiting[kClass];
    u32 behind = 0;  // the first that does not fit, if it is not 0
    while (behind != queue.count) {
      const u32 number = waiting[(queue.first + behind) % kTaskEntries];
      const Entry& entry = entries[number];
      const bool needs_block = (entry.kind.blocks_warps & kKindNeedsBlock) != 0;
      u32 placed = 0;
      if (behind == 0) {
        placed = queue.placed;
      } else if (entry.warps > count(free_warps_) ||
                 (needs_block && entry.warps != (entry.kind.blocks_warps & 0xff))) {
        ++behind;  // it would not begin as a whole, and only the first may have begun
        continue;
      }
      note_begin(number, placed, lane_);
      if (!(needs_block ? place_block(number, entry, placed) : place_warps(number, entry, placed))) {
        if (behind == 0 && !may_be_passed<kClass>(entry.position << 6 | number, queue)) return false;
        ++behind;
        continue;
      }
      if (behind == 0) {
        queue.placed = placed;
        if (placed != entry.warps) continue;
        queue.placed = 0;
      } else {
        move_to_front(waiting, queue, behind);  // what was behind it is as far behind the first as before
      }
      ++queue.first;
      --queue.count;
    }
    return behind == 0;
  }
  // Those before it move back by one, two for each lane at most.
  __device__ void move_to_front(u32* waiting, const Queue& queue, u32 behind) const {
    const u32 mine = waiting[(queue.first + lane_) % kTaskEntries];
    const u32 other = waiting[(queue.first + 32 + lane_) % kTaskEntries];
    __syncwarp();
    if (lane_ < behind) waiting[(queue.first + lane_ + 1) % kTaskEntries] = mine;
    if (32 + lane_ < behind) waiting[(queue.first + 32 + lane_ + 1) % kTaskEntries] = other;
    __syncwarp();
  }
  // Of the first of a class, which does not fit: where some warps are free, and that is so in some rounds, for reserve_ns
  // from then on. `key`: its position, of the ring or the inbox, and its entry.
  template <u32 kClass>
  __device__ bool may_be_passed(u32 key, const Queue& queue) const {
    static_assert(kTaskEntries == 64, "six bits of the key");
    if (free_warps_ == 0 || queue.count < 2) return false;
    Stuck& stuck = board.stuck[kClass];
    const u32 rounds = stuck.key == key ? stuck.rounds : 0;
    if (rounds == kReserved) return false;
    const u32 now = rounds + 1 < kRoundsBeforePassing ? 0 : nanoseconds();
    const u32 since = rounds + 1 <= kRoundsBeforePassing ? now : stuck.since;
    const bool is_over = now - since >= parameters_.reserve_ns;
    __syncwarp();
    if (lane_ == 0) stuck = {key, is_over ? kReserved : rounds + 1, since};
    __syncwarp();
    return !is_over && rounds + 1 >= kRoundsBeforePassing;
  }
  __device__ static u32 nanoseconds() { return static_cast<u32>(__shfl_sync(kAll, global_time(), 0)); }

  __device__ bool place_warps(u32 number, const Entry& entry, u32& placed) {
    const u32 some = min(count(free_warps_), entry.warps - placed);
    if (some == 0) return false;
    order(some, kGo | number << kOrderEntryShift | placed);
    placed += some;
    return true;
  }

  __device__ bool place_block(u32 number, const Entry& entry, u32& placed) {
    const TaskKindEntry& kind = entry.kind;
    const u32 warps = kind.blocks_warps & 0xff;
    if (count(free_warps_) < warps) return false;
    if (free_blocks_ == 0) return false;
    u32 leaves[2] = {0, 0}, base = 0;
    if (kind.shared_bytes != 0 && !allocate(kind.shared_bytes, leaves, base)) return false;
    const u32 block = lowest(free_blocks_);
    free_blocks_ &= ~(1u << block);
    const u32 named = allocate_named(kind.barriers >> 8 & 0xff);
    if (lane_ == 0)
      blocks[block] = {warps, entry.piece * kind.piece_blocks + placed / warps, base, {leaves[0], leaves[1]}, named};
    if (lane_ < (kind.barriers & 0xff)) {
      if ((kind.barriers >> (16 + lane_) & 1) != 0)
        store_word(base + 8 * lane_, u64{warps} << kTaskBarrierExpectedShift);
      else
        make_barrier(base + 8 * lane_, warps);
    }
    __syncwarp();
    order(warps, kGo | number << kOrderEntryShift | block << 5);
    placed += warps;
    return true;
  }

  // The same to so many free warps, numbered from there on.
  __device__ void order(u32 warps, u32 first) {
    const u32 rank = count(free_warps_ & ((1u << lane_) - 1));
    const bool mine = (free_warps_ >> lane_ & 1) != 0 && rank < warps;
    if (mine) store_release(&board.orders[lane_], first + rank);
    free_warps_ &= ~__ballot_sync(kAll, mine);
  }

  // A buddy of the arena (buddies.h): the first that is free.
  __device__ bool allocate(u32 bytes, u32 (&leaves)[2], u32& base) {
    const u32 leaf = parameters_.arena_bytes / kArenaLeaves, many = buddy_leaves(bytes, leaf);
    const u64 free = u64{free_leaves_[1]} << 32 | free_leaves_[0];
    for (u32 half = 0; half < 2; ++half) {
      const u32 fits = __ballot_sync(kAll, is_buddy_free(free, lane_ + half * 32, many));
      if (fits == 0) continue;
      const u32 first = (lowest(fits) + half * 32) * many;
      const u64 taken = buddy_mask(many) << first;
      leaves[0] = static_cast<u32>(taken);
      leaves[1] = static_cast<u32>(taken >> 32);
      free_leaves_[0] &= ~leaves[0];
      free_leaves_[1] &= ~leaves[1];
      base = shared_address(arena) + first * leaf;
      return true;
    }
    return false;
  }

  // So many neighbours of the hardware's barriers, as a mask; 0 where there are none, or none are wanted.
  __device__ u32 allocate_named(u32 many) {
    if (many == 0 || many > 15) return 0;
    const u32 mask = (1u << many) - 1;
    const u32 fits = __ballot_sync(kAll, lane_ + many <= 16 && (free_named_ >> lane_ & mask) == mask);
    if (fits == 0) return 0;
    const u32 taken = mask << lowest(fits);
    free_named_ &= ~taken;
    return taken;
  }

  const TaskExecutorParameters& parameters_;
  const u32 lane_;
  const TaskRing* const ring_;
  TaskAnswer* const answer_;
  u32 next_;                             // position of the record that is read next
  TaskInbox* inbox_ = nullptr;           // this and the next where tasks spawn tasks
  u32 inbox_next_ = 0;
  u32 told_ = 0;                         // lane's word of board.done, as the host has it
  Queue others_, urgent_;
  u32 free_warps_ = kExecutors, free_blocks_ = kAll, free_named_ = kNamedBarriers;
  u32 free_entries_[2] = {kAll, kAll}, free_leaves_[2] = {kAll, kAll};
};

// One lane looks; the others wait where that costs nothing.
__device__ u32 wait_for_order(u32 warp, u32 lane) {
  if (lane == 0)
    for (u32 tries = 0; load_acquire(&board.orders[warp]) == 0; ++tries) __nanosleep(tries < 256 ? 20 : 400);
  __syncwarp();
  return load_relaxed(&board.orders[warp]);
}

// Who the warp is, for the body. The whole warp calls it.
__device__ void fill_slot(u32 order, u32 warp, u32 lane) {
  if (lane == 0) {
    const Entry& entry = entries[order >> kOrderEntryShift & (kTaskEntries - 1)];
    const TaskKindEntry& kind = entry.kind;
    TaskSlot& slot = pergola_task_slots[warp];
    const u32 warps = kind.blocks_warps & 0xff;
    u32 block, in_block, base = 0, named = 0;
    if ((kind.blocks_warps & kKindNeedsBlock) != 0) {
      const Block& one = blocks[order >> 5 & 31];
      block = one.index;
      in_block = order & 31;
      base = one.base;
      named = one.named == 0 ? 0 : lowest(one.named);
    } else {
      const u32 index = order & kOrderIndexMask;
      block = index / warps;
      in_block = index - block * warps;
      block += entry.piece * kind.piece_blocks;
    }
    u32 y = 0, z = 0;
    if (kind.grid_x != kind.blocks) {
      const u32 row = block / kind.grid_x;
      block -= row * kind.grid_x;
      z = row / kind.grid_y;
      y = row - z * kind.grid_y;
    }
    slot.block_x = kind.block_x;
    slot.block_y = kind.block_y;
    slot.block_z = kind.block_z;
    slot.threads = kind.threads;
    slot.index_x = block;
    slot.index_y = y;
    slot.index_z = z;
    slot.warp = in_block;
    slot.grid_x = kind.grid_x;
    slot.grid_y = kind.grid_y;
    slot.grid_z = kind.grid_z;
    slot.shared_base = base + kind.shared_offset;
    slot.parameters =
        kind.parameter_bytes > kRecordParameterBytes ? entry.parameters[0] : shared_address(entry.parameters);
    slot.barriers = base;
    slot.named_barrier = named;
    slot.task_id = u64{blockIdx.x} << 32 | entry.position;
    if (kSpawns && (entry.family & kFamilyFounder) == 0) slot.task_id |= u64{1} << 63;
    slot.dynamic_shared_bytes = kind.dynamic_shared_bytes;
    slot.live = kAll;
    slot.here = 0;
    slot.fault = 0;
    slot.left_out = 0;
  }
  __syncwarp();
}

// One lane's: the warp has run its part. The last warp of a block frees what it had, the last of a task says so.
__device__ void finish(const TaskExecutorParameters& parameters, u32 order, u32 warp) {
  const u32 number = order >> kOrderEntryShift & (kTaskEntries - 1);
  Entry& entry = entries[number];
  if (pergola_task_slots[warp].fault != 0)
    tell_fault(parameters, pergola_task_slots[warp], entry);
  if ((entry.kind.blocks_warps & kKindNeedsBlock) != 0) {
    const u32 block = order >> 5 & 31;
    Block& one = blocks[block];
    if (subtract(&one.left) == 1) {
      for (u32 n = 0; n < (entry.kind.barriers & 0xff); ++n)
        if ((entry.kind.barriers >> (16 + n) & 1) == 0) unmake_barrier(one.base + 8 * n);
      if (one.named != 0) set_bits(&board.freed_named, one.named);
      if (one.leaves[0] != 0) set_bits(&board.freed_leaves[0], one.leaves[0]);
      if (one.leaves[1] != 0) set_bits(&board.freed_leaves[1], one.leaves[1]);
      set_bits(&board.freed_blocks, 1u << block);
    }
  }
  if (subtract(&entry.left) == 1) {
    const u32 position = entry.position;
    note_end(parameters, number, kSpawns && (entry.family & kFamilyFounder) == 0);
    const bool tells = !kSpawns || end_in_family(entry);
    if (tells) flip_bit(&board.done[position / 32 % (kRingRecords / 32)], 1u << position % 32);
    set_bits(&board.freed_entries[number / 32], 1u << number % 32);
    if (tells) {
      const u32 before = subtract(&board.under_way);
      if ((before & 0xff) == 1) tell_frontier(parameters, before);
    }
  }
  store_release(&board.orders[warp], 0);
  set_bits(&board.idle, 1u << warp);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(1024, 2) pergola_executor(TaskExecutorParameters parameters) {
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    board.orders[lane] = 0;
    if (lane < kTaken) (&board.idle)[lane] = 0;
    if (lane < kRingRecords / 32) board.done[lane] = parameters.states[blockIdx.x].done[lane];
    if (lane == 0) {
      const TaskRingState& state = parameters.states[blockIdx.x];
      board.families = kSpawns ? state.families : 0;
      board.under_way = state.next << 8 | board.families;
      board.inboxes = parameters.inboxes;
      board.cold_since = 0;
      board.stuck[0].rounds = board.stuck[1].rounds = 0;
    }
    if (lane < 16) known_numbers[lane] = 0;
    if (lane == 0) pergola_fence_table = reinterpret_cast<u64>(parameters.fence_table);
    begin_trace(parameters, lane);
  }
  __syncthreads();
  if (warp == 0) {
    Scheduler(parameters, lane).run();
    return;
  }
  asm volatile(".reg .b32 %pergola_body;");
  for (;;) {
    const u32 order = wait_for_order(warp, lane);
    if (order == kQuit) return;
    fill_slot(order, warp, lane);
    asm volatile(
        "mov.b32 %%pergola_body, %0;" ::"r"(entries[order >> kOrderEntryShift & (kTaskEntries - 1)].kind.body));
    pergola_run_body();
    __syncwarp();
    if (lane == 0) finish(parameters, order, warp);
    __syncwarp();
  }
}
