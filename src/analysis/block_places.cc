#include "src/analysis/block_places.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace pergola::analysis {
namespace {

using Region = BlockPlaces::Region;

// Makes one region of two that follow each other along an axis, where they are one.
bool append(Region& region, const Region& next, int axis) {
  if (region.shape != next.shape || region.box.end[axis] != next.box.begin[axis]) return false;
  for (int other = 0; other < 3; ++other) {
    if (other == axis) continue;
    if (region.box.begin[other] != next.box.begin[other] || region.box.end[other] != next.box.end[other] ||
        region.step[other] != next.step[other])
      return false;
  }
  const std::int64_t extent = region.box.extent(axis), difference = next.first - region.first;
  if (difference % extent != 0) return false;
  const std::int64_t step = difference / extent;
  if (step >= LinearRange::kMostStep || step <= -LinearRange::kMostStep) return false;
  if (extent > 1 && region.step[axis] != step) return false;
  if (next.box.extent(axis) > 1 && next.step[axis] != step) return false;
  region.step[axis] = step;
  region.box.end[axis] = next.box.end[axis];
  return true;
}

void merge_along(std::vector<Region>& regions, int axis) {
  const int second = axis == 0 ? 1 : 0, third = axis == 2 ? 1 : 2;
  const auto key = [&](const Region& region) {
    return std::tuple(region.box.begin[third], region.box.begin[second], region.box.begin[axis]);
  };
  if (!std::ranges::is_sorted(regions, {}, key)) std::ranges::sort(regions, {}, key);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < regions.size(); ++i) {
    if (!append(regions[kept], regions[i], axis)) regions[++kept] = regions[i];
  }
  regions.resize(std::min(regions.size(), kept + 1));
}

}  // namespace

BlockPlaces::BlockPlaces(std::vector<Place> places) : grid_{static_cast<std::uint32_t>(places.size()), 1, 1} {
  for (std::uint32_t block = 0; block < places.size(); ++block) {
    if (places[block].shape == kNoShape) continue;
    const Region next{.box = {.begin = {block, 0, 0}, .end = {block + 1, 1, 1}},
                      .first = places[block].first,
                      .shape = places[block].shape};
    if (regions_.empty() || !append(regions_.back(), next, 0)) regions_.push_back(next);
  }
}

BlockPlaces::BlockPlaces(const std::uint32_t (&grid)[3], std::vector<Region> regions)
    : grid_{grid[0], grid[1], grid[2]}, regions_(std::move(regions)) {
  for (Region& region : regions_) {
    for (int axis = 0; axis < 3; ++axis) {
      if (region.box.extent(axis) == 1) region.step[axis] = 0;
    }
  }
  for (const int axis : {2, 1, 0}) {
    if (grid_[axis] > 1) merge_along(regions_, axis);
  }
}

BlockPlaces::Place BlockPlaces::operator[](std::uint32_t block) const {
  const GridIndex index = index_of(block, grid_);
  for (const Region& region : regions_) {
    if (region.box.contains(index.at)) return {region.first_of(index.at), region.shape};
  }
  return {};
}

std::vector<BlockPlaces::Place> BlockPlaces::expanded() const {
  std::vector<Place> result(size());
  for (const Region& region : regions_) {
    std::uint32_t index[3];
    for (index[2] = region.box.begin[2]; index[2] < region.box.end[2]; ++index[2]) {
      for (index[1] = region.box.begin[1]; index[1] < region.box.end[1]; ++index[1]) {
        index[0] = region.box.begin[0];
        std::int64_t first = region.first_of(index);
        const std::size_t row = std::size_t{grid_[0]} * (index[1] + std::size_t{grid_[1]} * index[2]);
        for (; index[0] < region.box.end[0]; ++index[0], first += region.step[0])
          result[row + index[0]] = {first, region.shape};
      }
    }
  }
  return result;
}

}  // namespace pergola::analysis
