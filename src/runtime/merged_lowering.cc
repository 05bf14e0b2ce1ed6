#include "src/runtime/merged_lowering.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "src/base/check.h"
#include "src/device/graph_order.h"

namespace pergola::runtime {
namespace {

using device::KernelNode;
using device::NodeId;

// By node: nodes before it on the longest way from a root.
std::vector<std::uint32_t> depths_of(const device::GraphSpec& plain) {
  std::vector<std::uint32_t> depths(plain.nodes.size());
  for (std::size_t i = 0; i < depths.size(); ++i) {
    PERGOLA_CHECK(!plain.nodes[i].early_after);
    for (const NodeId earlier : plain.nodes[i].after) depths[i] = std::max(depths[i], depths[earlier] + 1);
  }
  return depths;
}

// Launches of one kernel that may be one in layers, as they are added.
struct Layers {
  std::vector<NodeId> launches;
  device::Dim3 most{0, 0, 0};  // of their grids, by axis
  std::uint64_t blocks = 0;    // of all
  bool same_grids = true;

  Layers with(NodeId launch, const device::Dim3& grid) const {
    Layers made = *this;
    made.same_grids = launches.empty() || (same_grids && grid == most);
    made.launches.push_back(launch);
    made.most = {std::max(most.x, grid.x), std::max(most.y, grid.y), std::max(most.z, grid.z)};
    made.blocks += grid.count();
    return made;
  }
  std::uint64_t layers() const { return std::uint64_t{most.z} * launches.size(); }
  std::uint64_t merged_blocks() const { return most.count() * launches.size(); }
  transform::MergedShape shape() const {
    return {.launches = static_cast<std::uint32_t>(launches.size()), .deep = most.z > 1, .bounded = !same_grids};
  }
};

class LaunchMerging {
 public:
  LaunchMerging(device::Device& device, const device::GraphSpec& plain,
                std::span<const std::shared_ptr<BlockKernel>> kernels, const MergedOptions& options)
      : device_(device),
        plain_(plain),
        kernels_(kernels),
        options_(options),
        nodes_(device, options.joined == nullptr ? own_joined_ : *options.joined, options.most_parameter_bytes) {
    PERGOLA_CHECK(kernels.size() == plain.nodes.size());
  }

  Result<LoweredMerged> run() {
    result_.plain_reasons.resize(plain_.nodes.size());
    merged_.resize(plain_.nodes.size(), kNone);
    if (options_.different_kernels)
      merge_kernels();
    else
      for (const auto& [key, launches] : alike()) merge_in_layers(launches, std::string(kAlone));
    result_.places.resize(plain_.nodes.size());
    build();
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::string_view kAlone =
      "no other launch of its kernel in blocks like its own is as deep in the graph";

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

  AlikeLaunches borrowed(const std::vector<NodeId>& launches) const {
    AlikeLaunches made{kernels_[launches[0]], {}};
    for (const NodeId node : launches) made.works.push_back(&launch(node));
    return made;
  }

  // ---- In layers: of one kernel

  // "": it fits.
  std::string why_apart(const Layers& layers) const {
    if (static_cast<double>(layers.merged_blocks()) > options_.most_blocks * static_cast<double>(layers.blocks))
      return fmt::format(
          "grids of its kernel's launches differ so much that one of all has more than {} times the blocks",
          options_.most_blocks);
    const auto& signature = launch(layers.launches[0]).kernel->signature();
    const std::size_t bytes = transform::merged_layout(signature, layers.shape()).stride_bytes;
    if (layers.launches.size() * bytes > options_.most_parameter_bytes)
      return fmt::format("its parameters and those of another launch are more than {} bytes",
                         options_.most_parameter_bytes);
    if (layers.layers() > device_.info().max_grid.z) return "one grid cannot have so many layers";
    return {};
  }

  // Larger grids first, so that grids of about one size are neighbours.
  void merge_in_layers(std::vector<NodeId> launches, std::string why_alone) {
    const auto size = [&](NodeId node) {
      const device::Dim3& grid = launch(node).config.grid;
      return std::tuple(grid.z, grid.y, grid.x);
    };
    std::sort(launches.begin(), launches.end(),
              [&](NodeId a, NodeId b) { return size(a) != size(b) ? size(a) > size(b) : a < b; });
    Layers layers;
    for (const NodeId node : launches) {
      const device::Dim3& grid = launch(node).config.grid;
      Layers larger = layers.with(node, grid);
      std::string apart = layers.launches.empty() ? std::string() : why_apart(larger);
      if (apart.empty()) {
        layers = std::move(larger);
        continue;
      }
      add_layers(std::move(layers.launches), apart);
      why_alone = std::move(apart);
      layers = Layers().with(node, grid);
    }
    add_layers(std::move(layers.launches), why_alone);
  }

  void add_layers(std::vector<NodeId> launches, const std::string& why_alone) {
    if (launches.size() == 1) {
      result_.plain_reasons[launches[0]] = why_alone;
      return;
    }
    std::sort(launches.begin(), launches.end());
    Result<MergedNodes::Layered> node = nodes_.in_layers(borrowed(launches));
    if (node.ok()) return add_group({launches, 0, false, node->shape}, std::move(node->work));
    for (const NodeId each : launches) result_.plain_reasons[each] = node.message();
  }

  void add_group(MergedGroup group, KernelNode work) {
    std::sort(group.launches.begin(), group.launches.end());
    for (const NodeId node : group.launches) merged_[node] = result_.groups.size();
    works_.push_back(std::move(work));
    result_.groups.push_back(std::move(group));
  }

  // ---- In a row: of several kernels

  using Parts = std::vector<std::vector<NodeId>>;  // launches that are alike

  void merge_kernels() {
    using Shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // depth, block
    std::map<Shape, Parts> all;
    for (auto& [key, launches] : alike()) {
      const device::Dim3& block = launch(launches[0]).config.block;
      all[{std::get<0>(key), block.x, block.y, block.z}].push_back(std::move(launches));
    }
    for (auto& [shape, parts] : all) {
      Parts row;
      std::size_t bytes = 0;
      for (std::vector<NodeId>& part : parts) {
        if (const Status can = MergedNodes::can_be_in_a_row(borrowed(part)); !can.ok()) {
          merge_in_layers(part, can.message());
          continue;
        }
        const std::size_t own = MergedNodes::row_bytes(borrowed(part));
        if (row.size() == options_.most_kernels || bytes + own > options_.most_parameter_bytes) {
          merge_in_a_row(std::exchange(row, {}));
          bytes = 0;
        }
        bytes += own;
        row.push_back(std::move(part));
      }
      merge_in_a_row(row);
    }
  }

  // One kernel whose grids are equal is better off in layers, and so is each where they cannot be one.
  void merge_in_a_row(const Parts& row) {
    if (row.empty()) return;
    std::string why(row.size() == 1 ? kAlone : "no other launch in blocks like its own is as deep in the graph");
    if (row.size() == 1 && (row[0].size() == 1 || has_same_grids(row[0]))) return merge_in_layers(row[0], why);
    std::vector<NodeId> launches;
    std::vector<AlikeLaunches> parts;
    for (const std::vector<NodeId>& part : row) {
      launches.insert(launches.end(), part.begin(), part.end());
      parts.push_back(borrowed(part));
    }
    Result<KernelNode> node = nodes_.in_a_row(parts);
    if (node.ok() && node->parameters.size() <= options_.most_parameter_bytes)
      return add_group({std::move(launches), 0, true, {}}, std::move(*node));
    if (!node.ok()) why = node.message();
    for (const std::vector<NodeId>& part : row) merge_in_layers(part, why);
  }

  bool has_same_grids(const std::vector<NodeId>& launches) const {
    return std::all_of(launches.begin(), launches.end(),
                       [&](NodeId node) { return launch(node).config.grid == launch(launches[0]).config.grid; });
  }

  // ---- The graph

  // What a node of the plain graph is now: the first of its launches stands for a group.
  NodeId leader(NodeId node) const { return merged_[node] == kNone ? node : result_.groups[merged_[node]].launches[0]; }

  void build() {
    result_.spec.buffers = plain_.buffers;
    const std::size_t count = plain_.nodes.size();
    std::vector<NodeId> leaders(count);
    for (NodeId i = 0; i < count; ++i) leaders[i] = leader(i);
    std::vector<NodeId>& place = result_.places;
    for (const NodeId next : device::joined_order(plain_, leaders)) {
      place[next] = static_cast<NodeId>(result_.spec.nodes.size());
      std::vector<NodeId> before;
      const auto comes_after_its = [&](NodeId member) {
        for (const NodeId earlier : plain_.nodes[member].after) before.push_back(place[leaders[earlier]]);
      };
      if (merged_[next] == kNone)
        comes_after_its(next);
      else
        std::ranges::for_each(result_.groups[merged_[next]].launches, comes_after_its);
      append(next, std::move(before));
    }
    for (NodeId i = 0; i < count; ++i) place[i] = place[leader(i)];
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

  device::Device& device_;
  const device::GraphSpec& plain_;
  const std::span<const std::shared_ptr<BlockKernel>> kernels_;
  const MergedOptions& options_;
  JoinedKernels own_joined_;
  const MergedNodes nodes_;
  std::vector<std::size_t> merged_;         // by node of the plain graph: its group, or kNone
  std::vector<KernelNode> works_;           // by group
  std::vector<std::vector<bool>> reaches_;  // by node of the spec: what it comes after, near or far
  LoweredMerged result_;
};

}  // namespace

Result<LoweredMerged> lower_merged(device::Device& device, const device::GraphSpec& plain,
                                   std::span<const std::shared_ptr<BlockKernel>> kernels,
                                   const MergedOptions& options) {
  return LaunchMerging(device, plain, kernels, options).run();
}

}  // namespace pergola::runtime
