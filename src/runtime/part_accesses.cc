#include "src/runtime/part_accesses.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>

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

// But for the arrays' addresses, and for where in each the first pointer points. Made for each launch.
using Key = boost::container::small_vector<char, 256>;
Key key_of(const device::LaunchConfig& config, std::span<const std::byte> parameters,
           std::span<const GivenArray> given) {
  constexpr std::size_t kPointerBytes = 8;
  Key key(sizeof config.grid + sizeof config.block + parameters.size(), boost::container::default_init);
  std::memcpy(key.data(), &config.grid, sizeof config.grid);
  std::memcpy(key.data() + sizeof config.grid, &config.block, sizeof config.block);
  char* const of_parameters = key.data() + sizeof config.grid + sizeof config.block;
  std::memcpy(of_parameters, parameters.data(), parameters.size());
  for (const GivenArray& one : given) std::memset(of_parameters + one.parameter_offset_bytes, 0, kPointerBytes);
  for (const GivenArray& one : given) {
    const auto first = std::ranges::find(given, one.array, &GivenArray::array);
    const std::uint64_t words[] = {std::uint64_t{one.parameter_offset_bytes} << 32 | one.array,
                                   one.position_bytes - first->position_bytes};
    const auto* const bytes = reinterpret_cast<const char*>(words);
    key.insert(key.end(), bytes, bytes + sizeof words);
  }
  return key;
}

// Of an array without an end, in whose middle the first pointer points: no kernel reaches so far.
constexpr std::uint64_t kMiddle = std::uint64_t{1} << 44;

std::vector<GivenArray> in_the_middle(std::span<const GivenArray> given) {
  std::vector<GivenArray> moved(given.begin(), given.end());
  for (GivenArray& one : moved) {
    const auto first = std::ranges::find(given, one.array, &GivenArray::array);
    one.position_bytes = kMiddle + one.position_bytes - first->position_bytes;
    one.size_bytes = 2 * kMiddle;
  }
  return moved;
}

std::vector<MovedPart> moved_from_the_middle(const ArrayParts& parts) {
  std::vector<MovedPart> moved;
  for (const ArrayPart& part : parts)
    moved.push_back({part.array, static_cast<std::int64_t>(part.range.begin - kMiddle),
                     static_cast<std::int64_t>(part.range.end - kMiddle),
                     part.range.begin == 0 && part.range.end == 2 * kMiddle, part.mode});
  return moved;
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

std::optional<ArrayParts> worked_out(const BlockKernel::Analysed& kernel, const device::LaunchConfig& config,
                                     std::span<const std::byte> parameters, std::span<const GivenArray> given) {
  const LaunchValues values = values_of(kernel.module, config, parameters, given);
  if (!is_worth_it(*kernel.footprints, values)) return std::nullopt;
  const auto footprint = kernel.footprints->at(values);
  return footprint.ok() ? parts_of(*footprint, given) : std::nullopt;
}

// The processor's time that this thread has had: on a machine that is busy, what is cheap takes long, too.
std::chrono::nanoseconds of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::optional<ArrayParts> parts_of(const LaunchFootprint& footprint, std::span<const GivenArray> given) {
  if (footprint.reads_anything || footprint.writes_anything) return std::nullopt;
  ArrayParts parts;
  std::vector<std::uint32_t> seen;
  for (const GivenArray& one : given) {
    if (std::ranges::count(seen, one.array) != 0) continue;
    seen.push_back(one.array);
    add_parts(one.array, ranges_of(footprint, one.array, one.size_bytes, &AccessFootprint::reads),
              ranges_of(footprint, one.array, one.size_bytes, &AccessFootprint::writes), parts);
  }
  return parts;
}

std::size_t PartAccesses::HashOfKey::operator()(std::string_view key) const {
  std::uint64_t hash = key.size();
  for (; key.size() >= sizeof hash; key.remove_prefix(sizeof hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data(), sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

PartAccesses::Places PartAccesses::places_of(std::span<const GivenArray> given) {
  Places places;
  for (const GivenArray& one : given)
    if (std::ranges::find(places, one.array, &Place::array) == places.end())
      places.push_back({one.array, one.position_bytes, one.size_bytes});
  return places;
}

// False where they would not be inside, and are not known for the place itself.
bool PartAccesses::add_parts_of(const Known& known, const Place& place, ArrayParts& parts) {
  const std::size_t before = parts.size();
  const auto position = static_cast<std::int64_t>(place.position_bytes),
             size = static_cast<std::int64_t>(place.size_bytes);
  const bool are_inside = std::ranges::all_of(known.moved, [&](const MovedPart& part) {
    if (part.array != place.array) return true;
    if (part.is_all) {
      parts.push_back({part.array, {0, place.size_bytes}, part.mode});
      return true;
    }
    const std::int64_t begin = position + part.begin, end = position + part.end;
    if (begin < 0 || end > size) return false;
    parts.push_back({part.array, {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)}, part.mode});
    return true;
  });
  if (are_inside) return true;
  parts.resize(before);
  const auto at_place = std::ranges::find(known.at_places, place, &std::pair<Place, ArrayParts>::first);
  if (at_place == known.at_places.end()) return false;
  parts.insert(parts.end(), at_place->second.begin(), at_place->second.end());
  return true;
}

// None where it is to be worked out for these places.
std::optional<ArrayParts> PartAccesses::answer(const Known& known, const Places& places) {
  ArrayParts parts;
  for (const Place& place : places)
    if (!add_parts_of(known, place, parts)) return std::nullopt;
  return parts;
}

std::optional<ArrayParts> PartAccesses::of(BlockKernel& kernel, const device::LaunchConfig& config,
                                           std::span<const std::byte> parameters, std::span<const GivenArray> given) {
  const Key made = key_of(config, parameters, given);
  const std::string_view key(made.data(), made.size());
  const Places places = places_of(given);
  bool is_known = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) {
      if (!known->second.is_told) return std::nullopt;
      if (auto found = answer(known->second, places)) return found;
      is_known = true;
    }
  }
  const auto analysed = kernel.analysed();
  const bool is_looked_at = analysed.ok() && (*analysed)->footprints && costly_.load() < kMostCostly;
  const auto start = of_this_thread();
  const auto work_out = [&](std::span<const GivenArray> arrays) {  // two threads may both do so
    return is_looked_at ? worked_out(**analysed, config, parameters, arrays) : std::nullopt;
  };
  std::optional<ArrayParts> in_middle;
  if (!is_known) in_middle = work_out(in_the_middle(given));
  Known fresh;
  if (in_middle) {
    fresh.is_told = true;
    fresh.moved = moved_from_the_middle(*in_middle);
  }
  std::optional<ArrayParts> here;
  if (is_known || (fresh.is_told && !answer(fresh, places))) here = work_out(given);
  if (of_this_thread() - start > costly_after_) ++costly_;
  const std::lock_guard lock(mutex_);
  if (is_known && !known_.contains(key)) return here;  // another thread has cleared it
  if (!is_known && known_.size() >= kMostKept) known_.clear();
  Known& known = known_.try_emplace(std::string(key), std::move(fresh)).first->second;
  if (!here) {
    known.is_told = known.is_told && !(is_known && is_looked_at);  // else it would be tried with each launch
    return known.is_told ? answer(known, places) : std::nullopt;
  }
  if (known.at_places.size() >= kMostAtPlaces) known.at_places.clear();
  ArrayParts ignored;
  for (const Place& place : places) {
    if (add_parts_of(known, place, ignored)) continue;
    auto& [at, parts] = known.at_places.emplace_back(place, ArrayParts());
    std::ranges::copy_if(*here, std::back_inserter(parts),
                         [&](const ArrayPart& part) { return part.array == at.array; });
  }
  return here;
}

}  // namespace pergola::runtime
