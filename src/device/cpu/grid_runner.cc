#include "src/device/cpu/grid_runner.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "src/device/cpu/backoff.h"
#include "src/device/cpu/resident_block.h"

namespace pergola::device::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// How long an SM leaves a launch's blocks to themselves before it admits another beside them.
constexpr std::chrono::milliseconds kPatience{10};
// run() polls this often for the end of a grid before it sleeps: about as long as it takes to wake a thread.
constexpr int kPollsForEnd = 2000;
// Blocks are taken in runs that last about this long: handing out costs little beside it, and it delays nobody. A run
// is never more than its SM's share of 1 / kRunShares of what is left, so that all SMs end together.
constexpr std::chrono::microseconds kRunTime{50};
constexpr std::uint32_t kLongestRun = 1024, kRunShares = 4;
// How long a launch whose time is over waits for all SMs to say where its blocks stand.
constexpr std::chrono::milliseconds kReportTime{500};

std::uint32_t whole_warps(std::uint64_t threads) {
  return static_cast<std::uint32_t>((threads + 31) / 32 * 32);
}

}  // namespace

// One launch in flight.
//
//   word_ = next block to hand out (low 48 bits) | holders of blocks (high 16)
//
// A holder is a resident block with what follows it, or what an SM has set aside. Ended: no holder and next == total.
// Only then may run() return, so a holder (a successful take() or hold() until its give_back()) may touch `launch` and
// `code`; others may touch nothing but word_.
struct GridRunner::Grid {
  static constexpr int kNextBits = 48;
  static constexpr std::uint64_t kNextMask = (std::uint64_t{1} << kNextBits) - 1;
  static constexpr std::uint64_t kOneHolder = std::uint64_t{1} << kNextBits;

  using Run = BlockRun;

  const Launch* launch;
  const KernelCode* code;
  ProgressFlag* progress;
  std::uint64_t serial = 0;
  std::uint64_t total = 0;
  std::uint32_t threads = 0;       // of a block, in whole warps
  std::uint32_t shared_bytes = 0;  // of a block
  std::uint32_t limit_per_sm = 0;  // resident blocks; for a cooperative launch the even share where nobody else counts
  bool eager = false;              // cooperative: admit to the limit at once
  std::uint32_t sms = 1;

  // The next blocks, at most `most`; none where all are handed out.
  Run take(std::uint32_t most) {
    std::uint64_t word = word_.load(std::memory_order_relaxed), count = 0;
    do {
      const std::uint64_t left = total - (word & kNextMask);
      if (left == 0) return {};
      count = std::clamp<std::uint64_t>(left / (std::uint64_t{kRunShares} * sms), 1, most);
      // acq_rel: sees what submit() wrote, and keeps the grid alive for what follows.
    } while (!word_.compare_exchange_weak(word, word + kOneHolder + count, std::memory_order_acq_rel));
    return {word & kNextMask, static_cast<std::uint32_t>(count)};
  }
  // One more holder of blocks that were taken. relaxed: the caller is one already.
  void hold() { word_.fetch_add(kOneHolder, std::memory_order_relaxed); }
  // A holder is done. True for the call that ends the grid.
  bool give_back() {
    // acq_rel: what each block wrote is seen by the one who ends the grid, and through done_ by run().
    return word_.fetch_sub(kOneHolder, std::memory_order_acq_rel) - kOneHolder == total;
  }
  // No more blocks are handed out. Only for a holder.
  void close() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, (word & ~kNextMask) | total, std::memory_order_acq_rel)) {
    }
  }
  bool has_blocks_left() const { return (word_.load(std::memory_order_relaxed) & kNextMask) != total; }

  std::uint32_t holders() const {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_relaxed) >> kNextBits);
  }
  std::uint64_t waiting_to_start() const { return total - (word_.load(std::memory_order_relaxed) & kNextMask); }

  // The watchdog's view; see the header.
  struct Watch {
    std::atomic<Clock::rep> moved_at{Clock::now().time_since_epoch().count()};  // relaxed: a time, orders nothing
    std::atomic<std::uint32_t> reported{
        0};            // holders; written under mutex, read without to see whether there is a report
    std::mutex mutex;  // guards what follows
    std::uint64_t round = 1;
    std::uint32_t resident = 0;   // blocks of those who reported
    std::uint64_t set_aside = 0;  // likewise
    std::vector<Stand> stands;
  } watch;

  const Clock::time_point begun = Clock::now();
  // Of a grid whose time is over.
  struct Overtime {
    std::mutex mutex;            // guards what follows
    std::uint32_t reported = 0;  // holders
    std::vector<Stand> stands;
  } overtime;

  void end() {
    // Under the mutex, so that run() cannot miss it between its check and its sleep.
    const std::scoped_lock lock(mutex_);
    done_.store(true, std::memory_order_release);
    ended_.notify_all();
  }
  void await_end() {
    for (int i = 0; i < kPollsForEnd; ++i) {
      if (done_.load(std::memory_order_acquire)) return;
      i % 64 == 63 ? std::this_thread::yield() : cpu_relax();
    }
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return done_.load(std::memory_order_acquire); });
  }

 private:
  std::atomic<std::uint64_t> word_{0};
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
};

// One virtual SM: everything in it belongs to its thread.
class GridRunner::SmWorker {
 public:
  SmWorker(GridRunner& runner, std::uint32_t index) : runner_(runner), index_(index) {}

  void run() {
    Backoff backoff;
    while (true) {
      if (runner_.version_.load(std::memory_order_acquire) != seen_version_) {
        if (!refresh()) return;
        backoff.reset();
      }
      if (shares_.empty()) {
        if (!sleep_until_changed()) return;
        continue;
      }
      bool moved = false;
      bool earlier_has_blocks = false;  // kShared: a grid before this one is not handed out yet
      for (Share& share : shares_) {
        moved |= turn(share, earlier_has_blocks);
        earlier_has_blocks = earlier_has_blocks || share.has_blocks_left();
      }
      std::erase_if(shares_, [](const Share& s) { return s.residents.empty() && !s.has_blocks_left(); });
      if (moved || shares_.empty()) {
        backoff.reset();
      } else {
        backoff.wait([this](std::chrono::microseconds nap) { nap_until_changed(nap); });
      }
    }
  }

 private:
  // What this SM holds of one grid.
  struct Share {
    std::shared_ptr<Grid> grid;
    std::vector<std::unique_ptr<ResidentBlock>> residents;
    Clock::time_point admitted{};
    bool all_waiting = false;
    std::uint64_t reported_round = 0;  // of Grid::watch
    bool overtime_reported = false;
    std::uint32_t most = 1;   // blocks to take at a time
    Grid::Run set_aside;      // taken, and not begun: what an execution left of its run
    bool one_by_one = false;  // since then

    bool has_blocks_left() const { return set_aside.count != 0 || grid->has_blocks_left(); }
    Grid::Run take() {
      if (set_aside.count == 0) return grid->take(grid->eager ? 1 : most);
      if (--set_aside.count != 0) grid->hold();
      return {set_aside.first++, 1};
    }
  };

  // Copies grids submitted since the last time. False when the runner stops.
  bool refresh() {
    const std::scoped_lock lock(runner_.mutex_);
    return refresh_locked();
  }
  bool refresh_locked() {
    seen_version_ = runner_.version_.load(std::memory_order_relaxed);  // written under the mutex
    if (runner_.stop_) return false;
    for (const std::shared_ptr<Grid>& grid : runner_.grids_) {
      if (grid->serial <= seen_serial_) continue;
      seen_serial_ = grid->serial;
      shares_.push_back({.grid = grid});
    }
    return true;
  }
  bool sleep_until_changed() {
    std::unique_lock lock(runner_.mutex_);
    runner_.changed_.wait(lock, [this] { return changed(); });
    return refresh_locked();
  }
  void nap_until_changed(std::chrono::microseconds nap) {
    std::unique_lock lock(runner_.mutex_);
    runner_.changed_.wait_for(lock, nap, [this] { return changed(); });
  }
  bool changed() const { return runner_.version_.load(std::memory_order_relaxed) != seen_version_; }

  // Admits where it is time to, and gives every resident block of the share a step. True where anything moved on.
  bool turn(Share& share, bool earlier_has_blocks) {
    bool moved = admit(share, earlier_has_blocks);
    bool all_waiting = true;
    for (std::size_t i = 0; i < share.residents.size();) {
      ResidentBlock& resident = *share.residents[i];
      const bool ended = resident.step(runner_.options_.step_budget, share.grid->progress);
      if (resident.block.following != 0) set_aside(share, resident);
      if (ended) {
        retire(share, i);
        moved = true;
        all_waiting = false;
        continue;
      }
      moved |= !resident.waiting;
      all_waiting &= resident.waiting;
      ++i;
    }
    share.all_waiting = all_waiting && !share.residents.empty();
    if (runner_.options_.watchdog.count() != 0) watch(share, moved);
    if (runner_.options_.time_limit.count() != 0 && !share.residents.empty()) limit(share);
    return moved;
  }

  // This SM holds blocks of the grid, so nobody ends it under us.
  void limit(Share& share) {
    Grid& grid = *share.grid;
    const std::chrono::milliseconds most = runner_.options_.time_limit;
    const Clock::duration over = Clock::now() - grid.begun - most;
    if (over < Clock::duration(0)) return;
    const std::scoped_lock lock(grid.overtime.mutex);
    if (!share.overtime_reported) {
      share.overtime_reported = true;
      grid.overtime.reported +=
          static_cast<std::uint32_t>(share.residents.size()) + (share.set_aside.count != 0 ? 1 : 0);
      for (const auto& resident : share.residents) {
        for (Stand& stand : resident->execution->stands()) grid.overtime.stands.push_back(std::move(stand));
      }
    }
    if (grid.overtime.reported < grid.holders() && over < kReportTime) return;
    raise_out_of_time(*grid.launch, most, grid.waiting_to_start(), grid.overtime.stands);
  }

  // The execution has stopped in the middle of its run: others may have to run before it goes on.
  static void set_aside(Share& share, ResidentBlock& resident) {
    const std::uint32_t count = std::exchange(resident.block.following, 0);
    PERGOLA_CHECK(share.set_aside.count == 0);
    share.set_aside = {resident.end - count, count};
    share.grid->hold();
    share.one_by_one = true;
    share.most = 1;
  }

  // Runs grow or shrink to kRunTime.
  static void measure(Share& share, const ResidentBlock& resident) {
    if (share.one_by_one) return;
    const Clock::duration took = Clock::now() - resident.begun;
    if (took < kRunTime) share.most = std::min(2 * share.most, kLongestRun);
    if (took > 2 * kRunTime) share.most = std::max(share.most / 2, 1u);
  }

  void watch(Share& share, bool moved) {
    Grid& grid = *share.grid;
    Grid::Watch& state = grid.watch;
    const Clock::duration now = Clock::now().time_since_epoch();
    if (moved) {
      state.moved_at.store(now.count(), std::memory_order_relaxed);
      if (state.reported.load(std::memory_order_relaxed) == 0) return;
      const std::scoped_lock lock(state.mutex);
      ++state.round;
      state.reported.store(0, std::memory_order_relaxed);
      state.resident = 0;
      state.set_aside = 0;
      state.stands.clear();
      return;
    }
    const Clock::duration still = now - Clock::duration(state.moved_at.load(std::memory_order_relaxed));
    if (!share.all_waiting || still < runner_.options_.watchdog) return;
    const std::scoped_lock lock(state.mutex);
    if (share.reported_round == state.round) return;
    share.reported_round = state.round;
    for (const auto& resident : share.residents) {
      for (Stand& stand : resident->execution->stands()) state.stands.push_back(std::move(stand));
    }
    // All of this share wait, so it keeps the grid: nobody ends it under us.
    const auto resident = static_cast<std::uint32_t>(share.residents.size());
    const auto reported =
        state.reported.load(std::memory_order_relaxed) + resident + (share.set_aside.count != 0 ? 1 : 0);
    state.reported.store(reported, std::memory_order_relaxed);
    state.resident += resident;
    state.set_aside += share.set_aside.count;
    if (reported != grid.holders()) return;
    raise_stuck(*grid.launch, state.resident, grid.waiting_to_start() + state.set_aside, runner_.options_.watchdog,
                state.stands);
  }

  bool admit(Share& share, bool earlier_has_blocks) {
    bool admitted = false;
    while (wants_block(share) && has_room(share, earlier_has_blocks)) {
      const Grid::Run run = share.take();
      if (run.count == 0) break;
      const Grid& grid = *share.grid;
      std::unique_ptr<ResidentBlock> resident = pool_.take();
      if (!share.one_by_one) resident->begun = Clock::now();
      resident->begin(*grid.launch, *grid.code, run, index_, grid.shared_bytes);
      share.residents.push_back(std::move(resident));
      used_blocks_ += 1;
      used_threads_ += grid.threads;
      used_shared_bytes_ += grid.shared_bytes + kReservedSharedBytesPerBlock;
      share.all_waiting = false;
      admitted = true;
      if (share.residents.size() > 1) share.admitted = Clock::now();
    }
    return admitted;
  }

  // Whether one more block beside the resident ones is of use.
  static bool wants_block(Share& share) {
    if (share.residents.empty()) {
      share.admitted = {};
      return true;
    }
    if (share.residents.size() >= share.grid->limit_per_sm || !share.has_blocks_left()) return false;
    if (share.grid->eager || share.all_waiting) return true;
    const Clock::time_point now = Clock::now();
    if (share.admitted == Clock::time_point{}) share.admitted = now;
    return now - share.admitted >= kPatience;
  }

  bool has_room(const Share& share, bool earlier_has_blocks) const {
    const RunnerOptions& options = runner_.options_;
    if (options.occupancy == Occupancy::kPerLaunch) return share.residents.size() < share.grid->limit_per_sm;
    return !earlier_has_blocks && used_blocks_ < options.blocks_per_sm &&
           used_threads_ + share.grid->threads <= options.threads_per_sm &&
           used_shared_bytes_ + share.grid->shared_bytes + kReservedSharedBytesPerBlock <= options.shared_bytes_per_sm;
  }

  void retire(Share& share, std::size_t i) {
    Grid& grid = *share.grid;
    std::unique_ptr<ResidentBlock> resident = std::move(share.residents[i]);
    measure(share, *resident);
    share.residents.erase(share.residents.begin() + static_cast<std::ptrdiff_t>(i));
    resident->finish();
    pool_.put(std::move(resident));
    used_blocks_ -= 1;
    used_threads_ -= grid.threads;
    used_shared_bytes_ -= grid.shared_bytes + kReservedSharedBytesPerBlock;
    if (grid.launch->fault->raised()) grid.close();
    if (grid.give_back()) runner_.finish(grid);
  }

  GridRunner& runner_;
  const std::uint32_t index_;
  std::uint64_t seen_version_ = 0;
  std::uint64_t seen_serial_ = 0;
  std::vector<Share> shares_;  // in order of submission
  std::uint32_t used_blocks_ = 0, used_threads_ = 0;
  std::uint64_t used_shared_bytes_ = 0;
  ResidentPool pool_;
};

GridRunner::GridRunner(const RunnerOptions& options) : options_(options) {
  threads_.reserve(options_.sms);
  try {
    for (std::uint32_t i = 0; i < options_.sms; ++i) threads_.emplace_back([this, i] { SmWorker(*this, i).run(); });
  } catch (...) {  // the host gives no more
    stop();
    throw;
  }
}

GridRunner::~GridRunner() { stop(); }

void GridRunner::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    version_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::uint32_t GridRunner::resident_blocks_per_sm(std::uint32_t threads, std::uint32_t shared_bytes) const {
  const std::uint32_t by_threads = options_.threads_per_sm / std::max(32u, whole_warps(threads));
  const std::uint64_t own = std::uint64_t{shared_bytes} + kReservedSharedBytesPerBlock;
  const std::uint64_t by_shared = options_.shared_bytes_per_sm / own;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>({options_.blocks_per_sm, by_threads, by_shared}));
}

Status GridRunner::run(const Launch& launch, const KernelCode& code, std::uint32_t shared_bytes,
                       ProgressFlag* progress) {
  const std::uint64_t total = launch.config.grid.count();
  if (total == 1 && options_.occupancy == Occupancy::kPerLaunch) return run_here(launch, code, shared_bytes, progress);

  const auto threads = static_cast<std::uint32_t>(launch.config.block.count());
  const std::uint32_t limit = resident_blocks_per_sm(threads, shared_bytes);
  if (limit == 0 || total >= Grid::kNextMask) {
    return PERGOLA_ERROR(kResourceExhausted,
                         "Kernel '{}' cannot run: a grid of {} blocks of {} threads with {} bytes of shared memory is "
                         "more than this device holds ({} threads and {} bytes per SM, 2^48 blocks).",
                         launch.kernel_name, total, threads, shared_bytes, options_.threads_per_sm,
                         options_.shared_bytes_per_sm);
  }
  auto grid = std::make_shared<Grid>();
  grid->launch = &launch;
  grid->code = &code;
  grid->progress = progress;
  grid->total = total;
  grid->threads = whole_warps(threads);
  grid->shared_bytes = shared_bytes;
  grid->eager = launch.config.cooperative;
  grid->sms = options_.sms;
  const bool spread = grid->eager && options_.occupancy == Occupancy::kPerLaunch;
  const std::uint64_t even_share = (total + options_.sms - 1) / options_.sms;
  grid->limit_per_sm = spread ? static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, even_share)) : limit;
  {
    const std::scoped_lock lock(mutex_);
    grid->serial = next_serial_++;
    grids_.push_back(grid);
    version_.fetch_add(1, std::memory_order_release);
  }
  if (total >= options_.sms) {
    changed_.notify_all();
  } else {
    for (std::uint64_t i = 0; i < total; ++i) changed_.notify_one();
  }
  grid->await_end();
  return launch.fault->status();
}

// The calling thread is an SM for one block. Nobody else waits for this thread, so it may back off as long as it likes.
Status GridRunner::run_here(const Launch& launch, const KernelCode& code, std::uint32_t shared_bytes,
                            ProgressFlag* progress) {
  thread_local ResidentBlock resident;
  resident.begin(launch, code, {0, 1}, 0, shared_bytes);
  Backoff backoff;
  const Clock::time_point begun = Clock::now();
  Clock::time_point moved_at = begun;
  while (!resident.step(options_.step_budget, progress)) {
    if (options_.time_limit.count() != 0 && Clock::now() - begun > options_.time_limit)
      raise_out_of_time(launch, options_.time_limit, 0, resident.execution->stands());
    if (!resident.waiting) {
      backoff.reset();
      if (options_.watchdog.count() != 0) moved_at = Clock::now();
      continue;
    }
    if (options_.watchdog.count() != 0 && Clock::now() - moved_at > options_.watchdog)
      raise_stuck(launch, 1, 0, options_.watchdog, resident.execution->stands());
    backoff.wait([](std::chrono::microseconds nap) { std::this_thread::sleep_for(nap); });
  }
  resident.finish();
  return launch.fault->status();
}

void GridRunner::poke() {
  {
    const std::scoped_lock lock(mutex_);
    version_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
}

void GridRunner::finish(Grid& grid) {
  std::shared_ptr<Grid> keep;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(grids_.begin(), grids_.end(), [&](const auto& g) { return g.get() == &grid; });
    PERGOLA_CHECK(found != grids_.end());
    keep = std::move(*found);
    grids_.erase(found);
  }
  keep->end();
}

}  // namespace pergola::device::cpu
