#include "src/runtime/stacked_lowering.h"

#include <algorithm>

#include "src/analysis/block_columns.h"
#include "src/base/check.h"
#include "src/device/graph_order.h"
#include "src/ptx/verifier.h"
#include "src/transform/stacked_kernels.h"

namespace pergola::runtime {
namespace {

using device::KernelNode;
using device::NodeId;

Result<BlockKernel::Form> stack(device::Device& device, const StackedKernels::Parts& parts,
                                const std::array<std::uint32_t, 3>& threads) {
  std::vector<BlockKernel::ModulePart> modules;
  std::vector<std::string> names;
  std::vector<transform::StackedPart> stacked;
  for (const auto& [kernel, lines] : parts) {
    PERGOLA_ASSIGN(BlockKernel::ModulePart module, kernel->merged_module({.launches = 1}));
    modules.push_back(std::move(module));
    names.push_back(transform::merged_kernel(kernel->name()));
  }
  for (std::size_t p = 0; p < parts.size(); ++p) stacked.push_back({modules[p].get(), names[p], parts[p].second});
  PERGOLA_ASSIGN(const ptx::Module module, transform::stack_kernels(stacked, threads));
  PERGOLA_TRY(ptx::verify(module));
  return BlockKernel::load(device, module, "stacked launches", transform::kStackedKernel);
}

std::vector<NodeId> order_of(const device::GraphSpec& plain, std::span<const NodeId> asked) {
  std::vector<NodeId> order(asked.begin(), asked.end());
  for (NodeId i = 0; order.size() < plain.nodes.size(); ++i) order.push_back(i);
  return order;
}

std::vector<std::shared_ptr<BlockKernel>> in_order(std::span<const std::shared_ptr<BlockKernel>> kernels,
                                                   std::span<const NodeId> order) {
  std::vector<std::shared_ptr<BlockKernel>> made;
  for (const NodeId node : order) made.push_back(kernels[node]);
  return made;
}

constexpr std::uint32_t kMostBlocks = 1u << 20;  // of a launch, as all of them are looked at

class Stacking {
 public:
  Stacking(device::Device& device, const device::GraphSpec& plain,
           std::span<const std::shared_ptr<BlockKernel>> kernels, std::span<const BlockAllocation> allocations,
           const StackedOptions& options)
      : device_(device),
        options_(options),
        stacked_(options.stacked == nullptr ? own_stacked_ : *options.stacked),
        order_(order_of(plain, options.order)),
        nodes_(device::in_order(plain, order_)),
        kernels_(in_order(kernels, order_)),
        allocations_(allocations),
        launches_(nodes_, kernels_, allocations, true, options.cache) {}

  Result<LoweredStacked> run() {
    result_.plain_reasons.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) reason(i) = why_plain(i);
    find_times();
    find_stacks();
    result_.spec.buffers = nodes_.buffers;
    places_.resize(order_.size());
    std::vector<NodeId> first;
    for (const std::size_t stack : stack_of_) first.push_back(static_cast<NodeId>(stacks_[stack].front()));
    for (const NodeId next : device::joined_order(nodes_, first)) add(stacks_[stack_of_[next]]);
    return std::move(result_);
  }

 private:
  std::string& reason(std::size_t i) { return result_.plain_reasons[order_[i]]; }

  std::string why_plain(std::size_t i) {
    const std::string& why = launches_.plain_reason(i);
    if (!why.empty()) return why;
    if (launches_.kernel_node(i).config.programmatic) return "it is launched early";
    return kernels_[i]->merged_module({.launches = 1}).status().message();
  }

  // When each would start and end if nothing else slowed it down.
  void find_times() {
    std::vector<double> takes(order_.size(), 1);
    for (std::size_t i = 0; i < order_.size() && !options_.expected_ns.empty(); ++i)
      takes[i] = std::max(options_.expected_ns[order_[i]], 1.0);
    starts_ = device::begins(nodes_, takes);
    ends_ = starts_;
    for (std::size_t i = 0; i < order_.size(); ++i) ends_[i] += takes[i];
  }

  void find_stacks() {
    stack_of_.resize(order_.size());
    notes_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::vector<NodeId>& after = nodes_.nodes[i].after;
      const auto last =
          std::max_element(after.begin(), after.end(), [&](NodeId a, NodeId b) { return ends_[a] < ends_[b]; });
      if (last != after.end() && may_follow(*last, i)) {
        stack_of_[i] = stack_of_[*last];
      } else {
        stack_of_[i] = stacks_.size();
        stacks_.emplace_back();
      }
      stacks_[stack_of_[i]].push_back(i);
    }
  }

  bool may_follow(std::size_t last, std::size_t i) {
    const std::vector<std::size_t>& stack = stacks_[stack_of_[last]];
    if (!reason(i).empty() || !reason(last).empty()) return false;
    if (stack.back() != last || stack.size() == options_.most_launches) return false;
    std::size_t bytes = parameter_bytes(i);
    for (const std::size_t below : stack) bytes += parameter_bytes(below);
    if (bytes > options_.most_parameter_bytes) return false;
    const device::LaunchConfig &one = launches_.kernel_node(last).config, &other = launches_.kernel_node(i).config;
    if (!(one.grid == other.grid && one.block == other.block) || !follows_by_block(stack, i)) return false;
    const auto waits = [&](NodeId earlier) {
      if (stack_of_[earlier] == stack_of_[last]) return false;
      if (options_.waits_for_nothing_else) return !comes_before(earlier, stack.front());
      return ends_[earlier] > starts_[stack.front()];
    };
    const std::vector<NodeId>& after = nodes_.nodes[i].after;
    if (std::any_of(after.begin(), after.end(), waits)) {
      notes_[i] = "it waits for launches that may end after the one before it begins";
      return false;
    }
    const Status can = kernels_[last]->can_be_followed();
    if (!can.ok()) notes_[last] = can.message();
    return can.ok();
  }

  // By a chain of edges. Nodes come after what they depend on.
  bool comes_before(NodeId earlier, std::size_t later) const {
    if (earlier >= later) return false;
    std::vector<bool> before(later + 1, false);
    before[later] = true;
    for (std::size_t i = later; i > earlier; --i) {
      if (!before[i]) continue;
      for (const NodeId parent : nodes_.nodes[i].after) before[parent] = true;
    }
    return before[earlier];
  }

  // With the gap that may be before them.
  std::size_t parameter_bytes(std::size_t i) const {
    const transform::MergedLayout layout =
        transform::merged_layout(launches_.kernel_node(i).kernel->signature(), {.launches = 1});
    return layout.stride_bytes + layout.align_bytes - 1;
  }

  bool follows_by_block(std::span<const std::size_t> stack, std::size_t i) const {
    std::vector<analysis::ChainLaunch> launches;
    for (const std::size_t below : stack) launches.push_back(launches_.launch(below));
    launches.push_back(launches_.launch(i));
    // There are no others. But what reads anything may do so through a cache that is not coherent, as textures do.
    if (launches_.blocks(i) == 1)
      return std::all_of(launches.begin(), launches.end(), [](const analysis::ChainLaunch& launch) {
        return launch.footprint != nullptr && !launch.footprint->reads_anything && !launch.footprint->writes_anything &&
               !launch.footprint->may_wait;
      });
    analysis::ColumnOptions columns;
    columns.most_blocks_of_column = 1;
    columns.most_blocks = kMostBlocks;
    columns.cache = options_.cache;
    return analysis::find_columns(launches, columns)[0].count == launches.size();
  }

  void add(const std::vector<std::size_t>& stack) {
    if (stack.size() > 1) {
      Result<KernelNode> work = stacked(stack);
      if (work.ok()) return append(stack, std::move(*work));
      for (const std::size_t i : stack) reason(i) = work.message();
    }
    for (const std::size_t& i : stack) {
      if (reason(i).empty())
        reason(i) = notes_[i].empty() ? "its blocks do not follow those of another launch one by one" : notes_[i];
      append(std::span(&i, 1), nodes_.nodes[i].work);
    }
  }

  // The launches as one node.
  template <typename Work>
  void append(std::span<const std::size_t> launches, Work work) {
    const auto id = static_cast<NodeId>(result_.spec.nodes.size());
    device::GraphNode node;
    node.work = std::move(work);
    std::vector<NodeId>& members = result_.members.emplace_back();
    for (const std::size_t i : launches) {
      places_[i] = id;
      members.push_back(order_[i]);
      for (const NodeId earlier : nodes_.nodes[i].after)
        if (places_[earlier] != id &&
            std::find(node.after.begin(), node.after.end(), places_[earlier]) == node.after.end())
          node.after.push_back(places_[earlier]);
    }
    result_.stacks += launches.size() > 1;
    result_.spec.nodes.push_back(std::move(node));
  }

  // What no launch of the stack writes is constant as long as it runs: who else writes it comes before or after.
  std::vector<std::vector<std::uint32_t>> constant_lines(std::span<const std::size_t> stack) const {
    device::GraphSpec alone;
    std::vector<std::shared_ptr<BlockKernel>> kernels;
    for (const std::size_t i : stack) {
      alone.nodes.push_back({nodes_.nodes[i].work, {}, std::nullopt});
      kernels.push_back(kernels_[i]);
    }
    const ChainLaunches launches(alone, kernels, allocations_, true, options_.cache);
    std::vector<std::vector<std::uint32_t>> lines;
    for (std::size_t k = 0; k < stack.size(); ++k) lines.push_back(launches.constant_lines(k));
    return lines;
  }

  Result<KernelNode> stacked(std::span<const std::size_t> stack) {
    StackedKernels::Parts parts;
    const std::vector<std::vector<std::uint32_t>> lines = constant_lines(stack);
    KernelNode node;
    node.config = launches_.kernel_node(stack[0]).config;
    for (std::size_t k = 0; k < stack.size(); ++k) {
      parts.emplace_back(kernels_[stack[k]], lines[k]);
      node.config.dynamic_shared_bytes =
          std::max(node.config.dynamic_shared_bytes, launches_.kernel_node(stack[k]).config.dynamic_shared_bytes);
    }
    PERGOLA_ASSIGN(const BlockKernel::Form form, stacked_.form(device_, parts, node.config.block));
    const ptx::KernelSignature& signature = form.kernel->signature();
    PERGOLA_CHECK(signature.parameters.size() == stack.size());
    const std::uint64_t shared_bytes = std::uint64_t{signature.static_shared_bytes} + node.config.dynamic_shared_bytes;
    if (shared_bytes > device_.info().max_shared_bytes_per_block)
      return PERGOLA_ERROR(kResourceExhausted, "as one launch they need {} bytes of shared memory, and a block has {}",
                           shared_bytes, device_.info().max_shared_bytes_per_block);
    const std::uint32_t most = form.kernel->resources().max_threads_per_block;
    if (most != 0 && node.config.block.count() > most)
      return PERGOLA_ERROR(kResourceExhausted, "as one launch they run in blocks of {} threads at most, not {}", most,
                           node.config.block.count());
    node.module = form.module, node.kernel = form.kernel;
    node.parameters.resize(signature.parameter_bytes);
    for (std::size_t k = 0; k < stack.size(); ++k) {
      const std::vector<std::byte>& own = launches_.kernel_node(stack[k]).parameters;
      std::copy(own.begin(), own.end(), node.parameters.begin() + signature.parameters[k].offset_bytes);
    }
    return node;
  }

  device::Device& device_;
  const StackedOptions& options_;
  StackedKernels own_stacked_;
  StackedKernels& stacked_;
  // All that follows is by place in this order, but for what the result has.
  const std::vector<NodeId> order_;
  const device::GraphSpec nodes_;
  const std::vector<std::shared_ptr<BlockKernel>> kernels_;
  const std::span<const BlockAllocation> allocations_;
  const ChainLaunches launches_;
  std::vector<double> starts_, ends_;
  std::vector<std::vector<std::size_t>> stacks_;  // of one launch or more, by their first
  std::vector<std::size_t> stack_of_;
  std::vector<std::string> notes_;  // why there is no stack of it, and another could have been
  std::vector<NodeId> places_;      // which node of the result's spec it is, or is part of
  LoweredStacked result_;
};

}  // namespace

Result<BlockKernel::Form> StackedKernels::form(device::Device& device, const Parts& parts, const device::Dim3& block) {
  return known_.form(parts, block, [&](const Parts& of, const auto& threads) { return stack(device, of, threads); });
}

Result<LoweredStacked> lower_stacked(device::Device& device, const device::GraphSpec& plain,
                                     std::span<const std::shared_ptr<BlockKernel>> kernels,
                                     std::span<const BlockAllocation> allocations, const StackedOptions& options) {
  PERGOLA_CHECK(kernels.size() == plain.nodes.size());
  return Stacking(device, plain, kernels, allocations, options).run();
}

}  // namespace pergola::runtime
