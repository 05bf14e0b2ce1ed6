#include "tests/block_orders/broken_footprints.h"

#include <algorithm>

namespace pergola::block_orders_test {
namespace {

using analysis::AccessFootprint;
using analysis::BlockPlaces;
using analysis::ByteShape;
using analysis::LaunchFootprint;

constexpr std::uint64_t kElementBytes = 4;
constexpr int kTrials = 50;

// A row of bytes without its last element, or without its last row where rows are single elements.
bool shorten(AccessFootprint& access) {
  bool is_shorter = false;
  for (ByteShape& shape : access.shapes) {
    if (shape.width > kElementBytes)
      shape.width -= kElementBytes;
    else if (!shape.dimensions.empty())
      --shape.dimensions.back().count;
    else
      continue;
    is_shorter = true;
    shape = analysis::normalized(shape);
  }
  return is_shorter;
}

bool move_on(AccessFootprint& access, const std::uint32_t (&grid)[3]) {
  bool is_moved = false;
  std::vector<BlockPlaces::Region> regions = access.places.regions();
  for (BlockPlaces::Region& region : regions) {
    const auto* const step = std::ranges::find_if(region.step, [](std::int64_t bytes) { return bytes != 0; });
    if (step == std::end(region.step)) continue;
    region.first += *step;
    is_moved = true;
  }
  access.places = BlockPlaces(grid, std::move(regions));
  return is_moved;
}

}  // namespace

std::string_view to_string(Mistake mistake) {
  switch (mistake) {
    case Mistake::kShort: return "short by an element";
    case Mistake::kNextBlock: return "those of the next block";
    case Mistake::kWriteIsRead: return "a write taken for a read";
  }
  return "";
}

bool make_mistake(Mistake mistake, std::vector<LaunchFootprint>& footprints, std::mt19937_64& random) {
  for (int trial = 0; trial < kTrials; ++trial) {
    LaunchFootprint& launch = footprints[random() % footprints.size()];
    if (launch.accesses.empty()) continue;
    AccessFootprint& access = launch.accesses[random() % launch.accesses.size()];
    if (mistake == Mistake::kShort && shorten(access)) return true;
    if (mistake == Mistake::kNextBlock && move_on(access, launch.grid)) return true;
    if (mistake == Mistake::kWriteIsRead && access.writes) {
      access.reads = true, access.writes = false;
      return true;
    }
  }
  return false;
}

bool loses_a_parent(const device::cpu::blocks::LaunchChain& whole, const device::cpu::blocks::LaunchChain& broken) {
  const auto waits = [](const analysis::BlockRelation& relation, std::uint32_t child, std::uint32_t parent) {
    return relation.pattern == analysis::BlockPattern::kFull || relation.parents_of(child).contains(parent);
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (std::size_t back = 0; back < whole[i].relations.size(); ++back) {
      const analysis::BlockRelation &before = *whole[i].relations[back], &after = *broken[i].relations[back];
      for (std::uint32_t child = 0; child < before.children; ++child)
        for (std::uint32_t parent = 0; parent < before.parents; ++parent)
          if (waits(before, child, parent) && !waits(after, child, parent)) return true;
    }
  }
  return false;
}

}  // namespace pergola::block_orders_test
