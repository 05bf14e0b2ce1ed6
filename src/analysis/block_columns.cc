#include "src/analysis/block_columns.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace pergola::analysis {
namespace {

// The run that is being made. Places are where grids may be cut: the greatest common divisor of all grids' blocks, so
// that place p is before block p * n / places of a grid of n.
class Run {
 public:
  Run(std::span<const ChainLaunch> launches, const ColumnOptions& options) : launches_(launches), options_(&options) {}

  ColumnRun found() const { return {first_, count_, columns_, is_strided_}; }

  void begin(std::size_t first) {
    first_ = first, count_ = 1, columns_ = 1, is_strided_ = false;
    stride_ = blocks(first);
    related_.clear();
    crossed_.assign(blocks(first), false);
  }

  // False: the run has ended, and is as before.
  bool extend(std::size_t k) {
    if (!is_known(first_) || !is_known(k) || (options_->may_join && !options_->may_join(first_, k))) return false;
    Run longer = *this;
    if (!longer.add(k)) return false;
    *this = std::move(longer);
    return true;
  }

 private:
  std::uint32_t blocks(std::size_t k) const {
    return launches_[k].footprint == nullptr ? 1 : launches_[k].footprint->blocks();
  }
  bool is_known(std::size_t k) const {
    const LaunchFootprint* const footprint = launches_[k].footprint.get();
    return !launches_[k].is_plain && footprint != nullptr && !footprint->reads_anything &&
           !footprint->writes_anything && !footprint->may_wait && blocks(k) <= options_->most_blocks;
  }

  bool add(std::size_t k) {
    coarsen(std::gcd(places(), blocks(k)));
    stride_ = std::gcd(stride_, blocks(k));
    bool conflicts = false;
    for (std::size_t j = first_; j < k; ++j) {
      if (stride_ == 1 && most_adjacent() == 1) return false;
      const auto pair = std::minmax({launches_[j].footprint.get(), launches_[k].footprint.get()});
      const auto known = related_.find(pair);  // conflicts go both ways
      if (known != related_.end()) {
        conflicts = conflicts || known->second;
        continue;
      }
      const bool do_conflict = relate(j, k);
      related_.emplace(pair, do_conflict);
      conflicts = conflicts || do_conflict;
    }
    if (!conflicts && count_ >= options_->shortest) return false;
    ++count_;
    const std::uint32_t adjacent = most_adjacent();
    is_strided_ = stride_ > adjacent;
    columns_ = std::max(stride_, adjacent);
    for (std::size_t j = first_; j <= k; ++j)
      if (blocks(j) / columns_ > options_->most_blocks_of_column) return false;
    return columns_ >= 2;
  }

  std::uint32_t places() const { return static_cast<std::uint32_t>(crossed_.size()); }

  void coarsen(std::uint32_t places) {
    const std::uint32_t times = this->places() / places;
    for (std::uint32_t p = 0; p < places; ++p) crossed_[p] = crossed_[std::size_t{p} * times];
    crossed_.resize(places);
  }

  // Whether they conflict. Marks the places between blocks that do, and makes the stride divide their distances.
  bool relate(std::size_t j, std::size_t k) {
    const RelationCache::RelationPtr relation =
        relation_of(options_->cache, launches_[j].footprint, launches_[k].footprint, options_->dependencies);
    if (relation->pattern == BlockPattern::kIndependent) return false;
    if (relation->lists.empty()) {
      crossed_.assign(crossed_.size(), true);
      stride_ = 1;
      return true;
    }
    // Blocks of a part, of either launch; and how many conflicts begin at a place, less those that end there.
    const std::uint32_t of_parent = blocks(j) / places(), of_child = blocks(k) / places();
    std::vector<std::int64_t> crossing(places() + std::size_t{1}, 0);
    for (std::uint32_t child = 0; child < relation->children; ++child)
      for (const std::uint32_t parent : relation->parents_of(child)) {
        const auto [from, to] = std::minmax({parent / of_parent, child / of_child});
        ++crossing[from + std::size_t{1}], --crossing[to + std::size_t{1}];
        stride_ = std::gcd(stride_, parent > child ? parent - child : child - parent);
      }
    std::int64_t open = 0;
    for (std::uint32_t p = 0; p < places(); ++p) {
      open += crossing[p];
      if (open > 0) crossed_[p] = true;
    }
    return true;
  }

  std::uint32_t most_adjacent() const {
    for (std::uint32_t width = 1; width < places(); ++width) {
      if (places() % width != 0) continue;
      std::uint32_t p = width;
      while (p < places() && !crossed_[p]) p += width;
      if (p >= places()) return places() / width;
    }
    return 1;
  }

  std::span<const ChainLaunch> launches_;
  const ColumnOptions* options_;
  std::size_t first_ = 0, count_ = 0;
  std::uint32_t columns_ = 1;
  bool is_strided_ = false;
  std::uint32_t stride_ = 1;   // divides all grids, and how far blocks that conflict are from each other
  std::vector<bool> crossed_;  // by place: some block before it conflicts with some block behind it
  // Footprints that have been related, whichever came first, and whether they conflict: launches that recur in a run
  // have one footprint where there is a cache.
  std::map<std::pair<const LaunchFootprint*, const LaunchFootprint*>, bool> related_;
};

}  // namespace

std::vector<ColumnRun> find_columns(std::span<const ChainLaunch> launches, const ColumnOptions& options) {
  std::vector<ColumnRun> runs;
  Run run(launches, options);
  for (std::size_t k = 0; k < launches.size(); ++k) {
    if (k != 0 && run.extend(k)) continue;
    if (k != 0) runs.push_back(run.found());
    run.begin(k);
  }
  if (!launches.empty()) runs.push_back(run.found());
  return runs;
}

}  // namespace pergola::analysis
