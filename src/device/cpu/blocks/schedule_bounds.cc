#include "src/device/cpu/blocks/schedule_bounds.h"

namespace pergola::device::cpu::blocks {
namespace {

// Until the last block of the longest chain has ended, from when the first launch has been launched.
double longest_chain_ns(const LaunchChain& chain) {
  std::vector<std::vector<double>> ends(chain.size());
  double latest = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    ends[i].assign(chain[i].size(), 0);
    for (std::size_t d = 1; d <= chain[i].relations.size(); ++d) {
      const analysis::BlockRelation& relation = *chain[i].relations[d - 1];
      const std::vector<double>& parents = ends[i - d];
      const bool is_full = relation.pattern == analysis::BlockPattern::kFull;
      const double last = is_full ? std::ranges::max(parents) : 0;
      for (std::uint32_t child = 0; child < ends[i].size(); ++child) {
        ends[i][child] = std::max(ends[i][child], last);
        if (is_full) continue;
        for (const std::uint32_t p : relation.parents_of(child)) ends[i][child] = std::max(ends[i][child], parents[p]);
      }
    }
    for (std::uint32_t b = 0; b < ends[i].size(); ++b) {
      ends[i][b] += chain[i].blocks[b].alone_ns;
      latest = std::max(latest, ends[i][b]);
    }
  }
  return latest;
}

// Of an SM's room, what a block keeps.
double part_of_sm(const BlockRoom& room, const ScheduleOptions& options) {
  return std::max({1.0 / options.blocks_per_sm, static_cast<double>(room.threads) / options.threads_per_sm,
                   static_cast<double>(room.shared_bytes) / options.shared_bytes_per_sm});
}

}  // namespace

ScheduleBounds bounds_of(const LaunchChain& chain, const ScheduleOptions& options) {
  double work_ns = 0, room_ns = 0;
  for (const ChainLaunch& launch : chain) {
    const double part = part_of_sm(launch.room, options);
    for (const BlockCost& cost : launch.blocks) {
      work_ns += cost.alone_ns * cost.sm_share;
      room_ns += cost.alone_ns * part;
    }
  }
  std::size_t at_once = options.window;
  if (options.launches_at_once != 0) at_once = std::min<std::size_t>(at_once, options.launches_at_once);
  const std::size_t turns = (chain.size() + at_once - 1) / at_once;
  return {static_cast<double>(turns) * options.launch_ns, options.launch_ns + longest_chain_ns(chain),
          options.launch_ns + work_ns / options.sms, options.launch_ns + room_ns / options.sms};
}

}  // namespace pergola::device::cpu::blocks
