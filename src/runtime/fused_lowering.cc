#include "src/runtime/fused_lowering.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "src/abi/fused_step.h"
#include "src/analysis/block_columns.h"
#include "src/base/plural.h"
#include "src/ptx/printer.h"

namespace pergola::runtime {
namespace {

using abi::FusedParameters;
using abi::FusedStep;
using Body = BlockKernel::Body;

constexpr std::uint32_t kWarpThreads = 32;
constexpr std::uint32_t kSlotsBytes = kWarpThreads * sizeof(abi::TaskSlot);
// Of the table of one fused launch: it lies in shared memory, beside the blocks' own.
constexpr std::size_t kMostTableBytes = std::size_t{64} << 10;
// The same in columns, of which a multiprocessor is to hold many.
constexpr std::size_t kMostColumnTableBytes = std::size_t{8} << 10;
// In columns, launches that may run side by side have one share (FFT's two runs beside each other: 147 us where the
// driver chooses, 71 with 25 to 75 of 100; bench/blocks/README.md).
constexpr std::uint32_t kColumnSharedPercent = 50;

constexpr std::uint32_t rounded(std::uint32_t bytes, std::uint32_t to) {
  return (bytes + to - 1) / to * to;
}

struct Part {  // a launch as a step
  Body body;
  std::uint32_t warps = 0, named = 0, shared_bytes = 0;
  std::size_t table_bytes() const { return sizeof(FusedStep) + rounded(body->parameter_bytes, 16); }
};

std::uint64_t fixed_bytes(std::size_t table_bytes) {
  return kSlotsBytes + transform::fused_blocks_offset(static_cast<std::uint32_t>(table_bytes)) + 256;
}

Result<Part> part_of(BlockKernel& kernel, const device::LaunchConfig& config,
                     const std::vector<std::uint32_t>& constant_lines, std::uint64_t most_shared_bytes,
                     const FusedOptions& options) {
  const auto threads = static_cast<std::uint32_t>(config.block.count());
  Part part;
  part.warps = (threads + kWarpThreads - 1) / kWarpThreads;
  const std::uint64_t all = config.grid.count() * part.warps;
  const std::uint64_t room = std::uint64_t{options.blocks} * options.most_warps;
  if (part.warps > options.most_warps || (!options.columns && all > room * options.most_waves))
    return PERGOLA_ERROR(kUnsupported, "its {} warps are too many for {} of {}", all, plural(options.blocks, "block"),
                         options.most_warps);
  const bool is_one_warp = part.warps == 1;
  PERGOLA_ASSIGN(part.body, kernel.fused_body(is_one_warp, constant_lines));
  part.named = is_one_warp ? 0 : transform::fused_named_barriers(*part.body);
  if (!is_one_warp && !part.body->barriers.empty() && threads % kWarpThreads != 0)
    return PERGOLA_ERROR(kUnsupported, "its blocks of {} meet at barriers, and end within a warp",
                         plural(threads, "thread"));
  const std::uint32_t own = part.body->dynamic_shared_offset + config.dynamic_shared_bytes;
  part.shared_bytes = rounded(own, std::max(part.body->shared_align_bytes, 16u));
  if (fixed_bytes(kMostTableBytes) + part.shared_bytes > most_shared_bytes)
    return PERGOLA_ERROR(kUnsupported, "its blocks have {} of shared memory, which a fused kernel has not",
                         plural(own, "byte"));
  return part;
}

class Fusing {
 public:
  Fusing(device::Device& device, const device::GraphSpec& plain, std::span<const std::shared_ptr<BlockKernel>> kernels,
         std::span<const BlockAllocation> allocations, const FusedOptions& options)
      : device_(device),
        plain_(plain),
        options_(options),
        launches_(plain, kernels, allocations, options.columns, options.cache) {}

  Result<LoweredFused> run() {
    std::vector<analysis::ChainLaunch> launches;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      result_.plain_reasons.push_back(look_at(i));
      launches.push_back(launches_.launch(i));
    }
    if (options_.columns)
      find_columns(launches);
    else
      find_barriers(launches);
    result_.spec.buffers = plain_.buffers;
    for (std::size_t i = 0; i < launches_.size();) {
      const std::size_t count = options_.columns ? runs_[i].count : run_from(i);
      if (count < std::max<std::size_t>(options_.shortest, 1)) {
        for (std::size_t k = i; k < i + std::max<std::size_t>(count, 1); ++k) {
          if (result_.plain_reasons[k].empty())
            result_.plain_reasons[k] = options_.columns ? "it has no columns with the launches before and after it"
                                                        : "too few launches in a row can be fused";
          keep(k);
        }
        i += std::max<std::size_t>(count, 1);
        continue;
      }
      PERGOLA_TRY(fuse(i, count));
      i += count;
    }
    return std::move(result_);
  }

 private:
  std::uint32_t cluster() const { return options_.blocks; }

  // Why it stays a launch; "": it has a part.
  std::string look_at(std::size_t node) {
    parts_.emplace_back();
    const std::string& reason = launches_.plain_reason(node);
    if (!reason.empty()) return reason;
    Result<Part> part = part_of(launches_.kernel(node), launches_.kernel_node(node).config,
                                launches_.constant_lines(node), device_.info().max_shared_bytes_per_block, options_);
    if (!part.ok()) return part.message();
    parts_.back() = std::move(*part);
    return {};
  }

  // steps_: which launches wait for those before them.
  void find_barriers(std::span<const analysis::ChainLaunch> launches) {
    analysis::ChainOptions chain;
    chain.by_block = false;
    chain.cache = options_.cache;
    chain.most_running = ~std::uint32_t{0};
    steps_ = analysis::plan_chain(launches, chain);
  }

  // runs_, by first launch.
  void find_columns(std::span<const analysis::ChainLaunch> launches) {
    analysis::ColumnOptions options;
    options.shortest = options_.shortest;
    options.cache = options_.cache;
    options.may_join = [this](std::size_t first, std::size_t last) {
      std::size_t bytes = 0;
      for (std::size_t k = first; k <= last; ++k) {
        if (!result_.plain_reasons[k].empty()) return false;
        bytes += parts_[k].table_bytes();
      }
      return bytes <= kMostColumnTableBytes;
    };
    runs_.resize(launches.size());
    for (const analysis::ColumnRun& run : analysis::find_columns(launches, options)) runs_[run.first] = run;
  }

  // How many launches from `first` on can be one.
  std::size_t run_from(std::size_t first) const {
    std::size_t bytes = 0, end = first;
    for (; end < launches_.size() && result_.plain_reasons[end].empty(); ++end) {
      bytes += parts_[end].table_bytes();
      if (bytes > kMostTableBytes) break;
    }
    return end - first;
  }

  device::NodeId new_id(device::NodeId old) const { return new_ids_.at(old); }

  void add_after(device::GraphNode& node, const std::vector<device::NodeId>& after, std::size_t below) const {
    for (const device::NodeId old : after) {
      if (old >= below) continue;
      const device::NodeId id = new_id(old);
      if (std::find(node.after.begin(), node.after.end(), id) == node.after.end()) node.after.push_back(id);
    }
  }

  void keep(std::size_t i) {
    device::GraphNode node = plain_.nodes[i];
    const std::vector<device::NodeId> after(node.after.begin(), node.after.end());
    node.after.clear();
    add_after(node, after, i);
    new_ids_.push_back(static_cast<device::NodeId>(result_.spec.nodes.size()));
    result_.spec.nodes.push_back(std::move(node));
  }

  // Blocks of part i that a block of the fused launch runs, at most.
  std::uint32_t blocks_of_each(std::size_t i, const FusedSegment& segment) const {
    const std::uint32_t among = options_.columns ? segment.columns : segment.shape.blocks;
    return (launches_.blocks(i) + among - 1) / among;
  }

  // The same at once.
  std::uint32_t groups_of(std::size_t i, const FusedSegment& segment, std::size_t table_bytes) const {
    const Part& part = parts_[i];
    std::uint32_t groups = std::min(blocks_of_each(i, segment), segment.shape.warps / part.warps);
    if (part.named != 0) groups = std::min(groups, transform::kFusedNamedBarriers / part.named);
    if (part.shared_bytes != 0) {
      const std::uint64_t room = device_.info().max_shared_bytes_per_block - fixed_bytes(table_bytes);
      groups = static_cast<std::uint32_t>(std::min<std::uint64_t>(groups, room / part.shared_bytes));
    }
    return std::max(groups, 1u);
  }

  FusedSegment segment_of(std::size_t first, std::size_t count) const {
    FusedSegment segment{first, count, {}, 0, 0};
    std::uint32_t most_blocks = 1, warps = 1;
    for (std::size_t i = first; i < first + count; ++i) most_blocks = std::max(most_blocks, launches_.blocks(i));
    if (options_.columns) {
      segment.columns = runs_[first].columns;
      segment.shape.columns =
          runs_[first].is_strided ? transform::FusedColumns::kStrided : transform::FusedColumns::kAdjacent;
    } else {
      segment.shape.blocks = std::min(cluster(), std::bit_ceil(most_blocks));
    }
    for (std::size_t i = first; i < first + count; ++i) {
      const std::uint32_t each = blocks_of_each(i, segment) * parts_[i].warps;
      warps = std::max({warps, parts_[i].warps, std::min(each, options_.most_warps)});
    }
    segment.shape.warps = warps;
    return segment;
  }

  Status fuse(std::size_t first, std::size_t count) {
    FusedSegment segment = segment_of(first, count);
    std::size_t table_bytes = 0;
    for (std::size_t i = first; i < first + count; ++i) table_bytes += parts_[i].table_bytes();
    std::vector<const transform::TaskBody*> bodies;
    std::vector<std::byte> table(table_bytes);
    std::uint64_t shared = 0;
    std::size_t parameters = count * sizeof(FusedStep);
    device::GraphNode node;
    for (std::size_t i = first; i < first + count; ++i) {
      const Part& part = parts_[i];
      const device::KernelNode& work = launches_.kernel_node(i);
      auto number = static_cast<std::size_t>(std::find(bodies.begin(), bodies.end(), part.body.get()) - bodies.begin());
      if (number == bodies.size()) bodies.push_back(part.body.get());
      FusedStep step{};
      step.body = static_cast<std::uint32_t>(number);
      step.blocks = options_.columns ? blocks_of_each(i, segment) : launches_.blocks(i);
      step.groups = groups_of(i, segment, table_bytes);
      step.warps = part.warps;
      step.block_x = work.config.block.x, step.block_y = work.config.block.y, step.block_z = work.config.block.z;
      step.threads = launches_.threads(i);
      step.grid_x = work.config.grid.x, step.grid_y = work.config.grid.y, step.grid_z = work.config.grid.z;
      step.shared_stride_bytes = part.shared_bytes;
      step.parameters = static_cast<std::uint32_t>(parameters);
      step.dynamic_shared_bytes = work.config.dynamic_shared_bytes;
      step.named = part.named;
      step.waits = i != first && (options_.columns || steps_[i].waits_for_all) ? 1 : 0;
      segment.barriers += step.waits;
      shared = std::max(shared, std::uint64_t{step.groups} * part.shared_bytes);
      std::memcpy(table.data() + (i - first) * sizeof step, &step, sizeof step);
      std::memcpy(table.data() + parameters, work.parameters.data(),
                  std::min<std::size_t>(work.parameters.size(), part.body->parameter_bytes));
      parameters += part.table_bytes() - sizeof step;
      add_after(node, {plain_.nodes[i].after.begin(), plain_.nodes[i].after.end()}, first);
    }
    PERGOLA_ASSIGN(device::KernelNode work, compiled(bodies, segment.shape));
    work.config.grid = {options_.columns ? segment.columns : segment.shape.blocks, 1, 1};
    work.config.block = {kWarpThreads * segment.shape.warps, 1, 1};
    work.config.dynamic_shared_bytes =
        transform::fused_blocks_offset(static_cast<std::uint32_t>(table_bytes)) + static_cast<std::uint32_t>(shared);
    PERGOLA_ASSIGN(const device::BufferPtr memory, on_device(table));
    const FusedParameters values{memory->address(), static_cast<std::uint32_t>(table_bytes),
                                 static_cast<std::uint32_t>(count)};
    work.parameters.resize(sizeof values);
    std::memcpy(work.parameters.data(), &values, sizeof values);
    node.work = std::move(work);
    new_ids_.insert(new_ids_.end(), count, static_cast<device::NodeId>(result_.spec.nodes.size()));
    result_.spec.nodes.push_back(std::move(node));
    result_.spec.buffers.push_back(memory);
    result_.memory_bytes += memory->size_bytes();
    result_.segments.push_back(segment);
    return {};
  }

  Result<device::KernelNode> compiled(const std::vector<const transform::TaskBody*>& bodies,
                                      const transform::FusedShape& shape) {
    const auto known = std::find_if(compiled_.begin(), compiled_.end(),
                                    [&](const auto& one) { return one.bodies == bodies && one.shape == shape; });
    if (known != compiled_.end()) return known->work;
    PERGOLA_ASSIGN(const ptx::Module module, transform::fused_chain(bodies, shape));
    const std::string text = ptx::print(module);
    device::KernelNode work;
    PERGOLA_ASSIGN(work.module, device_.load({.module = &module,
                                              .text = text,
                                              .name = "fused launches",
                                              .shared_memory_percent = options_.columns ? kColumnSharedPercent : 0}));
    PERGOLA_ASSIGN(work.kernel, work.module->kernel(transform::kFusedKernel));
    compiled_.push_back({bodies, shape, work});
    return work;
  }

  Result<device::BufferPtr> on_device(std::span<const std::byte> table) {
    PERGOLA_ASSIGN(device::BufferPtr memory, device_.allocate(table.size(), device::MemoryKind::kDevice));
    PERGOLA_ASSIGN(const std::unique_ptr<device::Queue> queue, device_.create_queue());
    PERGOLA_TRY(queue->copy_to_device(memory, 0, table));
    PERGOLA_TRY(queue->synchronize());
    return memory;
  }

  struct Compiled {
    std::vector<const transform::TaskBody*> bodies;
    transform::FusedShape shape;
    device::KernelNode work;
  };

  device::Device& device_;
  const device::GraphSpec& plain_;
  const FusedOptions& options_;
  ChainLaunches launches_;
  std::vector<Part> parts_;                 // by node
  std::vector<analysis::ChainStep> steps_;  // where there are no columns
  std::vector<analysis::ColumnRun> runs_;   // by first launch, where there are columns
  std::vector<device::NodeId> new_ids_;     // by node of the plain graph
  std::vector<Compiled> compiled_;
  LoweredFused result_;
};

}  // namespace

std::string why_not_fused(BlockKernel& kernel, const device::LaunchConfig& config,
                          const std::vector<std::uint32_t>& constant_lines, std::uint64_t most_shared_bytes,
                          const FusedOptions& options) {
  return part_of(kernel, config, constant_lines, most_shared_bytes, options).status().message();
}

Result<LoweredFused> lower_fused(device::Device& device, const device::GraphSpec& plain,
                                 std::span<const std::shared_ptr<BlockKernel>> kernels,
                                 std::span<const BlockAllocation> allocations, const FusedOptions& options) {
  if (!options.columns && options.blocks > 1 && options.blocks > device.info().max_cluster_blocks)
    return PERGOLA_ERROR(kUnsupported, "'{}' has no clusters of {} blocks for a fused kernel; it has {}.",
                         device.info().id, options.blocks, device.info().max_cluster_blocks);
  return Fusing(device, plain, kernels, allocations, options).run();
}

}  // namespace pergola::runtime
