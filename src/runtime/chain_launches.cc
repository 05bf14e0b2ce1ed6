#include "src/runtime/chain_launches.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/check.h"
#include "src/runtime/launch_values.h"

namespace pergola::runtime {

using analysis::LaunchFootprint;
using device::KernelNode;

ChainLaunches::ChainLaunches(const device::GraphSpec& graph, std::span<const std::shared_ptr<BlockKernel>> kernels,
                             std::span<const BlockAllocation> allocations, bool by_block,
                             analysis::RelationCache* cache)
    : graph_(graph), kernels_(kernels), allocations_(allocations), by_block_(by_block), cache_(cache) {
  PERGOLA_CHECK(kernels.size() == graph.nodes.size());
  footprints_.resize(size());
  plain_reasons_.resize(size());
  unknown_reasons_.resize(size());
  for (std::size_t i = 0; i < size(); ++i) look_at(i);
  find_written();
}

void ChainLaunches::look_at(std::size_t node) {
  std::string &why_plain = plain_reasons_[node], &why_unknown = unknown_reasons_[node];
  why_plain = why_unknown = "it is no kernel launch";
  if (!std::holds_alternative<KernelNode>(graph_.nodes[node].work)) return;
  why_plain = why_unknown = "its kernel's PTX is not known";
  if (kernels_[node] == nullptr) return;
  Result<FootprintPtr> footprint = footprint_of(node);
  if (footprint.ok())
    footprints_[node] = std::move(*footprint);
  else
    why_unknown = footprint.message();
  why_plain.clear();
  const device::LaunchConfig& config = kernel_node(node).config;
  if (config.cooperative || !(config.cluster == device::Dim3{0, 0, 0}))
    why_plain = "it is launched as a cooperative grid or in clusters";
}

analysis::ChainLaunch ChainLaunches::launch(std::size_t node) const {
  analysis::ChainLaunch launch;
  launch.is_plain = !plain_reasons_[node].empty();
  launch.footprint = footprints_[node];
  if (launch.footprint == nullptr) launch.unknown_reason = unknown_reasons_[node];
  return launch;
}

Result<ChainLaunches::FootprintPtr> ChainLaunches::footprint_of(std::size_t node) {
  const KernelNode& work = kernel_node(node);
  PERGOLA_ASSIGN(const BlockKernel::Analysed* const analysed, kernels_[node]->analysed());
  analysis::LaunchValues values = launch_values(work.config, work.parameters);
  for (std::uint32_t at = 0; at + 8 <= work.parameters.size(); at += 8) {
    device::DeviceAddress word = 0;
    std::memcpy(&word, work.parameters.data() + at, sizeof word);
    for (std::size_t a = 0; a < allocations_.size(); ++a) {
      const BlockAllocation& allocation = allocations_[a];
      if (word < allocation.address || word - allocation.address >= allocation.size_bytes) continue;
      values.pointers.push_back({at, static_cast<analysis::AllocationId>(a),
                                 static_cast<std::int64_t>(word - allocation.address), allocation.size_bytes});
    }
  }
  // Variables of modules: kernels that write them have no form of another module, so these stand for tables that
  // nobody writes, behind all that somebody may.
  const analysis::AllocationId number =
      values.add_variables(analysed->module, static_cast<analysis::AllocationId>(allocations_.size()));
  most_allocations_ = std::max<std::size_t>(most_allocations_, number);
  const analysis::KernelFootprints& footprints = *analysed->footprints;
  // Lives as long as the kernel.
  if (cache_ != nullptr) return cache_->footprint({kernels_[node], &footprints}, values, by_block_);
  PERGOLA_ASSIGN(LaunchFootprint made, by_block_ ? footprints.at(values) : footprints.allocations_at(values));
  return std::make_shared<const LaunchFootprint>(std::move(made));
}

// Allocations that some launch writes, or may: their contents change while the chain runs.
void ChainLaunches::find_written() {
  written_.assign(std::max(most_allocations_, allocations_.size()), false);
  for (const FootprintPtr& footprint : footprints_) {
    if (footprint == nullptr || footprint->writes_anything) {
      written_.assign(written_.size(), true);
      return;
    }
    for (const analysis::AccessFootprint& access : footprint->accesses)
      if (access.writes) written_[access.allocation] = true;
  }
}

std::vector<std::uint32_t> ChainLaunches::constant_lines(std::size_t node) const {
  std::map<std::uint32_t, bool> constant;
  if (footprints_[node] == nullptr) return {};
  using Access = LaunchFootprint::Instruction;
  for (const Access& access : footprints_[node]->instructions) {
    const bool is_constant = access.allocation != Access::kAnything && !written_[access.allocation];
    const auto line = constant.emplace(access.line, true).first;
    line->second = line->second && is_constant;
  }
  std::vector<std::uint32_t> lines;
  for (const auto& [line, is_constant] : constant)
    if (is_constant) lines.push_back(line);
  return lines;
}

}  // namespace pergola::runtime
