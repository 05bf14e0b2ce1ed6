#include "src/runtime/merged_nodes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/check.h"
#include "src/ptx/verifier.h"
#include "src/transform/joined_kernels.h"

namespace pergola::runtime {
namespace {

using device::Dim3;
using device::KernelNode;
using transform::MergedHeader;
using transform::MergedLayout;
using transform::MergedShape;

MergedShape row_shape(const AlikeLaunches& part) {
  const bool is_row = std::all_of(part.works.begin(), part.works.end(), [](const KernelNode* work) {
    return work->config.grid.y == 1 && work->config.grid.z == 1;
  });
  return {.launches = std::bit_ceil(static_cast<std::uint32_t>(part.works.size())), .deep = !is_row, .flat = true};
}

MergedLayout layout_of(const AlikeLaunches& launches, const MergedShape& shape) {
  return transform::merged_layout(launches.works[0]->kernel->signature(), shape);
}

void put_element(std::byte* at, const MergedLayout& layout, const MergedShape& shape, const KernelNode& work,
                 std::uint32_t place) {
  const Dim3& grid = work.config.grid;
  const MergedHeader header{grid.x, grid.y, grid.z, place};
  if (shape.has_header()) std::memcpy(at, &header, sizeof header);
  std::copy(work.parameters.begin(), work.parameters.end(), at + layout.parameters_offset);
}

// The module is made of the parts' each in its form for a row.
Result<BlockKernel::Form> join(device::Device& device, const JoinedKernels::Shapes& shapes,
                               const std::array<std::uint32_t, 3>& threads) {
  std::vector<BlockKernel::ModulePart> modules;
  std::vector<std::string> names;
  std::vector<transform::KernelPart> parts;
  for (const auto& [kernel, shape] : shapes) {
    PERGOLA_ASSIGN(BlockKernel::ModulePart module, kernel->merged_module(shape));
    modules.push_back(std::move(module));
    names.push_back(transform::merged_kernel(kernel->name()));
  }
  for (std::size_t p = 0; p < shapes.size(); ++p) parts.push_back({modules[p].get(), names[p]});
  PERGOLA_ASSIGN(const ptx::Module module, transform::join_kernels(parts, threads));
  PERGOLA_TRY(ptx::verify(module));
  return BlockKernel::load(device, module, "joined launches", transform::kJoinedKernel);
}

}  // namespace

Result<BlockKernel::Form> JoinedKernels::form(device::Device& device, const Shapes& shapes, const Dim3& block) {
  return known_.form(shapes, block,
                     [&](const Shapes& parts, const auto& threads) { return join(device, parts, threads); });
}

Result<MergedNodes::Layered> MergedNodes::in_layers(const AlikeLaunches& launches) const {
  Dim3 most{0, 0, 0};
  bool same_grids = true;
  for (const KernelNode* const work : launches.works) {
    const Dim3& grid = work->config.grid;
    same_grids = same_grids && grid == launches.works[0]->config.grid;
    most = {std::max(most.x, grid.x), std::max(most.y, grid.y), std::max(most.z, grid.z)};
  }
  const auto count = static_cast<std::uint32_t>(launches.works.size());
  MergedShape shape{.launches = count, .deep = most.z > 1, .bounded = !same_grids};
  const MergedLayout layout = layout_of(launches, shape);
  // Few sizes, so that few kernels are compiled.
  shape.launches = std::max(count, std::min(std::bit_ceil(count), most_parameter_bytes_ / layout.stride_bytes));
  PERGOLA_ASSIGN(const BlockKernel::Form form, launches.kernel->merged(shape));
  KernelNode node{form.module, form.kernel, launches.works[0]->config, {}};
  node.config.grid = {most.x, most.y, most.z * count};
  PERGOLA_TRY(check(form, node.config, std::span(&launches, 1)));
  node.parameters.resize(form.kernel->signature().parameter_bytes);
  for (std::size_t n = 0; n < count; ++n)
    put_element(node.parameters.data() + n * layout.stride_bytes, layout, shape, *launches.works[n], most.z);
  return Layered{std::move(node), shape};
}

Status MergedNodes::can_be_in_a_row(const AlikeLaunches& part) {
  return part.kernel->merged_module(row_shape(part)).status();
}

std::size_t MergedNodes::row_bytes(const AlikeLaunches& part) {
  const MergedShape shape = row_shape(part);
  const MergedLayout layout = layout_of(part, shape);
  return std::size_t{shape.launches} * layout.stride_bytes + layout.align_bytes - 1;
}

Result<KernelNode> MergedNodes::in_a_row(std::span<const AlikeLaunches> parts) const {
  JoinedKernels::Shapes shapes;
  std::uint64_t blocks = 0;
  device::LaunchConfig config = parts[0].works[0]->config;
  for (const AlikeLaunches& part : parts) {
    shapes.emplace_back(part.kernel, row_shape(part));
    config.dynamic_shared_bytes = std::max(config.dynamic_shared_bytes, part.works[0]->config.dynamic_shared_bytes);
    for (const KernelNode* const work : part.works) blocks += work->config.grid.count();
  }
  if (blocks > device_.info().max_grid.x)
    return PERGOLA_ERROR(kResourceExhausted, "{} blocks are too many for one row.", blocks);
  config.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  PERGOLA_ASSIGN(const BlockKernel::Form form, shapes.size() == 1 ? parts[0].kernel->merged(shapes[0].second)
                                                                  : joined_.form(device_, shapes, config.block));
  PERGOLA_TRY(check(form, config, parts));
  KernelNode node{form.module, form.kernel, config, {}};
  const ptx::KernelSignature& signature = form.kernel->signature();
  PERGOLA_CHECK(signature.parameters.size() == parts.size());
  node.parameters.resize(signature.parameter_bytes);
  std::uint32_t place = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const MergedShape& shape = shapes[p].second;
    const MergedLayout layout = layout_of(parts[p], shape);
    std::byte* at = node.parameters.data() + signature.parameters[p].offset_bytes;
    for (std::size_t n = 0; n < shape.launches; ++n, at += layout.stride_bytes) {
      if (n < parts[p].works.size()) {
        put_element(at, layout, shape, *parts[p].works[n], place);
        place += static_cast<std::uint32_t>(parts[p].works[n]->config.grid.count());
      } else {
        const MergedHeader nobodys{0, 0, 0, MergedHeader::kNoLaunch};
        std::memcpy(at, &nobodys, sizeof nobodys);
      }
    }
  }
  return node;
}

Status MergedNodes::check(const BlockKernel::Form& form, const device::LaunchConfig& config,
                          std::span<const AlikeLaunches> parts) const {
  const std::string& name = form.kernel->signature().name;
  const auto threads = static_cast<std::uint32_t>(config.block.count());
  const std::uint32_t most = form.kernel->resources().max_threads_per_block;
  if (most != 0 && threads > most)
    return PERGOLA_ERROR(kResourceExhausted,
                         "Kernel '{}' of several launches runs in blocks of {} threads at most, not {}.", name, most,
                         threads);
  PERGOLA_ASSIGN(const std::uint32_t all,
                 form.kernel->max_resident_blocks_per_sm(threads, config.dynamic_shared_bytes));
  if (config.grid.count() <= std::uint64_t{all} * device_.info().sm_count) return {};
  for (const AlikeLaunches& part : parts) {
    const KernelNode& one = *part.works[0];
    PERGOLA_ASSIGN(const std::uint32_t own,
                   one.kernel->max_resident_blocks_per_sm(threads, one.config.dynamic_shared_bytes));
    if (4 * all < 3 * own)
      return PERGOLA_ERROR(kResourceExhausted,
                           "Of kernel '{}' {} blocks fit a multiprocessor, and {} of '{}', which is a part of it.",
                           name, all, own, one.kernel->signature().name);
  }
  return {};
}

}  // namespace pergola::runtime
