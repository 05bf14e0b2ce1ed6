// Events are two: a launch is ready to run blocks, a block ends. All of one moment are taken before blocks start.
#include "src/device/cpu/blocks/block_schedule.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "src/base/check.h"
#include "src/device/cpu/blocks/dependency_counters.h"
#include "src/device/cpu/blocks/dependency_traffic.h"
#include "src/device/cpu/blocks/sm_clock.h"

namespace pergola::device::cpu::blocks {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Simulation {
 public:
  Simulation(const LaunchChain& chain, const ScheduleOptions& options)
      : chain_(chain),
        options_(options),
        counters_(chain),
        sms_(options.sms),
        ready_(chain.size()),
        started_(chain.size()) {
    timeline_.launches.resize(chain.size());
    for (std::size_t i = 0; i < chain.size(); ++i) timeline_.launches[i].blocks.resize(chain[i].size());
  }

  Timeline run() {
    admit();
    while (counters_.completed() < chain_.size()) {
      const double next = next_event();
      PERGOLA_CHECK(next < kNever);
      if (running_ > 0) timeline_.busy_ns += next - now_;
      now_ = next;
      end_blocks();
      while (launched_ < launching_ends_.size() && launching_ends_[launched_] <= now_) ++launched_;
      start_blocks();
    }
    timeline_.end_ns = now_;
    timeline_.requests = traffic_.requests();
    return std::move(timeline_);
  }

 private:
  // Launches become resident as far as the window goes.
  void admit() {
    while (counters_.entered() < chain_.size() && counters_.entered() < counters_.completed() + options_.window) {
      const std::uint32_t launch = counters_.entered();
      const std::uint32_t at_once = options_.launches_at_once;
      // Its turn comes when the launch `at_once` before has been launched.
      const double begin = at_once != 0 && launch >= at_once ? std::max(now_, launching_ends_[launch - at_once]) : now_;
      // Blocks are handed out in order of launches, so none is launched before the one before.
      const double end = begin + options_.launch_ns;
      launching_ends_.push_back(launch == 0 ? end : std::max(end, launching_ends_.back()));
      timeline_.launches[launch].resident_ns = now_;
      timeline_.launches[launch].launched_ns = launching_ends_.back();
      std::vector<BlockName> ready;
      counters_.enter(ready);
      make_ready(ready);
      for (const BlockName& block : running_blocks_of_parents(launch)) {
        for (const auto& children : counters_.children(block)) {
          if (children.launch == launch) traffic_.list_read(children);
        }
      }
    }
  }

  std::vector<BlockName> running_blocks_of_parents(std::uint32_t launch) const {
    std::vector<BlockName> running;
    if (running_ == 0) return running;
    for (const SmClock& sm : sms_) {
      for (const BlockName& block : sm.running()) {
        if (block.launch < launch) running.push_back(block);
      }
    }
    std::ranges::sort(running, [](const BlockName& a, const BlockName& b) {
      return a.launch != b.launch ? a.launch < b.launch : a.block < b.block;
    });
    return running;
  }

  void make_ready(const std::vector<BlockName>& blocks) {
    for (const BlockName& block : blocks) ready_[block.launch].push(block.block);
  }

  double next_event() const {
    double next = launched_ < launching_ends_.size() ? launching_ends_[launched_] : kNever;
    for (const SmClock& sm : sms_) next = std::min(next, sm.next_end_ns());
    return next;
  }

  void end_blocks() {
    std::vector<BlockName> ended, ready;
    for (SmClock& sm : sms_) sm.end_until(now_, ended);
    for (const BlockName& block : ended) {
      BlockTimes& times = timeline_.launches[block.launch].blocks[block.block];
      times.end_ns = now_;
      timeline_.block_ns += now_ - times.start_ns;
      traffic_.block_ended(counters_.children(block));
      const std::uint32_t before = counters_.completed();
      ready.clear();
      counters_.finish(block, ready);
      make_ready(ready);
      for (std::uint32_t launch = before; launch < counters_.completed(); ++launch) {
        timeline_.launches[launch].complete_ns = now_;
      }
    }
    running_ -= ended.size();
    admit();
  }

  // Of the launches that may run blocks now, the one that the policy takes first; chain_.size() where there is none.
  std::size_t next_launch() const {
    const std::uint32_t first = counters_.completed();
    const auto has_ready = [&](std::size_t launch) { return !ready_[launch].empty(); };
    if (first >= launched_) return chain_.size();
    switch (options_.policy) {
      case BlockPolicy::kInOrder: return has_ready(first) ? first : chain_.size();
      case BlockPolicy::kProducerFirst:
        for (std::size_t launch = first; launch < launched_; ++launch) {
          if (has_ready(launch)) return launch;
          if (started_[launch] != chain_[launch].size()) return chain_.size();
        }
        return chain_.size();
      case BlockPolicy::kConsumerFirst:
        for (std::size_t launch = launched_; launch-- > first;) {
          if (has_ready(launch)) return launch;
        }
        return chain_.size();
      case BlockPolicy::kOldestFirst:
        for (std::size_t launch = first; launch < launched_; ++launch) {
          if (has_ready(launch)) return launch;
        }
        return chain_.size();
    }
    return chain_.size();
  }

  // The SM with the fewest blocks of those that have so much room; null where none has.
  SmClock* sm_for(const BlockRoom& room) {
    SmClock* best = nullptr;
    for (SmClock& sm : sms_) {
      const std::size_t blocks = sm.running().size();
      if (blocks >= options_.blocks_per_sm || sm.threads() + room.threads > options_.threads_per_sm ||
          sm.shared_bytes() + room.shared_bytes > options_.shared_bytes_per_sm) {
        continue;
      }
      if (best == nullptr || blocks < best->running().size()) best = &sm;
    }
    return best;
  }

  void start_blocks() {
    while (true) {
      const std::size_t launch = next_launch();
      if (launch == chain_.size()) return;
      SmClock* sm = sm_for(chain_[launch].room);
      if (sm == nullptr) return;
      const BlockName block{static_cast<std::uint32_t>(launch), ready_[launch].top()};
      ready_[launch].pop();
      ++started_[launch];
      ++running_;
      sm->start(now_, block, chain_[launch].blocks[block.block], chain_[launch].room);
      BlockTimes& times = timeline_.launches[launch].blocks[block.block];
      times.start_ns = now_;
      times.sm = static_cast<std::uint32_t>(sm - sms_.data());
      traffic_.block_started(block);
      for (const auto& children : counters_.children(block)) traffic_.list_read(children);
    }
  }

  using ByNumber = std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>;

  const LaunchChain& chain_;
  const ScheduleOptions& options_;
  DependencyCounters counters_;
  DependencyTraffic traffic_;
  std::vector<SmClock> sms_;
  std::vector<ByNumber> ready_;         // by launch: counters at zero, not started
  std::vector<std::uint32_t> started_;  // by launch: how many blocks
  std::vector<double> launching_ends_;  // of the launches that are or were resident, ascending
  std::size_t launched_ = 0;
  std::size_t running_ = 0;
  double now_ = 0;
  Timeline timeline_;
};

Status validate(const LaunchChain& chain, const ScheduleOptions& options) {
  if (options.sms == 0 || options.blocks_per_sm == 0 || options.window == 0 || !(options.launch_ns >= 0)) {
    return PERGOLA_ERROR(kInvalidArgument,
                         "A schedule needs an SM, room for a block and a window of at least 1 and a launch of no "
                         "negative time, not {}, {}, {} and {} ns.",
                         options.sms, options.blocks_per_sm, options.window, options.launch_ns);
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (chain[i].blocks.empty()) return PERGOLA_ERROR(kInvalidArgument, "Launch {} has no blocks.", i);
    const BlockRoom& room = chain[i].room;
    if (room.threads > options.threads_per_sm || room.shared_bytes > options.shared_bytes_per_sm) {
      return PERGOLA_ERROR(kInvalidArgument,
                           "A block of launch {} has {} threads and {} bytes of shared memory; an SM has {} and {}.", i,
                           room.threads, room.shared_bytes, options.threads_per_sm, options.shared_bytes_per_sm);
    }
    for (const BlockCost& cost : chain[i].blocks) {
      if (!(cost.alone_ns > 0) || !(cost.alone_ns < kNever) || !(cost.sm_share >= 0 && cost.sm_share <= 1)) {
        return PERGOLA_ERROR(kInvalidArgument,
                             "A block of launch {} takes {} ns and {} of an SM: the time must be above 0, the share "
                             "from 0 to 1.",
                             i, cost.alone_ns, cost.sm_share);
      }
    }
    const std::size_t needed = std::min<std::size_t>(i, options.window - 1);
    if (chain[i].relations.size() < needed) {
      return PERGOLA_ERROR(kInvalidArgument, "Launch {} has relations to {} launches before; a window of {} needs {}.",
                           i, chain[i].relations.size(), options.window, needed);
    }
    for (std::size_t d = 1; d <= chain[i].relations.size(); ++d) {
      const auto& relation = chain[i].relations[d - 1];
      if (d > i || relation == nullptr || relation->parents != chain[i - d].size() ||
          relation->children != chain[i].size()) {
        return PERGOLA_ERROR(kInvalidArgument,
                             "The relation of launch {} on the {} before is missing or of other numbers of blocks.", i,
                             d);
      }
    }
  }
  return {};
}

// BlockTimes::ready_ns of all.
void fill_ready_times(const LaunchChain& chain, Timeline& timeline) {
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::size_t reach = chain[i].relations.size();
    const double earliest = i > reach ? timeline.launches[i - reach - 1].complete_ns : 0;
    std::vector<BlockTimes>& blocks = timeline.launches[i].blocks;
    for (BlockTimes& block : blocks) block.ready_ns = earliest;
    for (std::size_t d = 1; d <= reach; ++d) {
      const analysis::BlockRelation& relation = *chain[i].relations[d - 1];
      const std::vector<BlockTimes>& parents = timeline.launches[i - d].blocks;
      if (relation.pattern == analysis::BlockPattern::kFull) {
        const double end = std::ranges::max(parents, {}, &BlockTimes::end_ns).end_ns;
        for (BlockTimes& block : blocks) block.ready_ns = std::max(block.ready_ns, end);
        continue;
      }
      for (std::uint32_t child = 0; child < blocks.size(); ++child) {
        for (const std::uint32_t p : relation.parents_of(child)) {
          blocks[child].ready_ns = std::max(blocks[child].ready_ns, parents[p].end_ns);
        }
      }
    }
  }
}

}  // namespace

std::vector<ScheduleMode> figure_nine(const ScheduleOptions& hardware) {
  const auto with = [&](std::uint32_t window, BlockPolicy policy) {
    ScheduleOptions options = hardware;
    options.window = window, options.policy = policy;
    return options;
  };
  ScheduleOptions ideal = with(1, BlockPolicy::kInOrder);
  ideal.launch_ns = 0;
  return {{"baseline", with(1, BlockPolicy::kInOrder)},         {"ideal", ideal},
          {"prelaunch", with(2, BlockPolicy::kInOrder)},        {"producer", with(2, BlockPolicy::kProducerFirst)},
          {"consumer-2", with(2, BlockPolicy::kConsumerFirst)}, {"consumer-3", with(3, BlockPolicy::kConsumerFirst)},
          {"consumer-4", with(4, BlockPolicy::kConsumerFirst)}};
}

std::vector<BlockName> Timeline::start_order() const {
  std::vector<BlockName> order;
  for (std::uint32_t i = 0; i < launches.size(); ++i) {
    for (std::uint32_t b = 0; b < launches[i].blocks.size(); ++b) order.push_back({i, b});
  }
  const auto start = [&](const BlockName& name) { return launches[name.launch].blocks[name.block].start_ns; };
  std::ranges::sort(order, [&](const BlockName& a, const BlockName& b) {
    if (start(a) != start(b)) return start(a) < start(b);
    return a.launch != b.launch ? a.launch > b.launch : a.block < b.block;
  });
  return order;
}

Result<Timeline> schedule_blocks(const LaunchChain& chain, const ScheduleOptions& options) {
  PERGOLA_TRY(validate(chain, options));
  Timeline timeline = Simulation(chain, options).run();
  fill_ready_times(chain, timeline);
  return timeline;
}

}  // namespace pergola::device::cpu::blocks
