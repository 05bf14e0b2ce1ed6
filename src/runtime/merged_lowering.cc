#include "src/runtime/merged_lowering.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

#include "src/base/check.h"

namespace pergola::runtime {
namespace {

using device::KernelNode;
using device::NodeId;
using transform::MergedHeader;
using transform::MergedLayout;
using transform::MergedShape;

// By node: nodes before it on the longest way from a root.
std::vector<std::uint32_t> depths_of(const device::GraphSpec& plain) {
  std::vector<std::uint32_t> depths(plain.nodes.size());
  for (std::size_t i = 0; i < depths.size(); ++i) {
    PERGOLA_CHECK(!plain.nodes[i].early_after);
    for (const NodeId earlier : plain.nodes[i].after) depths[i] = std::max(depths[i], depths[earlier] + 1);
  }
  return depths;
}

// Launches that may become one, as they are added.
struct Merge {
  std::vector<NodeId> launches;
  device::Dim3 most{0, 0, 0};  // of their grids, by axis
  std::uint64_t blocks = 0;    // of all
  bool same_grids = true;

  Merge with(NodeId launch, const device::Dim3& grid) const {
    Merge made = *this;
    made.same_grids = launches.empty() || (same_grids && grid == most);
    made.launches.push_back(launch);
    made.most = {std::max(most.x, grid.x), std::max(most.y, grid.y), std::max(most.z, grid.z)};
    made.blocks += grid.count();
    return made;
  }
  std::uint64_t layers() const { return std::uint64_t{most.z} * launches.size(); }
  std::uint64_t merged_blocks() const { return most.count() * launches.size(); }
  MergedShape shape() const {
    return {.launches = static_cast<std::uint32_t>(launches.size()), .deep = most.z > 1, .bounded = !same_grids};
  }
};

class LaunchMerging {
 public:
  LaunchMerging(const device::DeviceInfo& info, const device::GraphSpec& plain,
                std::span<const std::shared_ptr<BlockKernel>> kernels, const MergedOptions& options)
      : info_(info), plain_(plain), kernels_(kernels), options_(options) {
    PERGOLA_CHECK(kernels.size() == plain.nodes.size());
  }

  Result<LoweredMerged> run() {
    result_.plain_reasons.resize(plain_.nodes.size());
    merged_.resize(plain_.nodes.size(), kNone);
    for (const auto& [key, launches] : alike()) merge_of(launches);
    if (result_.groups.empty())
      result_.spec = plain_;
    else
      build();
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  const KernelNode& launch(NodeId node) const { return std::get<KernelNode>(plain_.nodes[node].work); }

  std::string why_plain(NodeId node) const {
    const auto* const work = std::get_if<KernelNode>(&plain_.nodes[node].work);
    if (work == nullptr) return "it is no kernel launch";
    if (kernels_[node] == nullptr) return "its kernel's PTX is not known, or its parameters change";
    const device::LaunchConfig& config = work->config;
    if (config.cooperative || config.programmatic || !(config.cluster == device::Dim3{0, 0, 0}))
      return "it is launched as a cooperative grid, in clusters or early";
    return {};
  }

  // Launches that are alike in all but grid and parameters, by depth, as in the graph.
  using Key = std::tuple<std::uint32_t, NodeId>;  // depth, the first of them
  std::map<Key, std::vector<NodeId>> alike() {
    const std::vector<std::uint32_t> depths = depths_of(plain_);
    std::map<Key, std::vector<NodeId>> groups;
    for (NodeId i = 0; i < plain_.nodes.size(); ++i) {
      result_.plain_reasons[i] = why_plain(i);
      if (!result_.plain_reasons[i].empty()) continue;
      auto group = groups.lower_bound({depths[i], 0});
      while (group != groups.end() && std::get<0>(group->first) == depths[i] && !is_alike(group->second[0], i)) ++group;
      if (group == groups.end() || std::get<0>(group->first) != depths[i])
        groups[{depths[i], i}] = {i};
      else
        group->second.push_back(i);
    }
    return groups;
  }

  bool is_alike(NodeId a, NodeId b) const {
    const KernelNode &one = launch(a), &other = launch(b);
    return kernels_[a] == kernels_[b] && one.module == other.module && one.kernel == other.kernel &&
           one.config.block == other.config.block &&
           one.config.dynamic_shared_bytes == other.config.dynamic_shared_bytes;
  }

  MergedLayout layout(const Merge& merge) const {
    return transform::merged_layout(launch(merge.launches[0]).kernel->signature(), merge.shape());
  }

  // "": it fits.
  std::string why_apart(const Merge& merge) const {
    if (static_cast<double>(merge.merged_blocks()) > options_.most_blocks * static_cast<double>(merge.blocks))
      return fmt::format(
          "grids of its kernel's launches differ so much that one of all has more than {} times the blocks",
          options_.most_blocks);
    if (merge.launches.size() * layout(merge).stride_bytes > options_.most_parameter_bytes)
      return fmt::format("its parameters and those of another launch are more than {} bytes",
                         options_.most_parameter_bytes);
    if (merge.layers() > info_.max_grid.z) return "one grid cannot have so many layers";
    return {};
  }

  // Larger grids first, so that grids of about one size are neighbours.
  void merge_of(std::vector<NodeId> launches) {
    const auto size = [&](NodeId node) {
      const device::Dim3& grid = launch(node).config.grid;
      return std::tuple(grid.z, grid.y, grid.x);
    };
    std::stable_sort(launches.begin(), launches.end(), [&](NodeId a, NodeId b) { return size(a) > size(b); });
    std::string why = "no other launch of its kernel in blocks like its own is as deep in the graph";
    Merge merge;
    for (const NodeId node : launches) {
      const device::Dim3& grid = launch(node).config.grid;
      Merge larger = merge.with(node, grid);
      std::string apart = merge.launches.empty() ? std::string() : why_apart(larger);
      if (apart.empty()) {
        merge = std::move(larger);
        continue;
      }
      add(std::move(merge), apart);
      why = std::move(apart);
      merge = Merge().with(node, grid);
    }
    add(std::move(merge), why);
  }

  void add(Merge merge, const std::string& why_alone) {
    Status status;
    if (merge.launches.size() == 1)
      result_.plain_reasons[merge.launches[0]] = why_alone;
    else if (status = compile(merge); !status.ok())
      for (const NodeId node : merge.launches) result_.plain_reasons[node] = status.message();
  }

  Status compile(const Merge& merge) {
    const MergedLayout layout = this->layout(merge);
    MergedShape shape = merge.shape();
    // Few sizes, so that few kernels are compiled.
    shape.launches = std::min(std::bit_ceil(shape.launches), options_.most_parameter_bytes / layout.stride_bytes);
    const NodeId first = *std::min_element(merge.launches.begin(), merge.launches.end());
    PERGOLA_ASSIGN(const BlockKernel::Form form, kernels_[first]->merged(shape));
    KernelNode work{form.module, form.kernel, launch(first).config, {}};
    const std::uint32_t most = form.kernel->resources().max_threads_per_block;
    if (most != 0 && work.config.block.count() > most)
      return PERGOLA_ERROR(kResourceExhausted,
                           "Kernel '{}' of several launches runs in blocks of {} threads at most, not {}.",
                           form.kernel->signature().name, most, work.config.block.count());
    work.config.grid = {merge.most.x, merge.most.y, static_cast<std::uint32_t>(merge.layers())};
    work.parameters.resize(form.kernel->signature().parameter_bytes);
    MergedGroup group{merge.launches, 0};
    std::sort(group.launches.begin(), group.launches.end());
    for (std::size_t n = 0; n < group.launches.size(); ++n) {
      const KernelNode& one = launch(group.launches[n]);
      std::byte* const at = work.parameters.data() + n * layout.stride_bytes;
      const MergedHeader header{one.config.grid.x, one.config.grid.y, one.config.grid.z, merge.most.z};
      if (shape.has_header()) std::memcpy(at, &header, sizeof header);
      std::copy(one.parameters.begin(), one.parameters.end(), at + layout.parameters_offset);
      merged_[group.launches[n]] = result_.groups.size();
    }
    works_.push_back(std::move(work));
    result_.groups.push_back(std::move(group));
    return {};
  }

  // ---- The graph

  // What a node of the plain graph is now: the first of its launches stands for a group.
  NodeId leader(NodeId node) const { return merged_[node] == kNone ? node : result_.groups[merged_[node]].launches[0]; }

  void build() {
    result_.spec.buffers = plain_.buffers;
    const std::size_t count = plain_.nodes.size();
    std::vector<std::vector<NodeId>> after(count);  // by leader, leaders, each once
    for (NodeId i = 0; i < count; ++i)
      for (const NodeId earlier : plain_.nodes[i].after) after[leader(i)].push_back(leader(earlier));
    std::vector<std::size_t> missing(count);
    std::vector<std::vector<NodeId>> children(count);
    std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;  // as in the plain graph where they can be
    for (NodeId i = 0; i < count; ++i) {
      std::sort(after[i].begin(), after[i].end());
      after[i].erase(std::unique(after[i].begin(), after[i].end()), after[i].end());
      missing[i] = after[i].size();
      for (const NodeId earlier : after[i]) children[earlier].push_back(i);
      if (leader(i) == i && missing[i] == 0) ready.push(i);
    }
    std::vector<NodeId> place(count);
    while (!ready.empty()) {
      const NodeId next = ready.top();
      ready.pop();
      place[next] = static_cast<NodeId>(result_.spec.nodes.size());
      std::vector<NodeId> before;
      for (const NodeId earlier : after[next]) before.push_back(place[earlier]);
      append(next, std::move(before));
      for (const NodeId child : children[next])
        if (--missing[child] == 0) ready.push(child);
    }
    std::size_t gone = 0;
    for (const MergedGroup& group : result_.groups) gone += group.launches.size() - 1;
    PERGOLA_CHECK(result_.spec.nodes.size() + gone == count);
  }

  // `before`: nodes of the spec, without order.
  void append(NodeId plain, std::vector<NodeId> before) {
    device::GraphNode node;
    if (merged_[plain] == kNone) {
      node.work = plain_.nodes[plain].work;
    } else {
      node.work = std::move(works_[merged_[plain]]);
      result_.groups[merged_[plain]].node = static_cast<NodeId>(result_.spec.nodes.size());
    }
    // Later ones first: what one of them comes after is implied.
    std::sort(before.begin(), before.end(), std::greater<>());
    std::vector<bool> reached(result_.spec.nodes.size());
    for (const NodeId earlier : before) {
      if (reached[earlier]) continue;
      node.after.push_back(earlier);
      reached[earlier] = true;
      for (std::size_t k = 0; k < earlier; ++k)
        if (reaches_[earlier][k]) reached[k] = true;
    }
    std::reverse(node.after.begin(), node.after.end());
    reaches_.push_back(std::move(reached));
    result_.spec.nodes.push_back(std::move(node));
  }

  const device::DeviceInfo& info_;
  const device::GraphSpec& plain_;
  const std::span<const std::shared_ptr<BlockKernel>> kernels_;
  const MergedOptions& options_;
  std::vector<std::size_t> merged_;         // by node of the plain graph: its group, or kNone
  std::vector<KernelNode> works_;           // by group
  std::vector<std::vector<bool>> reaches_;  // by node of the spec: what it comes after, near or far
  LoweredMerged result_;
};

}  // namespace

Result<LoweredMerged> lower_merged(const device::DeviceInfo& info, const device::GraphSpec& plain,
                                   std::span<const std::shared_ptr<BlockKernel>> kernels,
                                   const MergedOptions& options) {
  return LaunchMerging(info, plain, kernels, options).run();
}

}  // namespace pergola::runtime
