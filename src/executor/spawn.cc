// Spawning and waiting: the executor's hot paths.
#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "src/executor/executor.h"
#include "src/executor/producer.h"

namespace pergola::executor {
namespace {

using std::chrono::steady_clock;

// How often a wait looks before it lets others run, and how long it sleeps then.
constexpr int kSpins = 4000;
constexpr auto kNap = std::chrono::microseconds(20);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// ── Spawning ────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

// The producers of a thread; the last used first. At the thread's end their rings are let go.
template <typename Producer>
struct ThreadProducers {
  std::vector<std::shared_ptr<Producer>> all;
  ~ThreadProducers() {
    for (const auto& producer : all) producer->let_go();
  }
};

}  // namespace

Executor::Producer& Executor::producer() {
  static thread_local Producer* last = nullptr;
  if (last != nullptr && last->executor == id_) [[likely]]
    return *last;
  static thread_local ThreadProducers<Producer> mine;
  std::erase_if(mine.all, [](const auto& one) { return one->is_orphan.load(std::memory_order_relaxed); });
  for (const auto& one : mine.all)
    if (one->executor == id_) return *(last = one.get());
  auto made = std::make_shared<Producer>();
  made->rings = rings_;
  made->executor = id_;
  {
    const std::lock_guard lock(producers_mutex_);
    // Threads begin far from each other.
    made->ring = static_cast<std::uint32_t>(producers_.size() * 5 % 8 * blocks_ / 8 + producers_.size() / 8) % blocks_;
    std::erase_if(producers_, [](const auto& one) { return one.use_count() == 1; });
    producers_.push_back(made);
  }
  mine.all.push_back(made);
  return *(last = made.get());
}

// Goes on to a ring that nobody holds and that has room; waits for one.
Status Executor::next_ring(Producer& producer) {
  const bool first = !producer.holds;
  producer.let_go();
  std::uint32_t at = first ? producer.ring : (producer.ring + 1) % blocks_;
  for (int rounds = 0;; ++rounds) {
    for (std::uint32_t n = 0; n < blocks_; ++n, at = at + 1 == blocks_ ? 0 : at + 1) {
      HostRing& ring = (*rings_)[at];
      if (!ring.claim()) continue;
      if (ring.has_room()) {
        producer.ring = at;
        producer.holds = true;
        producer.left = kTasksOfATurn;
        return {};
      }
      ring.release();
    }
    if (!running_.load(std::memory_order_acquire)) PERGOLA_TRY(start());
    if (rounds < 16) {
      for (int n = 0; n < 64; ++n) relax();
      continue;
    }
    PERGOLA_TRY(failure());
    std::this_thread::sleep_for(kNap);
  }
}

Result<TaskId> Executor::push(Producer& producer, const Kind& kind, std::uint32_t piece,
                              std::span<const std::byte> parameters) {
  if (!producer.holds || producer.left == 0 || !producer.held().has_room()) [[unlikely]]
    PERGOLA_TRY(next_ring(producer));
  --producer.left;
  HostRing& ring = producer.held();
  std::uint64_t words[abi::kRecordWords - 1];
  std::size_t count;
  if (kind.parameter_bytes <= abi::kRecordParameterBytes) [[likely]] {
    count = kind.parameter_bytes / 8;
    std::memcpy(words, parameters.data(), std::min<std::size_t>(parameters.size(), kind.parameter_bytes));
    if (parameters.size() < kind.parameter_bytes)
      std::memset(reinterpret_cast<std::byte*>(words) + parameters.size(), 0, kind.parameter_bytes - parameters.size());
  } else {
    const std::uint32_t each = large_bytes_.load(std::memory_order_acquire);
    const std::size_t offset =
        (std::size_t{producer.ring} * abi::kRingRecords + ring.head() % abi::kRingRecords) * each;
    std::memcpy(large_pointer_.load(std::memory_order_relaxed) + offset, parameters.data(),
                std::min<std::size_t>(parameters.size(), kind.parameter_bytes));
    words[0] = large_address_.load(std::memory_order_relaxed) + offset;
    count = 1;
  }
  const std::uint64_t position = ring.push(kind.number, piece, words, count);
  return (TaskId{producer.ring} + 1) << kIdRingShift | position;
}

Result<TaskId> Executor::spawn(const Kind& kind, std::span<const std::byte> parameters) {
  if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
    return failure();
  Producer& mine = producer();
  TaskId id;
  if (kind.pieces == 1) [[likely]] {
    PERGOLA_ASSIGN(id, push(mine, kind, 0, parameters));
  } else {
    std::vector<TaskId> pieces(kind.pieces);
    for (std::uint32_t n = 0; n < kind.pieces; ++n) {
      mine.left = std::min(mine.left, 1u);  // each piece fills a resident block
      PERGOLA_ASSIGN(pieces[n], push(mine, kind, n, parameters));
      if (!running_.load(std::memory_order_acquire)) PERGOLA_TRY(start());
    }
    const std::lock_guard lock(groups_mutex_);
    id = next_group_++;
    groups_.emplace(id, std::move(pieces));
    if (groups_.size() > most_groups_) {  // those nobody has asked for
      std::erase_if(groups_, [&](const auto& group) {
        return std::all_of(group.second.begin(), group.second.end(), [&](TaskId piece) {
          return (*rings_)[(piece >> kIdRingShift) - 1].is_done(piece & kPositionMask);
        });
      });
      most_groups_ = std::max<std::size_t>(1024, 2 * groups_.size());
    }
  }
  // See the opening comment of executor.h: either this sees that the kernel has gone, or whoever parked it the record.
  if (fences_)
    std::atomic_thread_fence(std::memory_order_seq_cst);
  else
    std::atomic_signal_fence(std::memory_order_seq_cst);
  if (!running_.load(std::memory_order_acquire)) [[unlikely]]
    PERGOLA_TRY(start());
  return id;
}

// ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Executor::Deadline Executor::deadline_after(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) return std::nullopt;
  return steady_clock::now() + *timeout;
}

Result<bool> Executor::is_done(TaskId id) {
  if ((id & kGroupBit) != 0) {
    const std::lock_guard lock(groups_mutex_);
    if (id >= next_group_)
      return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no id of a task that this pool has spawned.", id);
    const auto group = groups_.find(id);
    if (group == groups_.end()) return true;
    for (const TaskId piece : group->second)
      if (!(*rings_)[(piece >> kIdRingShift) - 1].is_done(piece & kPositionMask)) return false;
    groups_.erase(group);
    return true;
  }
  const TaskId ring = (id >> kIdRingShift) - 1, position = id & kPositionMask;
  if (ring >= blocks_ || position >= (*rings_)[ring].head())
    return PERGOLA_ERROR(kInvalidArgument, "{:#x} is no id of a task that this pool has spawned.", id);
  return (*rings_)[ring].is_done(position);
}

// Looks until `is_over`; what keeps it from ever being is told, and mended where it can be.
Status Executor::wait_until(Deadline deadline, FunctionRef<Result<bool>()> is_over) {
  for (int spins = 0;; ++spins) {
    PERGOLA_ASSIGN(const bool over, is_over());
    if (over) return {};
    if (!running_.load(std::memory_order_acquire)) PERGOLA_TRY(start());
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
  Producer& mine = producer();
  if (mine.holds && (id >> kIdRingShift) == mine.ring + 1) mine.left = kTasksOfATurn;
  return status;
}

Result<bool> Executor::check(TaskId id) {
  PERGOLA_ASSIGN(const bool done, is_done(id));
  if (!done && failed_.load(std::memory_order_acquire)) return failure();
  return done;
}

Status Executor::wait_all(std::optional<std::chrono::nanoseconds> timeout) {
  boost::container::small_vector<std::uint64_t, 512> heads;
  for (const HostRing& ring : *rings_) heads.push_back(ring.head());
  std::size_t at = 0;
  return wait_until(deadline_after(timeout), [&]() -> Result<bool> {
    while (at < heads.size() && (*rings_)[at].frontier() >= heads[at]) ++at;
    return at == heads.size();
  });
}

}  // namespace pergola::executor
