#include "src/analysis/block_chain.h"

#include <algorithm>

#include <fmt/format.h>

namespace pergola::analysis {
namespace {

using Parent = ChainStep::Parent;

class Planner {
 public:
  Planner(std::span<const ChainLaunch> launches, const ChainOptions& options)
      : launches_(launches), options_(options), steps_(launches.size()), ended_before_(launches.size()) {
    dependencies_ = options.dependencies;
    dependencies_.max_degree = std::max(dependencies_.max_degree, options.most_parents);
  }

  std::vector<ChainStep> run() {
    for (std::uint32_t k = 0; k < launches_.size(); ++k) plan(k);
    return std::move(steps_);
  }

 private:
  std::uint32_t blocks(std::uint32_t launch) const {
    return launches_[launch].footprint == nullptr ? 0 : launches_[launch].footprint->blocks();
  }

  // Whether one may write an allocation that the other touches: cheaper to ask than which blocks.
  static bool may_conflict(const LaunchFootprint& before, const LaunchFootprint& after) {
    if (before.writes_anything || after.writes_anything || before.reads_anything || after.reads_anything) return true;
    for (const AccessFootprint& a : before.accesses)
      for (const AccessFootprint& b : after.accesses)
        if (a.allocation == b.allocation && (a.writes || b.writes)) return true;
    return false;
  }

  // Launches before this one have ended when launch k starts.
  std::uint32_t ended_at_start(std::uint32_t k) const {
    if (k == 0) return 0;
    if (launches_[k].is_plain || launches_[k - 1].is_plain) return k;
    std::uint32_t ended = k < 2 ? 0 : started_after_[k - 1];  // launches start in order
    if (steps_[k - 1].limits || launches_[k - 1].lets_next_start_late) ended = std::max(ended, k - 1);
    return ended;
  }

  void plan(std::uint32_t k) {
    started_after_.push_back(ended_at_start(k));
    const std::uint32_t ended = started_after_[k];
    ChainStep& step = steps_[k];
    std::vector<std::vector<Parent>> parents(blocks(k));
    std::string reason;
    // The latest first: what it has waited for is known then.
    for (std::uint32_t j = k; j-- > ended && reason.empty();) {
      reason = relate(j, k, parents);
      for (std::vector<Parent>& list : parents)
        if (list.size() > options_.most_parents && reason.empty())
          reason = fmt::format("a block would wait for more than {} others", options_.most_parents);
    }
    const std::uint32_t period = std::max<std::uint32_t>(options_.most_running, 2) - 1;
    step.limits = k % period == period - 1 && !launches_[k].lets_next_start_late;
    if (!reason.empty()) {
      step.waits_for_all = true;
      step.reason = std::move(reason);
      step.pattern = BlockPattern::kFull;
      ended_before_[k].assign(std::max<std::uint32_t>(blocks(k), 1), k);
      return;
    }
    store(k, parents);
  }

  // Adds to each block of k those of j that it must wait for; says why where it must wait for all.
  std::string relate(std::uint32_t j, std::uint32_t k, std::vector<std::vector<Parent>>& parents) {
    const ChainLaunch &before = launches_[j], &after = launches_[k];
    if (after.footprint == nullptr) return after.unknown_reason;
    if (before.footprint == nullptr) return before.unknown_reason;
    const bool all_know = std::all_of(parents.begin(), parents.end(), [&](const std::vector<Parent>& list) {
      return std::any_of(list.begin(), list.end(), [&](const Parent& parent) { return has_ended(j, parent); });
    });
    if (all_know) return "";
    if (!may_conflict(*before.footprint, *after.footprint)) return "";
    if (!options_.by_block) return "launches wait for launches";
    if (!launches_[k].may_wait_by_block) return "its blocks do not look for theirs";
    const RelationCache::RelationPtr found =
        relation_of(options_.cache, before.footprint, after.footprint, dependencies_);
    const BlockRelation& relation = *found;
    if (j + 1 == k) steps_[k].pattern = relation.pattern;
    if (relation.pattern == BlockPattern::kIndependent) return "";
    if (relation.lists.empty()) {
      if (relation.parents > options_.most_parents)
        return relation.full_reason.empty() ? "every block needs every block" : relation.full_reason;
      for (std::uint32_t c = 0; c < parents.size(); ++c)
        for (std::uint32_t p = 0; p < relation.parents; ++p) add({j, p}, parents[c]);
      return "";
    }
    for (std::uint32_t c = 0; c < parents.size(); ++c)
      for (const std::uint32_t p : relation.parents_of(c)) add({j, p}, parents[c]);
    return "";
  }

  // Whether launch j has ended wherever this block has.
  bool has_ended(std::uint32_t j, const Parent& block) const { return ended_before_[block.launch][block.block] > j; }

  void add(const Parent& parent, std::vector<Parent>& list) const {
    for (const Parent& known : list) {
      if (known.launch == parent.launch) continue;
      if (has_ended(parent.launch, known)) return;
      const std::span<const Parent> its = steps_[known.launch].parents_of(known.block);
      if (std::binary_search(its.begin(), its.end(), parent)) return;
    }
    list.push_back(parent);
  }

  void store(std::uint32_t k, std::vector<std::vector<Parent>>& parents) {
    ChainStep& step = steps_[k];
    ended_before_[k].assign(parents.size(), started_after_[k]);
    step.first_parent.push_back(0);
    for (std::uint32_t c = 0; c < parents.size(); ++c) {
      std::sort(parents[c].begin(), parents[c].end());
      for (const Parent& parent : parents[c]) {
        ended_before_[k][c] = std::max(ended_before_[k][c], ended_before_[parent.launch][parent.block]);
        steps_[parent.launch].signals = true;
        step.parents.push_back(parent);
      }
      step.first_parent.push_back(static_cast<std::uint32_t>(step.parents.size()));
    }
    if (step.parents.empty()) step.first_parent.clear();
  }

  const std::span<const ChainLaunch> launches_;
  const ChainOptions& options_;
  DependencyOptions dependencies_;
  std::vector<ChainStep> steps_;
  // By launch: those before this number have ended when it starts; and when a block of it has ended, by block.
  std::vector<std::uint32_t> started_after_;
  std::vector<std::vector<std::uint32_t>> ended_before_;
};

}  // namespace

std::vector<ChainStep> plan_chain(std::span<const ChainLaunch> launches, const ChainOptions& options) {
  return Planner(launches, options).run();
}

}  // namespace pergola::analysis
