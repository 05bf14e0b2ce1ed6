// How the relation is found:
//
//   places     Blocks that access the same bytes are one place. Most launches have far fewer places than blocks.
//   candidates A place is boxed into rows and columns of the parent's longest stride; parents' places are sorted by row
//              and column, so that a child's place looks only at those whose box it meets.
//   overlap    depends on the two shapes and the distance alone, and is kept by these.
//   lists      Children whose accesses are at the same places have the same parents: one list for all of them.
#include "src/analysis/block_dependencies.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <set>

#include "src/analysis/affine.h"

#include <fmt/format.h>

namespace pergola::analysis {
namespace {

using Place = AccessFootprint::Place;
constexpr std::uint32_t kNoPlace = ~std::uint32_t{0};

struct Box {
  std::int64_t row, last_row, column, last_column;
};

// One access of a launch by places instead of blocks.
struct PlacedAccess {
  const AccessFootprint* access = nullptr;
  bool reads = false, writes = false;
  std::vector<Place> places;                  // distinct
  std::vector<std::uint32_t> place_of_block;  // kNoPlace: not made
};

PlacedAccess placed(const AccessFootprint& access) {
  PlacedAccess result{
      .access = &access, .reads = access.reads, .writes = access.writes, .places = {}, .place_of_block = {}};
  result.place_of_block.assign(access.places.size(), kNoPlace);
  boost::unordered_flat_map<std::uint64_t, std::uint32_t>
      known;  // of (first, shape); both are small, or kept apart below
  for (std::size_t block = 0; block < access.places.size(); ++block) {
    const Place& place = access.places[block];
    if (place.shape == AccessFootprint::kNoShape) continue;
    const std::uint64_t key = static_cast<std::uint64_t>(place.first) * 0x9E3779B97F4A7C15u + place.shape;
    const auto [found, is_new] = known.try_emplace(key, static_cast<std::uint32_t>(result.places.size()));
    if (is_new) {
      result.places.push_back(place);
      result.place_of_block[block] = found->second;
    } else if (result.places[found->second] == place) {
      result.place_of_block[block] = found->second;
    } else {  // another place with this key
      result.place_of_block[block] = static_cast<std::uint32_t>(result.places.size());
      result.places.push_back(place);
    }
  }
  return result;
}

// The same bytes by the same blocks, as where a value is read and written again: one access.
std::vector<PlacedAccess> placed(const LaunchFootprint& launch) {
  std::vector<PlacedAccess> result;
  for (const AccessFootprint& access : launch.accesses) {
    const auto same = std::ranges::find_if(result, [&](const PlacedAccess& other) {
      return other.access->allocation == access.allocation && other.access->shapes == access.shapes &&
             other.access->places == access.places;
    });
    if (same != result.end()) {
      same->reads |= access.reads;
      same->writes |= access.writes;
    } else {
      result.push_back(placed(access));
    }
  }
  return result;
}

// The parent's places of one access, to be asked for those that a child's place meets.
class PlaceIndex {
 public:
  explicit PlaceIndex(const PlacedAccess& access) : access_(access) {
    for (const ByteShape& shape : access.access->shapes) {
      if (!shape.dimensions.empty()) pitch_ = std::max(pitch_, static_cast<std::int64_t>(shape.dimensions[0].stride));
    }
    for (std::uint32_t i = 0; i < access.places.size(); ++i) {
      entries_.push_back({box(access.places[i], *access.access), i});
      const Box& added = entries_.back().box;
      longest_rows_ = std::max(longest_rows_, added.last_row - added.row);
      longest_columns_ = std::max(longest_columns_, added.last_column - added.column);
    }
    std::ranges::sort(entries_, [](const Entry& a, const Entry& b) {
      return std::pair(a.box.row, a.box.column) < std::pair(b.box.row, b.box.column);
    });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (i == 0 || entries_[i].box.row != entries_[i - 1].box.row) row_starts_.push_back(i);
    }
    row_starts_.push_back(entries_.size());
  }

  // Appends the numbers of places that overlap.
  void find(const PlacedAccess& child, const Place& place, std::vector<std::uint32_t>& found) {
    const Box wanted = box(place, *child.access);
    const auto row_of = [&](std::size_t start) { return entries_[start].box.row; };
    auto row = std::partition_point(row_starts_.begin(), row_starts_.end() - 1,
                                    [&](std::size_t start) { return row_of(start) < wanted.row - longest_rows_; });
    for (; row + 1 < row_starts_.end() && row_of(*row) <= wanted.last_row; ++row) {
      const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(*(row + 1));
      auto entry = std::partition_point(entries_.begin() + static_cast<std::ptrdiff_t>(*row), end, [&](const Entry& e) {
        return e.box.column < wanted.column - longest_columns_;
      });
      for (; entry != end && entry->box.column <= wanted.last_column; ++entry) {
        if (entry->box.last_row < wanted.row || entry->box.last_column < wanted.column) continue;
        if (meets(entry->place, child, place)) found.push_back(entry->place);
      }
    }
  }

 private:
  struct Entry {
    Box box;
    std::uint32_t place;
  };

  Box box(const Place& place, const AccessFootprint& access) const {
    const ByteShape& shape = access.shapes[place.shape];
    const auto extent = static_cast<std::int64_t>(shape.extent());
    if (pitch_ == 0) return {0, 0, place.first, place.first + extent - 1};
    Box result{.row = floor_div(place.first, pitch_),
               .last_row = floor_div(place.first + extent - 1, pitch_),
               .column = 0,
               .last_column = pitch_ - 1};
    // All rows alike: what is left without the rows' own stride stays within a row.
    std::int64_t rest = extent;
    if (!shape.dimensions.empty() && static_cast<std::int64_t>(shape.dimensions[0].stride) == pitch_) {
      rest -= pitch_ * static_cast<std::int64_t>(shape.dimensions[0].count - 1);
    }
    const std::int64_t column = place.first - result.row * pitch_;
    if (column + rest <= pitch_) {
      result.column = column;
      result.last_column = column + rest - 1;
    }
    return result;
  }

  bool meets(std::uint32_t number, const PlacedAccess& child, const Place& place) {
    const Place& mine = access_.places[number];
    if (child.access != child_) {
      child_ = child.access;
      known_.clear();
      known_.resize(access_.access->shapes.size() * child.access->shapes.size());
    }
    auto& by_distance = known_[mine.shape * child.access->shapes.size() + place.shape];
    const auto [found, is_new] = by_distance.try_emplace(place.first - mine.first, false);
    if (is_new) {
      found->second =
          overlaps({mine.first, access_.access->shapes[mine.shape]}, {place.first, child.access->shapes[place.shape]});
    }
    return found->second;
  }

  const PlacedAccess& access_;
  std::int64_t pitch_ = 0;  // 0: bytes are one row
  std::vector<Entry> entries_;
  std::vector<std::size_t> row_starts_;  // and the end
  std::int64_t longest_rows_ = 0, longest_columns_ = 0;
  const AccessFootprint* child_ = nullptr;
  std::vector<boost::unordered_flat_map<std::int64_t, bool>> known_;  // by both shapes: whether they meet at a distance
};

// Two accesses of which one writes, on one allocation: for each place of the child the blocks of the parent it meets.
struct PairRelation {
  const PlacedAccess* child = nullptr;
  std::vector<std::vector<std::uint32_t>> parents_of_place;
  bool any = false;
};

PairRelation relate(const PlacedAccess& parent, PlaceIndex& index, const PlacedAccess& child) {
  PairRelation result{.child = &child, .parents_of_place = {}};
  std::vector<std::vector<std::uint32_t>> blocks_of_place(parent.places.size());
  for (std::uint32_t block = 0; block < parent.place_of_block.size(); ++block) {
    if (parent.place_of_block[block] != kNoPlace) blocks_of_place[parent.place_of_block[block]].push_back(block);
  }
  std::vector<std::uint32_t> met;
  for (const Place& place : child.places) {
    met.clear();
    index.find(child, place, met);
    std::vector<std::uint32_t>& parents = result.parents_of_place.emplace_back();
    for (const std::uint32_t number : met)
      parents.insert(parents.end(), blocks_of_place[number].begin(), blocks_of_place[number].end());
    std::ranges::sort(parents);
    result.any |= !parents.empty();
  }
  return result;
}

// Children with the same parents: one list for all of them.
struct Lists {
  std::vector<std::vector<std::uint32_t>> lists;
  std::vector<std::uint32_t> list_of_child;
};

Lists merged(const std::vector<PairRelation>& pairs, std::uint32_t children) {
  Lists result;
  result.list_of_child.resize(children);
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;  // by the places of all pairs
  std::vector<std::uint32_t> key(pairs.size());
  for (std::uint32_t child = 0; child < children; ++child) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::uint32_t place = pairs[i].child->place_of_block[child];
      key[i] = place == kNoPlace || pairs[i].parents_of_place[place].empty() ? kNoPlace : place;
    }
    const auto [found, is_new] = known.try_emplace(key, static_cast<std::uint32_t>(result.lists.size()));
    result.list_of_child[child] = found->second;
    if (!is_new) continue;
    std::vector<std::uint32_t>& list = result.lists.emplace_back();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (key[i] == kNoPlace) continue;
      const auto& more = pairs[i].parents_of_place[key[i]];
      list.insert(list.end(), more.begin(), more.end());
    }
    if (pairs.size() > 1) std::ranges::sort(list);
    list.erase(std::ranges::unique(list).begin(), list.end());
  }
  return result;
}

void make_full(BlockRelation& relation, std::string reason) {
  relation.pattern = BlockPattern::kFull;
  relation.first_parent.clear();
  relation.parent_list.clear();
  relation.max_degree = relation.parents;
  relation.edges = std::uint64_t{relation.parents} * relation.children;
  relation.full_reason = std::move(reason);
}

BlockPattern pattern_of(const Lists& lists, const BlockRelation& relation) {
  std::vector<std::uint32_t> children(relation.parents), first_list(relation.parents, kNoPlace);
  std::vector<std::uint32_t> users(lists.lists.size());
  for (const std::uint32_t list : lists.list_of_child) ++users[list];
  bool is_grouped = true, is_full = true;
  // Lists may be equal though their places differ.
  std::map<std::vector<std::uint32_t>, std::uint32_t> same;
  for (std::uint32_t i = 0; i < lists.lists.size(); ++i) {
    const auto& list = lists.lists[i];
    is_full &= list.size() == relation.parents;
    const std::uint32_t name = is_grouped ? same.try_emplace(list, i).first->second : i;
    for (const std::uint32_t parent : list) {
      children[parent] += users[i];
      is_grouped &= first_list[parent] == kNoPlace || first_list[parent] == name;
      first_list[parent] = name;
    }
  }
  const std::uint32_t most_children = children.empty() ? 0 : *std::ranges::max_element(children);
  if (relation.max_degree == 0) return BlockPattern::kIndependent;
  if (relation.max_degree == 1) return most_children <= 1 ? BlockPattern::kOneToOne : BlockPattern::kOneToN;
  if (most_children <= 1) return BlockPattern::kNToOne;
  if (is_full) return BlockPattern::kFull;
  return is_grouped ? BlockPattern::kGroups : BlockPattern::kOverlapped;
}

bool touches(const LaunchFootprint& launch) {
  return !launch.accesses.empty() || launch.reads_anything || launch.writes_anything;
}
bool writes(const LaunchFootprint& launch) {
  return launch.writes_anything || std::ranges::any_of(launch.accesses, &AccessFootprint::writes);
}

// A launch that may touch anything waits, and is waited for, where the other one writes, or it does.
bool relate_anything(const LaunchFootprint& parent, const LaunchFootprint& child, BlockRelation& relation) {
  const bool parent_writes = writes(parent), child_writes = writes(child);
  if (!touches(parent) || !touches(child) || !(parent_writes || child_writes)) return false;
  const bool of_parent = (parent.writes_anything) || (parent.reads_anything && child_writes);
  const bool of_child = (child.writes_anything) || (child.reads_anything && parent_writes);
  if (!of_parent && !of_child) return false;
  relation.raw = parent_writes;
  relation.war = child_writes;
  relation.waw = parent_writes && child_writes;
  make_full(relation, of_parent ? parent.anything_reason : child.anything_reason);
  return true;
}

void store(BlockRelation& relation, const Lists& lists) {
  relation.first_parent.reserve(relation.children + 1);
  relation.first_parent.push_back(0);
  relation.parent_list.reserve(relation.edges);
  for (const std::uint32_t list : lists.list_of_child) {
    relation.parent_list.insert(relation.parent_list.end(), lists.lists[list].begin(), lists.lists[list].end());
    relation.first_parent.push_back(static_cast<std::uint32_t>(relation.parent_list.size()));
  }
}

}  // namespace

std::string_view to_string(BlockPattern pattern) {
  switch (pattern) {
    case BlockPattern::kIndependent: return "independent";
    case BlockPattern::kOneToOne: return "one-to-one";
    case BlockPattern::kOneToN: return "one-to-n";
    case BlockPattern::kNToOne: return "n-to-one";
    case BlockPattern::kGroups: return "groups";
    case BlockPattern::kOverlapped: return "overlapped";
    case BlockPattern::kFull: return "full";
  }
  return "";
}

std::uint64_t BlockRelation::encoded_bytes() const {
  const std::uint64_t n = parents, m = children;
  switch (pattern) {
    case BlockPattern::kIndependent:
    case BlockPattern::kFull: return 4;
    case BlockPattern::kOneToOne:
    case BlockPattern::kNToOne: return 4 * n;
    case BlockPattern::kOneToN:
    case BlockPattern::kGroups: return 4 * (n + m);
    case BlockPattern::kOverlapped: return 4 * (n + m * max_degree);
  }
  return 0;
}

std::uint64_t BlockRelation::plain_bytes() const {
  return 4 * (std::uint64_t{parents} + children + edges);
}

BlockRelation block_dependencies(const LaunchFootprint& parent, const LaunchFootprint& child,
                                 const DependencyOptions& options) {
  BlockRelation relation{.parents = parent.blocks(), .children = child.blocks()};
  if (relate_anything(parent, child, relation)) return relation;
  const std::vector<PlacedAccess> of_parent = placed(parent), of_child = placed(child);
  std::vector<PairRelation> pairs;
  std::string whole_reason;
  for (const PlacedAccess& p : of_parent) {
    PlaceIndex index(p);
    for (const PlacedAccess& c : of_child) {
      if (p.access->allocation != c.access->allocation || !(p.writes || c.writes)) continue;
      if (options.raw_only && !(p.writes && c.reads)) continue;
      PairRelation pair = relate(p, index, c);
      if (!pair.any) continue;
      relation.raw |= p.writes && c.reads;
      relation.war |= p.reads && c.writes;
      relation.waw |= p.writes && c.writes;
      if (whole_reason.empty())
        whole_reason = !c.access->whole_reason.empty() ? c.access->whole_reason : p.access->whole_reason;
      pairs.push_back(std::move(pair));
    }
  }
  const Lists lists = merged(pairs, relation.children);
  for (const std::uint32_t list : lists.list_of_child) {
    const auto degree = static_cast<std::uint32_t>(lists.lists[list].size());
    relation.max_degree = std::max(relation.max_degree, degree);
    relation.edges += degree;
  }
  relation.pattern = pattern_of(lists, relation);
  if (relation.pattern == BlockPattern::kIndependent) return relation;
  if (relation.pattern == BlockPattern::kFull) {
    make_full(relation, whole_reason);
  } else if (relation.pattern == BlockPattern::kOverlapped && relation.max_degree > options.max_degree) {
    make_full(relation,
              fmt::format("a block waits for {} others, and {} are the limit", relation.max_degree, options.max_degree));
  } else if (relation.edges > options.max_edges) {
    make_full(relation, fmt::format("{} pairs of blocks, and {} are the limit", relation.edges, options.max_edges));
  } else {
    store(relation, lists);
  }
  return relation;
}

}  // namespace pergola::analysis
