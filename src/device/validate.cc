#include "src/device/validate.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string>

#include "src/base/plural.h"

namespace pergola::device {
namespace {

Status validate_extent(std::string_view kernel, std::string_view what, const Dim3& dim, const Dim3& limit) {
  const std::array<std::uint32_t, 3> values{dim.x, dim.y, dim.z};
  const std::array<std::uint32_t, 3> limits{limit.x, limit.y, limit.z};
  for (std::size_t i = 0; i < 3; ++i) {
    if (values[i] >= 1 && values[i] <= limits[i]) continue;
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': {}.{} is {}; it must be from 1 to {}.", kernel, what, "xyz"[i],
                         values[i], limits[i]);
  }
  return {};
}

Status validate_block(const DeviceInfo& info, const Kernel& kernel, const LaunchConfig& config) {
  const ptx::KernelSignature& signature = kernel.signature();
  const std::uint64_t threads = config.block.count();
  if (threads > info.max_threads_per_block)
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': a block of {} has {} threads; '{}' takes at most {}.",
                         signature.name, to_string(config.block), threads, info.id, info.max_threads_per_block);
  if (signature.required_threads) {
    const auto& [x, y, z] = *signature.required_threads;
    if (config.block != Dim3{x, y, z})
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': the block is {}, and its .reqntid asks for exactly {}.",
                           signature.name, to_string(config.block), to_string(Dim3{x, y, z}));
  }
  if (signature.max_threads) {
    const auto& [x, y, z] = *signature.max_threads;
    if (threads > Dim3{x, y, z}.count())
      return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': a block of {} has {} threads; its .maxntid allows {}.",
                           signature.name, to_string(config.block), threads, Dim3{x, y, z}.count());
  }
  const std::uint32_t own = kernel.resources().max_threads_per_block;
  if (own != 0 && threads > own)
    return PERGOLA_ERROR(
        kResourceExhausted, "Kernel '{}': a block of {} has {} threads; with its {} registers a thread at most {} fit.",
        signature.name, to_string(config.block), threads, kernel.resources().registers_per_thread, own);
  return {};
}

Status validate_cluster(const DeviceInfo& info, const ptx::KernelSignature& signature, const LaunchConfig& config) {
  const Dim3& cluster = config.cluster;
  const bool wanted = cluster != Dim3{0, 0, 0};
  Dim3 effective = cluster;
  if (signature.required_cluster) {
    const auto& [x, y, z] = *signature.required_cluster;
    effective = {x, y, z};
    if (wanted && cluster != effective)
      return PERGOLA_ERROR(kInvalidArgument,
                           "Kernel '{}': the cluster is {}, and its .reqnctapercluster asks for exactly {}.",
                           signature.name, to_string(cluster), to_string(effective));
  } else if (!wanted) {
    return {};
  }
  if (info.max_cluster_blocks == 0)
    return PERGOLA_ERROR(kUnsupported, "Kernel '{}': '{}' has no thread block clusters, and {} is asked for.",
                         signature.name, info.id, to_string(effective));
  if (effective.count() == 0 || effective.count() > info.max_cluster_blocks)
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': a cluster of {} has {} blocks; it must be from 1 to {}.",
                         signature.name, to_string(effective), effective.count(), info.max_cluster_blocks);
  if (config.grid.x % effective.x != 0 || config.grid.y % effective.y != 0 || config.grid.z % effective.z != 0)
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}': the grid {} is not a multiple of the cluster {}.",
                         signature.name, to_string(config.grid), to_string(effective));
  return {};
}

Status validate_cooperative(const DeviceInfo& info, const Kernel& kernel, const LaunchConfig& config) {
  const auto threads = static_cast<std::uint32_t>(config.block.count());
  PERGOLA_ASSIGN(const std::uint32_t per_sm, kernel.max_resident_blocks_per_sm(threads, config.dynamic_shared_bytes));
  const std::uint64_t fit = std::uint64_t{per_sm} * info.sm_count;
  if (config.grid.count() <= fit) return {};
  return PERGOLA_ERROR(kResourceExhausted,
                       "Kernel '{}': a cooperative grid of {} has {} blocks, and only {} of {} threads with {} bytes "
                       "of dynamic shared memory are resident at once ({} on each of {} SMs); make the grid smaller.",
                       kernel.signature().name, to_string(config.grid), config.grid.count(), fit, threads,
                       config.dynamic_shared_bytes, per_sm, info.sm_count);
}

struct NodeCheck {
  const DeviceInfo& info;

  Status operator()(const KernelNode& node) const {
    if (node.module == nullptr || node.kernel == nullptr)
      return PERGOLA_ERROR(kInvalidArgument, "it has no {}.", node.module == nullptr ? "module" : "kernel");
    return validate_launch(info, *node.kernel, node.config, node.parameters.size());
  }
  Status operator()(const CopyNode& node) const {
    const auto validate_row = [&](const BufferPtr& destination, const BufferPtr& source, std::size_t size_bytes) {
      return validate_copy(destination.get(), node.destination_offset_bytes, source.get(), node.source_offset_bytes,
                           size_bytes);
    };
    PERGOLA_TRY(validate_row(node.destination, node.source, node.size_bytes));
    for (const CopyNode::Row& row : node.more_rows)
      PERGOLA_TRY(validate_row(row.destination, row.source, row.size_bytes));
    return {};
  }
  Status operator()(const FillNode& node) const {
    return validate_fill(node.destination.get(), node.offset_bytes, node.size_bytes, node.pattern, node.pattern_bytes);
  }
};

}  // namespace

std::string to_string(const Dim3& dim) {
  return fmt::format("({}, {}, {})", dim.x, dim.y, dim.z);
}

Status validate_extents(const DeviceInfo& info, std::string_view kernel, const LaunchConfig& config) {
  PERGOLA_TRY(validate_extent(kernel, "grid", config.grid, info.max_grid));
  return validate_extent(kernel, "block", config.block, info.max_block);
}

Status validate_launch(const DeviceInfo& info, const Kernel& kernel, const LaunchConfig& config,
                       std::size_t parameter_bytes) {
  const ptx::KernelSignature& signature = kernel.signature();
  if (parameter_bytes != signature.parameter_bytes)
    return PERGOLA_ERROR(kInvalidArgument, "Kernel '{}' takes {} of parameters ({} of them), and {} given.",
                         signature.name, plural(signature.parameter_bytes, "byte"), signature.parameters.size(),
                         plural(parameter_bytes, "is", "are"));
  PERGOLA_TRY(validate_extents(info, signature.name, config));
  PERGOLA_TRY(validate_block(info, kernel, config));
  PERGOLA_TRY(validate_cluster(info, signature, config));
  const std::uint64_t shared = std::uint64_t{signature.static_shared_bytes} + config.dynamic_shared_bytes;
  if (shared > info.max_shared_bytes_per_block)
    return PERGOLA_ERROR(kResourceExhausted,
                         "Kernel '{}': {} bytes of static and {} of dynamic shared memory are more than the {} that "
                         "a block may have on '{}'.",
                         signature.name, signature.static_shared_bytes, config.dynamic_shared_bytes,
                         info.max_shared_bytes_per_block, info.id);
  if (config.cooperative) return validate_cooperative(info, kernel, config);
  return {};
}

Status validate_range(std::string_view what, const Buffer* buffer, std::size_t offset_bytes, std::size_t size_bytes) {
  if (buffer == nullptr) return PERGOLA_ERROR(kInvalidArgument, "The {} is a null buffer.", what);
  const std::size_t total = buffer->size_bytes();
  if (offset_bytes <= total && size_bytes <= total - offset_bytes) return {};
  return PERGOLA_ERROR(kInvalidArgument, "The {} range of {} at offset {} is not inside its buffer of {}.", what,
                       plural(size_bytes, "byte"), offset_bytes, plural(total, "byte"));
}

Status validate_target(const DeviceInfo& info, const ptx::Module& module, std::string_view name) {
  if (module.address_size == 32)
    return PERGOLA_ERROR(kUnsupported,
                         "'{}' has .address_size 32, and '{}' has addresses of 64 bits; compile it for 64 "
                         "bits (nvcc -m64).",
                         name, info.id);
  const std::uint32_t have = info.compute_major * 10 + info.compute_minor;
  for (const std::string& target : module.targets) {
    if (!target.starts_with("sm_")) continue;
    std::uint32_t want = 0;
    const char* end = target.data() + target.size();
    const auto [rest, error] = std::from_chars(target.data() + 3, end, want);
    const bool exact = error == std::errc() && rest != end && *rest == 'a';
    if (error == std::errc() && want <= have && (!exact || want == have)) continue;
    return PERGOLA_ERROR(kUnsupported, "'{}' is compiled for {}, and '{}' ({}) is sm_{}; compile it for sm_{}{}.", name,
                         target, info.id, info.name, have, have, exact ? " without the 'a'" : " or older");
  }
  return {};
}

Status validate_copy(const Buffer* destination, std::size_t destination_offset_bytes, const Buffer* source,
                     std::size_t source_offset_bytes, std::size_t size_bytes) {
  PERGOLA_TRY(validate_range("destination", destination, destination_offset_bytes, size_bytes));
  PERGOLA_TRY(validate_range("source", source, source_offset_bytes, size_bytes));
  if (destination != source || size_bytes == 0) return {};
  const bool apart = destination_offset_bytes >= source_offset_bytes + size_bytes ||
                     source_offset_bytes >= destination_offset_bytes + size_bytes;
  if (apart) return {};
  return PERGOLA_ERROR(kInvalidArgument,
                       "The copy of {} from offset {} to offset {} of the same buffer overlaps itself.",
                       plural(size_bytes, "byte"), source_offset_bytes, destination_offset_bytes);
}

Status validate_fill(const Buffer* buffer, std::size_t offset_bytes, std::size_t size_bytes, std::uint32_t pattern,
                     std::uint32_t pattern_bytes) {
  PERGOLA_TRY(validate_range("destination", buffer, offset_bytes, size_bytes));
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4)
    return PERGOLA_ERROR(kInvalidArgument, "A fill pattern has 1, 2 or 4 bytes, not {}.", pattern_bytes);
  if (pattern_bytes < 4 && (pattern >> (8 * pattern_bytes)) != 0)
    return PERGOLA_ERROR(kInvalidArgument, "The fill pattern {:#x} does not fit in {}.", pattern,
                         plural(pattern_bytes, "byte"));
  if (offset_bytes % pattern_bytes != 0 || size_bytes % pattern_bytes != 0)
    return PERGOLA_ERROR(kInvalidArgument,
                         "A fill of {} at offset {} must have both a multiple of its {}-byte pattern.",
                         plural(size_bytes, "byte"), offset_bytes, pattern_bytes);
  return {};
}

Status validate_graph(const DeviceInfo& info, const GraphSpec& spec) {
  for (std::size_t id = 0; id < spec.nodes.size(); ++id) {
    const GraphNode& node = spec.nodes[id];
    if (node.early_after && (*node.early_after >= id || !std::holds_alternative<KernelNode>(node.work) ||
                             !std::holds_alternative<KernelNode>(spec.nodes[*node.early_after].work)))
      return PERGOLA_ERROR(kInvalidArgument,
                           "Graph node {} starts early after node {}; only a kernel may, after an earlier kernel.", id,
                           *node.early_after);
    for (NodeId earlier : node.after) {
      if (earlier < id) continue;
      return PERGOLA_ERROR(kInvalidArgument, "Graph node {} comes after node {}; only earlier nodes may be named.", id,
                           earlier);
    }
    const Status status = std::visit(NodeCheck{info}, node.work);
    if (!status.ok())
      return Error{status.code(), fmt::format("Graph node {}: {}", id, status.message()), __FILE__, __LINE__};
  }
  return {};
}

Status validate_update(const GraphSpec& spec, NodeId node, std::size_t parameter_bytes) {
  if (node >= spec.nodes.size())
    return PERGOLA_ERROR(kInvalidArgument, "The graph has {}; there is no node {}.", plural(spec.nodes.size(), "node"),
                         node);
  const auto* kernel = std::get_if<KernelNode>(&spec.nodes[node].work);
  if (kernel == nullptr)
    return PERGOLA_ERROR(kInvalidArgument, "Graph node {} is no kernel; only kernels have parameters.", node);
  if (parameter_bytes != kernel->parameters.size())
    return PERGOLA_ERROR(kInvalidArgument, "Graph node {}: kernel '{}' takes {} of parameters, {} given.", node,
                         kernel->kernel->signature().name, plural(kernel->parameters.size(), "byte"),
                         plural(parameter_bytes, "is", "are"));
  return {};
}

void expand_fill(std::span<std::byte> destination, std::uint32_t pattern, std::uint32_t pattern_bytes) {
  std::array<std::byte, 4> bytes{};
  for (std::uint32_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(pattern >> (8 * i));
  if (destination.empty()) return;
  if (pattern_bytes == 1) {
    std::memset(destination.data(), static_cast<int>(bytes[0]), destination.size());
    return;
  }
  for (std::size_t i = 0; i < destination.size(); i += pattern_bytes)
    std::memcpy(destination.data() + i, bytes.data(), pattern_bytes);
}

}  // namespace pergola::device
