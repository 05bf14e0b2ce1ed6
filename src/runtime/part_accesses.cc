#include "src/runtime/part_accesses.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>

#include "src/analysis/byte_set.h"
#include "src/runtime/launch_values.h"

namespace pergola::runtime {
namespace {

using analysis::AccessFootprint;
using analysis::LaunchFootprint;
using analysis::LaunchValues;
using scheduler::Mode;
using scheduler::Range;

// So many stretches of one access are told apart, the rest is taken together.
constexpr std::uint64_t kMostOfAnAccess = 64;

// What all blocks of the region touch: loops over blocks and over the shape's dimensions. Those that leave no gap
// lengthen a stretch, and of the others the widest tell stretches apart.
void add_stretches(const AccessFootprint& access, const analysis::BlockPlaces::Region& region, std::uint64_t size_bytes,
                   std::vector<Range>& ranges) {
  const analysis::ByteShape& shape = access.shapes[region.shape];
  std::int64_t first = region.first;
  std::vector<analysis::ByteShape::Dimension> loops(shape.dimensions.begin(), shape.dimensions.end());
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t step = region.step[axis], more = std::int64_t{region.box.extent(axis)} - 1;
    first += std::min<std::int64_t>(0, step * more);
    if (step != 0) loops.push_back({static_cast<std::uint64_t>(std::abs(step)), region.box.extent(axis)});
  }
  std::ranges::sort(loops, {}, &analysis::ByteShape::Dimension::stride);
  std::uint64_t extent = shape.width, stretches = 1;
  std::vector<analysis::ByteShape::Dimension> apart;
  for (const auto& loop : loops) {
    if (loop.count < 2) continue;
    apart.push_back(loop);
    stretches *= std::min(loop.count, kMostOfAnAccess + 1);
    if (loop.stride > extent && stretches <= kMostOfAnAccess) continue;
    for (const auto& joined : apart) extent += joined.stride * (joined.count - 1);
    apart.clear(), stretches = 1;
  }
  std::vector<std::int64_t> begins{first};
  for (const auto& loop : apart) {
    const std::vector<std::int64_t> of_one = std::move(begins);
    begins.clear();
    for (std::uint64_t k = 0; k < loop.count; ++k)
      for (const std::int64_t begin : of_one) begins.push_back(begin + static_cast<std::int64_t>(k * loop.stride));
  }
  const auto within = [size = static_cast<std::int64_t>(size_bytes)](std::int64_t byte) {
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(byte, 0, size));
  };
  for (const std::int64_t begin : begins)
    ranges.push_back({within(begin), within(begin + static_cast<std::int64_t>(extent))});
}

// What overlaps or touches is one, and what is nearest where there are too many.
void join(std::vector<Range>& ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.begin >= range.end; });
  std::ranges::sort(ranges, {}, &Range::begin);
  const auto join_within = [&ranges](std::uint64_t gap) {
    std::size_t kept = 0;
    for (const Range& range : ranges) {
      if (kept != 0 && (range.begin <= ranges[kept - 1].end || range.begin - ranges[kept - 1].end <= gap))
        ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
      else
        ranges[kept++] = range;
    }
    ranges.resize(kept);
  };
  join_within(0);
  if (ranges.size() <= kMostParts) return;
  std::vector<std::uint64_t> gaps;
  for (std::size_t i = 1; i < ranges.size(); ++i) gaps.push_back(ranges[i].begin - ranges[i - 1].end);
  std::ranges::nth_element(gaps, gaps.begin() + kMostParts - 1, std::greater<>());
  join_within(gaps[kMostParts - 1]);  // fewer than kMostParts are wider
}

// Of the accesses to that allocation that read, or that write.
std::vector<Range> ranges_of(const LaunchFootprint& footprint, std::uint32_t array, std::uint64_t size_bytes,
                             bool AccessFootprint::* what) {
  std::vector<Range> ranges;
  for (const AccessFootprint& access : footprint.accesses) {
    if (access.allocation != array || !(access.*what)) continue;
    if (!access.whole_reason.empty()) return {{0, size_bytes}};
    for (const auto& region : access.places.regions())
      if (region.shape != AccessFootprint::kNoShape) add_stretches(access, region, size_bytes, ranges);
  }
  join(ranges);
  return ranges;
}

bool covers(std::span<const Range> ranges, std::uint64_t byte) {
  return std::ranges::any_of(ranges, [byte](const Range& range) { return range.begin <= byte && byte < range.end; });
}

// What is read, written, or both, in the order of bytes: few ranges, so each stretch between two ends is looked up.
void add_parts(std::uint32_t array, std::span<const Range> read, std::span<const Range> written, ArrayParts& parts) {
  std::vector<std::uint64_t> ends;
  for (const auto& ranges : {read, written})
    for (const Range& range : ranges) ends.insert(ends.end(), {range.begin, range.end});
  std::ranges::sort(ends);
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    if (ends[i] == ends[i + 1]) continue;
    const Mode mode =
        (covers(read, ends[i]) ? Mode::kRead : Mode::kNone) | (covers(written, ends[i]) ? Mode::kWrite : Mode::kNone);
    if (mode == Mode::kNone) continue;
    ArrayPart* const before = parts.empty() ? nullptr : &parts.back();
    if (before != nullptr && before->array == array && before->mode == mode && before->range.end == ends[i])
      before->range.end = ends[i + 1];
    else
      parts.push_back({array, {ends[i], ends[i + 1]}, mode});
  }
}

std::string key_of(const device::LaunchConfig& config, std::span<const std::byte> parameters,
                   std::span<const GivenArray> given) {
  std::string key;
  const auto add = [&key](const void* bytes, std::size_t size) { key.append(static_cast<const char*>(bytes), size); };
  key.reserve(sizeof config.grid + sizeof config.block + parameters.size() + given.size() * sizeof(GivenArray));
  add(&config.grid, sizeof config.grid);
  add(&config.block, sizeof config.block);
  add(parameters.data(), parameters.size());
  for (const GivenArray& one : given) {
    add(&one.array, sizeof one.array);
    add(&one.position_bytes, sizeof one.position_bytes);
    add(&one.size_bytes, sizeof one.size_bytes);
  }
  return key;
}

LaunchValues values_of(const ptx::Module& module, const device::LaunchConfig& config,
                       std::span<const std::byte> parameters, std::span<const GivenArray> given) {
  LaunchValues values = launch_values(config, parameters);
  analysis::AllocationId number = 0;
  for (const GivenArray& one : given) {
    values.pointers.push_back(
        {one.parameter_offset_bytes, one.array, static_cast<std::int64_t>(one.position_bytes), one.size_bytes});
    number = std::max(number, one.array + 1);
  }
  values.add_variables(module, number);  // which the scheduler orders apart from arrays
  return values;
}

// Launches of so many blocks are looked at whatever it takes, and larger ones where it takes no more boxes.
constexpr std::uint64_t kFewBlocks = 4096;

// Whether it takes that, by the footprint of a smaller grid. It may take a box for each block: 0.3 us.
bool is_worth_it(const analysis::KernelFootprints& footprints, LaunchValues values) {
  const auto blocks_of = [](const LaunchValues& of) { return std::uint64_t{of.grid[0]} * of.grid[1] * of.grid[2]; };
  const std::uint64_t blocks = blocks_of(values);
  if (blocks <= kFewBlocks) return true;
  const bool is_line = values.grid[1] == 1 && values.grid[2] == 1;
  for (std::uint32_t& extent : values.grid) extent = std::min(extent, is_line ? 1024u : 10u);
  const auto footprint = footprints.at(values);
  if (!footprint.ok()) return false;
  std::uint64_t boxes = 0;
  for (const AccessFootprint& access : footprint->accesses) boxes += access.boxes - std::min(access.boxes, 1u);
  return boxes * (blocks / blocks_of(values)) <= kFewBlocks;
}

std::shared_ptr<const ArrayParts> worked_out(const BlockKernel::Analysed& kernel, const device::LaunchConfig& config,
                                             std::span<const std::byte> parameters, std::span<const GivenArray> given) {
  const LaunchValues values = values_of(kernel.module, config, parameters, given);
  if (!is_worth_it(*kernel.footprints, values)) return nullptr;
  const auto footprint = kernel.footprints->at(values);
  return footprint.ok() ? parts_of(*footprint, given) : nullptr;
}

}  // namespace

std::shared_ptr<const ArrayParts> parts_of(const LaunchFootprint& footprint, std::span<const GivenArray> given) {
  if (footprint.reads_anything || footprint.writes_anything) return nullptr;
  auto parts = std::make_shared<ArrayParts>();
  std::vector<std::uint32_t> seen;
  for (const GivenArray& one : given) {
    if (std::ranges::count(seen, one.array) != 0) continue;
    seen.push_back(one.array);
    add_parts(one.array, ranges_of(footprint, one.array, one.size_bytes, &AccessFootprint::reads),
              ranges_of(footprint, one.array, one.size_bytes, &AccessFootprint::writes), *parts);
  }
  return parts;
}

std::shared_ptr<const ArrayParts> PartAccesses::of(BlockKernel& kernel, const device::LaunchConfig& config,
                                                   std::span<const std::byte> parameters,
                                                   std::span<const GivenArray> given) {
  std::string key = key_of(config, parameters, given);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  const auto analysed = kernel.analysed();
  const bool is_looked_at = analysed.ok() && (*analysed)->footprints && costly_.load() < kMostCostly;
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<const ArrayParts> parts;
  if (is_looked_at) parts = worked_out(**analysed, config, parameters, given);  // two threads may both do so
  if (std::chrono::steady_clock::now() - start > kCostly) ++costly_;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKept) known_.clear();
  return known_.emplace(std::move(key), std::move(parts)).first->second;
}

}  // namespace pergola::runtime
