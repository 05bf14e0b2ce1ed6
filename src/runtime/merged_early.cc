#include "src/runtime/merged_early.h"

#include <algorithm>
#include <iterator>

#include "src/base/check.h"

namespace pergola::runtime {
namespace {

using device::GraphNode;
using device::KernelNode;
using device::NodeId;

class EarlyMerged {
 public:
  EarlyMerged(const device::GraphSpec& plain, const LoweredMerged& merged,
              std::span<const std::shared_ptr<BlockKernel>> kernels, std::span<const BlockAllocation> allocations,
              analysis::RelationCache* cache, std::uint32_t most_triggers)
      : merged_(merged),
        kernels_(kernels),
        most_triggers_(most_triggers),
        launches_(plain, kernels, allocations, false, cache),
        groups_(merged.spec.nodes.size(), nullptr),
        members_(merged.spec.nodes.size()) {
    for (const MergedGroup& group : merged.groups) {
      PERGOLA_CHECK(!group.in_a_row);
      groups_[group.node] = &group;
      members_[group.node] = group.launches;
    }
    for (NodeId i = 0; i < merged.places.size(); ++i)
      if (groups_[merged.places[i]] == nullptr) members_[merged.places[i]] = {i};
  }

  Result<LoweredMergedEarly> run() {
    const std::size_t count = merged_.spec.nodes.size();
    for (std::size_t i = 0; i < count; ++i) result_.plain_reasons.push_back(why_plain(i));
    result_.spec.buffers = merged_.spec.buffers;
    for (std::size_t i = 0; i < count; ++i) PERGOLA_TRY(add_node(i));
    return std::move(result_);
  }

 private:
  std::string why_plain(std::size_t node) const {
    for (const NodeId launch : members_[node]) {
      std::string why = launches_.plain_reason(launch);
      if (why.empty()) why = kernels_[launch]->can_wait_for_blocks().message();
      if (!why.empty()) return why;
    }
    return {};
  }
  bool is_plain(std::size_t node) const { return !result_.plain_reasons[node].empty(); }

  // Lines that read what nobody writes in any of the launches.
  std::vector<std::uint32_t> constant_lines(std::size_t node) const {
    std::vector<std::uint32_t> all = launches_.constant_lines(members_[node][0]);
    for (const NodeId launch : members_[node]) {
      const std::vector<std::uint32_t> own = launches_.constant_lines(launch);
      std::vector<std::uint32_t> both;
      std::set_intersection(all.begin(), all.end(), own.begin(), own.end(), std::back_inserter(both));
      all = std::move(both);
    }
    return all;
  }

  Status add_node(std::size_t i) {
    GraphNode node = merged_.spec.nodes[i];
    const bool comes_after = !node.after.empty();
    const bool early = i != 0 && !is_plain(i) && !is_plain(i - 1);
    node.after.clear();
    if (early)
      node.early_after = static_cast<NodeId>(i - 1);
    else if (i != 0)
      node.after = {static_cast<NodeId>(i - 1)};
    result_.early += early;
    if (!is_plain(i)) PERGOLA_TRY(choose_form(i, early, early && comes_after, std::get<KernelNode>(node.work)));
    result_.spec.nodes.push_back(std::move(node));
    return {};
  }

  Status choose_form(std::size_t i, bool early, bool waits, KernelNode& work) {
    const transform::BlockSignalOptions signals{.triggers = work.config.grid.count() <= most_triggers_,
                                                .waits_for_all = waits,
                                                .starts_early = early,
                                                .constant_lines = constant_lines(i)};
    BlockKernel& kernel = *kernels_[members_[i][0]];
    PERGOLA_ASSIGN(const BlockKernel::Form form,
                   groups_[i] == nullptr ? kernel.form(signals) : kernel.merged(groups_[i]->shape, signals));
    const std::uint32_t most = form.kernel->resources().max_threads_per_block;
    if (most != 0 && work.config.block.count() > most)
      return PERGOLA_ERROR(kResourceExhausted,
                           "Kernel '{}' that starts early runs in blocks of {} threads at most, not {}.",
                           form.kernel->signature().name, most, work.config.block.count());
    work.module = form.module;
    work.kernel = form.kernel;
    return {};
  }

  const LoweredMerged& merged_;
  const std::span<const std::shared_ptr<BlockKernel>> kernels_;
  const std::uint32_t most_triggers_;
  const ChainLaunches launches_;
  std::vector<const MergedGroup*> groups_;    // by node of the merged graph; null where it is a launch as it was
  std::vector<std::vector<NodeId>> members_;  // by node of it: of the plain one
  LoweredMergedEarly result_;
};

}  // namespace

Result<LoweredMergedEarly> start_early(const device::GraphSpec& plain, const LoweredMerged& merged,
                                       std::span<const std::shared_ptr<BlockKernel>> kernels,
                                       std::span<const BlockAllocation> allocations, analysis::RelationCache* cache,
                                       std::uint32_t most_triggers) {
  return EarlyMerged(plain, merged, kernels, allocations, cache, most_triggers).run();
}

}  // namespace pergola::runtime
