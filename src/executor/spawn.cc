// Spawning and waiting: the executor's hot paths.
#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "src/base/log.h"
#include "src/executor/executor.h"

namespace pergola::executor {
namespace {

using std::chrono::steady_clock;

// How often a wait looks before it lets others run, and how long it sleeps then.
constexpr std::uint64_t kSpins = 4000;
constexpr std::uint64_t kAskAgain = 64;  // rounds of a wait after which who waits tries to start the kernel again
constexpr auto kNap = std::chrono::microseconds(20);

// Tasks that a thread puts into one ring before it goes on to the next: few, so that they spread. Of many at once as
// many as there are for each ring, up to the second number.
constexpr std::uint32_t kTasksOfATurn = 4, kMostTasksOfATurn = 16;

// Of many at once so many are spawned before others may take rings from the thread.
constexpr std::size_t kTasksOfAnEntry = 64;

// So many turns before its own a ring is brought into the cache; a turn's tasks take as long as the line of one comes.
constexpr std::size_t kTurnsAhead = 2;

// Rings that a spawn looks for room in before it goes the way of those that wait.
constexpr std::size_t kRingsOfATry = 8;

constexpr std::size_t kRecordParameterWords = abi::kRecordWords - 1;
constexpr std::size_t kFewWords = 3;  // of parameters: most tasks', and few enough to be written without a call

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// ── Spawning ────────────────────────────────────────────────────────────────────────────────────────────────────────

// Goes on to the next of the thread's rings that has room, of `most`; false where none has.
bool Executor::go_on(Producer& producer, const Turn& turn, std::size_t most) {
  const std::size_t rings = producer.owned.size();
  for (std::size_t n = std::min(most, rings); n != 0; --n) {
    producer.at = producer.at + 1 == rings ? 0 : producer.at + 1;
    if (!rings_[number_of_ring(producer)].has_room(turn.depth)) continue;
    producer.left = turn.tasks;
    std::size_t ahead = producer.at + kTurnsAhead;
    if (ahead >= rings) ahead -= rings;
    if (ahead < rings) rings_[producer.owned[ahead]].prefetch(turn.tasks, turn.depth);
    return true;
  }
  producer.left = 0;
  return false;
}

// The next of the thread's rings that has room for one beside urgent tasks, which fill rings deeper than others may.
bool Executor::go_on_beside_urgent(Producer& producer, std::uint32_t depth) {
  for (std::size_t n = producer.owned.size(); n != 0; --n) {
    producer.at = producer.at + 1 == producer.owned.size() ? 0 : producer.at + 1;
    if (!rings_[number_of_ring(producer)].has_room_beside_urgent(depth)) continue;
    producer.left = 1;
    return true;
  }
  return false;
}

// The next of the thread's rings that has room; waits for one. Entered, as it leaves off. Urgent tasks without end
// would have it wait for ever.
Status Executor::find_room(Producer& producer, const Turn& turn) {
  constexpr std::uint64_t kPatientRounds = 64;
  for (std::uint64_t rounds = 0;; ++rounds) {
    const std::size_t rings = producer.owned.size();
    if (go_on(producer, turn, rings)) return {};
    if (rounds >= kPatientRounds && expects_urgent_.load(std::memory_order_relaxed) &&
        go_on_beside_urgent(producer, turn.depth))
      return {};
    // Whoever waits has not entered, so that its rings can be taken from it.
    producers_->leave(producer);
    if (rings == 0 || rounds % 256 == 255) producers_->share(producer);
    Status status;
    if (rings != 0 && rounds % kAskAgain == 0 && !running_.load(std::memory_order_acquire))
      status = start_unless_it_waits();
    if (rings == 0) {
      // It has some now, until somebody who has none takes them.
    } else if (status.ok() && rounds > 16) {
      status = failure();
      std::this_thread::sleep_for(kNap);
    } else {
      for (int n = 0; n < 64; ++n) relax();
    }
    producers_->enter(producer);
    PERGOLA_TRY(status);
  }
}

inline bool Executor::has_ring(const Producer& producer, const Kind& kind) {
  return producer.left != 0 && rings_[number_of_ring(producer)].has_room(kind.depth);
}

template <std::size_t kMostWords>
[[gnu::always_inline]] inline TaskId Executor::put(Producer& producer, std::uint32_t ring, const Kind& kind,
                                                   std::uint32_t piece, std::span<const std::byte> parameters) {
  --producer.left;
  const std::uint64_t position = rings_[ring].push<kMostWords>(
      kind.number | static_cast<std::uint32_t>(kind.is_urgent) << (abi::kRecordUrgentShift - abi::kRecordKindShift),
      piece, parameters);
  return (TaskId{ring} + 1) << kIdRingShift | position;
}

// See the opening comment of executor.h: either this sees that the kernel has gone, or whoever parked it the record.
inline bool Executor::see_that_it_runs() const {
  if (fences_) [[unlikely]]
    std::atomic_thread_fence(std::memory_order_seq_cst);
  else
    std::atomic_signal_fence(std::memory_order_seq_cst);
  return running_.load(std::memory_order_acquire);
}

// It has parked: whoever sees that next starts it, and the keeper soon.
[[gnu::cold, gnu::noinline]] TaskId Executor::wake_keeper_for(TaskId id) noexcept {
  wake_keeper();
  return id;
}

template <std::size_t kMostWords>
[[gnu::always_inline]] inline TaskId Executor::put_and_leave(Producer& producer, std::uint32_t ring, const Kind& kind,
                                                             std::span<const std::byte> parameters) noexcept {
  const TaskId id = put<kMostWords>(producer, ring, kind, 0, parameters);
  producers_->leave_after_spawn(producer);
  return see_that_it_runs() ? id : wake_keeper_for(id);
}

// Where the ring that the thread is at has room, as most often, this calls nothing: what it would store for that waits
// behind the records.
TaskId Executor::try_spawn(const Kind& kind, std::span<const std::byte> parameters) noexcept {
  if (kind.pieces != 1 || parameters.size() > abi::kRecordParameterBytes || !running_.load(std::memory_order_relaxed))
    return 0;
  if (fence_table_ != nullptr && fence_table_->is_behind()) [[unlikely]]
    return 0;
  Producer* const mine = producers_->known();
  if (mine == nullptr || !producers_->try_enter(*mine)) return 0;
  if (mine->left == 0 || parameters.size() > 8 * kFewWords) return try_next_rings(*mine, kind, parameters);
  const std::uint32_t ring = number_of_ring(*mine);
  if (rings_[ring].known_room(kind.depth) == 0) return try_next_rings(*mine, kind, parameters);
  return put_and_leave<kFewWords>(*mine, ring, kind, parameters);
}

[[gnu::noinline]] TaskId Executor::try_next_rings(Producer& producer, const Kind& kind,
                                                  std::span<const std::byte> parameters) noexcept {
  if (has_ring(producer, kind) || go_on(producer, {kTasksOfATurn, kind.depth}, kRingsOfATry))
    return put_and_leave<kRecordParameterWords>(producer, number_of_ring(producer), kind, parameters);
  producers_->leave(producer);
  return 0;
}

// What a spawn sees to first. The task may be given memory that is new: the table knows it before the record is there.
inline Status Executor::see_to_fences() {
  if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
    return failure();
  if (fence_table_ != nullptr && fence_table_->is_behind()) [[unlikely]]
    return fence_table_->update();
  return {};
}

Status Executor::prepare_to_try() {
  PERGOLA_TRY(see_to_fences());
  Producer& mine = producers_->mine();
  bool has_none = false;
  {
    const Entered entered(*producers_, mine);
    has_none = mine.owned.empty();
  }
  if (has_none) producers_->share(mine);
  // By who tries: the keeper starts it for tasks, of which there are none yet.
  return running_.load(std::memory_order_acquire) ? Status() : start();
}

Result<TaskId> Executor::push(Producer& producer, const Kind& kind, std::uint32_t piece,
                              std::span<const std::byte> parameters) {
  if (!has_ring(producer, kind)) [[unlikely]]
    PERGOLA_TRY(find_room(producer, {kTasksOfATurn, kind.depth}));
  producer.note_spawn();
  const std::uint32_t ring = number_of_ring(producer);
  if (kind.parameter_bytes <= abi::kRecordParameterBytes)
    return put<kRecordParameterWords>(producer, ring, kind, piece,
                                      parameters.first(std::min<std::size_t>(parameters.size(), kind.parameter_bytes)));
  const Slab& slab = *slab_.load(std::memory_order_acquire);
  const std::size_t offset =
      (std::size_t{ring} * abi::kRingRecords + rings_[ring].head() % abi::kRingRecords) * slab.bytes;
  std::memcpy(slab.on_host->host_pointer() + offset, parameters.data(),
              std::min<std::size_t>(parameters.size(), kind.parameter_bytes));
  const std::uint64_t address = slab.on_host->address() + offset;
  return put<1>(producer, ring, kind, piece, std::as_bytes(std::span(&address, 1)));
}

Result<TaskId> Executor::spawn(const Kind& kind, std::span<const std::byte> parameters) {
  PERGOLA_TRY(see_to_fences());
  Producer& mine = producers_->mine();
  std::vector<TaskId> pieces(kind.pieces == 1 ? 0 : kind.pieces);
  Result<TaskId> id = [&] {
    const Entered entered(*producers_, mine);
    return kind.pieces == 1 ? push(mine, kind, 0, parameters) : push_pieces(mine, kind, parameters, pieces);
  }();
  if (!id.ok()) [[unlikely]]
    return id;
  if (!see_that_it_runs()) [[unlikely]]
    see_to_start();
  return id;
}

// A task is there: why the kernel does not start is told by waits.
void Executor::see_to_start() {
  if (options_.start_waits())
    wake_keeper();
  else if (const Status started = start_unless_it_waits(); !started.ok())
    PERGOLA_WARN("{}", started.message());
}

Status Executor::spawn_many(const Kind& kind, const ByteRows& parameters, TaskId* ids, std::size_t more,
                            std::size_t& spawned) {
  spawned = 0;
  if (kind.pieces != 1 || kind.parameter_bytes > abi::kRecordParameterBytes) {
    for (; spawned < parameters.count; ++spawned) {
      PERGOLA_ASSIGN(const TaskId id, spawn(kind, parameters[spawned]));
      if (ids != nullptr) ids[spawned] = id;
    }
    return {};
  }
  PERGOLA_TRY(see_to_fences());
  Producer& mine = producers_->mine();
  while (spawned < parameters.count) {
    const std::size_t until = std::min(parameters.count, spawned + kTasksOfAnEntry);
    Status status;
    {
      const Entered entered(*producers_, mine);
      while (status.ok() && spawned < until) {
        const Turn turn = turn_of_many(mine, kind, parameters.count - spawned + more);
        status = push_some(mine, kind, parameters, turn, until, ids, spawned);
      }
      mine.left = std::min(mine.left, kTasksOfATurn);
    }
    if (!see_that_it_runs()) see_to_start();
    PERGOLA_TRY(status);
  }
  return {};
}

// How `left` tasks go on. A ring gets no more than half of its share of them, so that at the end it has as few as usual
// and what comes last waits for the block that is free first; before, the more it has the more a read of its block
// brings.
Executor::Turn Executor::turn_of_many(const Producer& producer, const Kind& kind, std::size_t left) {
  const auto share = static_cast<std::uint32_t>(
      std::min<std::size_t>(left / std::max<std::size_t>(1, producer.owned.size()), 2 * abi::kRingRecords));
  return {std::clamp(share, kTasksOfATurn, kMostTasksOfATurn), std::clamp(share / 2, kind.depth, kind.most_depth)};
}

// One turn's at most, before `until`; entered.
Status Executor::push_some(Producer& producer, const Kind& kind, const ByteRows& parameters, const Turn& turn,
                           std::size_t until, TaskId* ids, std::size_t& spawned) {
  if (producer.left == 0 || rings_[number_of_ring(producer)].known_room(turn.depth) == 0) {
    if (!go_on(producer, turn, kRingsOfATry)) PERGOLA_TRY(find_room(producer, turn));
  }
  const std::uint32_t ring = number_of_ring(producer);
  // Where a record that is not done with hides the room behind it, there is some for one.
  const std::size_t some =
      std::min<std::size_t>({producer.left, until - spawned, std::max(1u, rings_[ring].known_room(turn.depth))});
  const auto put_all = [&]<std::size_t kMostWords> {
    for (std::size_t n = 0; n < some; ++n, ++spawned) {
      const TaskId id = put<kMostWords>(producer, ring, kind, 0, parameters[spawned]);
      if (ids != nullptr) ids[spawned] = id;
    }
  };
  if (parameters.row_bytes <= 8 * kFewWords)
    put_all.operator()<kFewWords>();
  else
    put_all.operator()<kRecordParameterWords>();
  producer.note_spawn();
  return {};
}

// A record for each piece, as each fills a resident block; entered.
Result<TaskId> Executor::push_pieces(Producer& producer, const Kind& kind, std::span<const std::byte> parameters,
                                     std::vector<TaskId>& pieces) {
  for (std::uint32_t n = 0; n < kind.pieces; ++n) {
    producer.left = std::min(producer.left, 1u);
    PERGOLA_ASSIGN(pieces[n], push(producer, kind, n, parameters));
  }
  std::vector<TaskId> forgotten;  // that have ended, and nobody has asked for
  TaskId id = 0;
  {
    const std::lock_guard lock(groups_mutex_);
    id = next_group_++;
    if (failures_.count() != 0)  // a piece that has failed by now is known by its own id
      for (const TaskId piece : pieces) failures_.rename(piece, id);
    groups_.emplace(id, std::move(pieces));
    if (groups_.size() <= most_groups_) return id;
    for (const auto& [of, parts] : groups_)
      if (std::all_of(parts.begin(), parts.end(), [&](TaskId piece) { return is_piece_done(piece); }))
        forgotten.push_back(of);
  }
  take_all_faults();
  const std::lock_guard lock(groups_mutex_);
  for (const TaskId of : forgotten) groups_.erase(of);
  most_groups_ = std::max<std::size_t>(1024, 2 * groups_.size());
  return id;
}

bool Executor::is_piece_done(TaskId id) const {
  return rings_[(id >> kIdRingShift) - 1].is_done(id & kPositionMask);
}

// ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Executor::Deadline Executor::deadline_after(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) return std::nullopt;
  return steady_clock::now() + *timeout;
}

Result<bool> Executor::is_done(TaskId id) {
  if ((id & kGroupBit) != 0) {
    {
      const std::lock_guard lock(groups_mutex_);
      if (id >= next_group_)
        return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no id of a task that this pool has spawned.", id);
      const auto group = groups_.find(id);
      if (group == groups_.end()) return true;
      for (const TaskId piece : group->second)
        if (!is_piece_done(piece)) return false;
    }
    take_all_faults();  // while it is known whose the pieces are
    const std::lock_guard lock(groups_mutex_);
    groups_.erase(id);
    return true;
  }
  const TaskId ring = (id >> kIdRingShift) - 1, position = id & kPositionMask;
  if (ring >= rings_.size() || position >= rings_[ring].head())
    return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no id of a task that this pool has spawned.", id);
  return rings_[ring].is_done(position);
}

// Looks until `is_over`; what keeps it from ever being is told, and mended where it can be.
Status Executor::wait_until(Deadline deadline, FunctionRef<Result<bool>()> is_over) {
  for (std::uint64_t spins = 0;; ++spins) {
    PERGOLA_ASSIGN(const bool over, is_over());
    if (over) return {};
    const bool asks = spins == 0 || (spins >= kSpins && spins % kAskAgain == 0);
    if (asks && !running_.load(std::memory_order_acquire)) PERGOLA_TRY(start_unless_it_waits());
    if (spins < kSpins && !deadline) {
      relax();
      continue;
    }
    if (deadline && steady_clock::now() >= *deadline)
      return PERGOLA_ERROR(kTimeout, "The time is over, and the tasks go on.");
    if (spins < kSpins) {
      relax();
      continue;
    }
    if (const Status status = failure(); !status.ok()) {
      PERGOLA_ASSIGN(const bool ended, is_over());  // it may have ended before the fault
      return ended ? Status() : status;
    }
    std::this_thread::sleep_for(kNap);
  }
}

Status Executor::wait(TaskId id, std::optional<std::chrono::nanoseconds> timeout) {
  const Status status = wait_until(deadline_after(timeout), [&] { return is_done(id); });
  // Whoever waits for what it has just spawned goes on with the same resident block, whose scheduler is awake.
  if (Producer* const mine = producers_->known()) {
    const Entered entered(*producers_, *mine);
    if (!mine->owned.empty() && (id >> kIdRingShift) == mine->owned[mine->at] + 1) mine->left = kTasksOfATurn;
  }
  return status.ok() ? outcome(id) : status;
}

Result<bool> Executor::check(TaskId id) {
  PERGOLA_ASSIGN(const bool done, is_done(id));
  if (!done && failed_.load(std::memory_order_acquire)) return failure();
  if (done) PERGOLA_TRY(outcome(id));
  return done;
}

std::vector<std::uint64_t> Executor::heads() const {
  std::vector<std::uint64_t> heads;
  for (const HostRing& ring : rings_) heads.push_back(ring.head());
  return heads;
}

// What is done with meanwhile, and whose place is another's, is of no interest: a place is given out again only then.
std::vector<TaskId> Executor::users_of(device::DeviceAddress begin, device::DeviceAddress end) {
  std::vector<TaskId> users;
  for (std::size_t n = 0; n < rings_.size(); ++n)
    rings_[n].for_each_open([&](std::uint64_t position, std::uint32_t kind) {
      const bool is_large = (large_kinds_[kind / 64].load(std::memory_order_acquire) >> kind % 64 & 1) != 0;
      if (is_large || rings_[n].has_word_in(position, begin, end))
        users.push_back((TaskId{n} + 1) << kIdRingShift | position);
    });
  return users;
}

Status Executor::wait_for(std::span<const TaskId> ids, std::optional<std::chrono::nanoseconds> timeout) {
  std::size_t at = 0;
  PERGOLA_TRY(wait_until(deadline_after(timeout), [&]() -> Result<bool> {
    for (; at < ids.size(); ++at) {
      PERGOLA_ASSIGN(const bool done, is_done(ids[at]));
      if (!done) return false;
    }
    return true;
  }));
  take_all_faults();
  return failures_.untold();
}

bool Executor::have_ended(std::span<const std::uint64_t> heads) {
  for (std::size_t n = 0; n < heads.size(); ++n)
    if (!rings_[n].are_done(heads[n])) return failed_.load(std::memory_order_acquire);  // the keeper looks
  return true;
}

bool Executor::covers(std::span<const std::uint64_t> heads, TaskId id) {
  const TaskId ring = (id >> kIdRingShift) - 1;
  return (id & kGroupBit) == 0 && ring < heads.size() && (id & kPositionMask) < heads[ring];
}

bool Executor::has_ended(TaskId id) {
  if (failed_.load(std::memory_order_acquire)) return true;
  const Result<bool> done = is_done(id);
  return !done.ok() || *done;
}

bool Executor::has_untold() {
  take_all_faults();
  return failures_.has_untold();
}

Status Executor::wait_all(std::optional<std::chrono::nanoseconds> timeout) {
  boost::container::small_vector<std::uint64_t, 512> heads;
  for (const HostRing& ring : rings_) heads.push_back(ring.head());
  std::size_t at = 0;
  PERGOLA_TRY(wait_until(deadline_after(timeout), [&]() -> Result<bool> {
    while (at < heads.size() && rings_[at].frontier() >= heads[at]) ++at;
    return at == heads.size();
  }));
  take_all_faults();
  return failures_.untold();
}

// ── Failures of tasks ───────────────────────────────────────────────────────────────────────────────────────────────

void Executor::take_all_faults() {
  for (HostRing& ring : rings_) ring.take_faults();
}

// Of a task that has ended.
Status Executor::outcome(TaskId id) {
  if ((id & kGroupBit) == 0) rings_[(id >> kIdRingShift) - 1].take_faults();
  return failures_.outcome(id);
}

// What a ring's block has told becomes failures of tasks; of a piece, its task's.
void Executor::take_faults(std::uint32_t ring) {
  if (fence_table_ == nullptr) return;
  faults_told_.take(ring, rings_[ring], *fence_table_, [&](std::uint64_t position, const std::string& message) {
    TaskId id = TaskId{ring + 1} << kIdRingShift | position;
    const std::lock_guard lock(groups_mutex_);
    for (const auto& [of, pieces] : groups_)
      if (std::find(pieces.begin(), pieces.end(), id) != pieces.end()) id = of;
    failures_.add(id, Code::kDeviceFault, message);
  });
}

}  // namespace pergola::executor
