// How the relation is found:
//
//   accesses   Those of one launch with the same bytes in the same blocks are one.
//   boxes      By boxes of blocks that have the same parents relative to themselves (block_boxes.h), where that can be.
//
// Else block by block:
//
//   pairs      For two accesses of which one writes, each place of the child's asks the parent's BlockIndex which
//              blocks it meets. Children at one place have one list; equal lists have one number.
//   together   Lists of all pairs are united, once for each combination of numbers that a child has.
//
// Patterns are told from lists of ranges: no time or memory is spent on each pair of blocks.
#include "src/analysis/block_dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "src/analysis/block_boxes.h"
#include "src/analysis/block_index.h"
#include "src/analysis/box_patterns.h"

namespace pergola::analysis {
namespace {

struct Access {
  const AccessFootprint* footprint = nullptr;
  bool reads = false, writes = false;
};

// The same bytes by the same blocks, as where a value is read and written again, are one access.
std::vector<Access> merged_accesses(const LaunchFootprint& launch) {
  std::vector<Access> result;
  for (const AccessFootprint& access : launch.accesses) {
    const auto same = std::ranges::find_if(result, [&](const Access& other) {
      return other.footprint->allocation == access.allocation && other.footprint->shapes == access.shapes &&
             other.footprint->places == access.places;
    });
    if (same == result.end()) {
      result.push_back({&access, access.reads, access.writes});
    } else {
      same->reads |= access.reads;
      same->writes |= access.writes;
    }
  }
  return result;
}

// For each child its parents, as the number of a list.
struct Lists {
  std::unique_ptr<BlockListPool> pool = std::make_unique<BlockListPool>();
  std::vector<std::uint32_t> of_child;

  bool any() const { return pool->ranges() != 0; }
  bool are_all(std::uint32_t parents) const { return pool->lists() == 1 && size((*pool)[0]) == parents; }
};

// The places of an access, and the blocks that make it by shape and place.
struct ByPlace {
  std::vector<AccessFootprint::Place> places;
  std::vector<std::uint32_t> blocks;

  explicit ByPlace(const AccessFootprint& access) : places(access.places.expanded()) {
    for (std::uint32_t block = 0; block < places.size(); ++block) {
      if (places[block].shape != AccessFootprint::kNoShape) blocks.push_back(block);
    }
    const auto key = [&](std::uint32_t block) { return std::pair(places[block].shape, places[block].first); };
    if (!std::ranges::is_sorted(blocks, {}, key)) std::ranges::sort(blocks, {}, key);
  }
};

// What two accesses make. nullopt: lists of more than `max_ranges`, so of more pairs of blocks.
std::optional<Lists> related(BlockIndex& parent, const AccessFootprint& child, const ByPlace& by_place,
                             std::uint64_t max_ranges) {
  Lists lists;
  const auto& [places, blocks] = by_place;
  const std::uint32_t none = blocks.size() == places.size() ? 0 : lists.pool->number_of({});
  lists.of_child.assign(places.size(), none);
  const AccessFootprint::Place* before = nullptr;
  std::uint32_t number = none;
  for (const std::uint32_t block : blocks) {
    const AccessFootprint::Place& place = places[block];
    if (before == nullptr || before->shape != place.shape) parent.ask_for(child.shapes[place.shape]);
    if (before == nullptr || *before != place) number = lists.pool->number_of(parent.find(place.first));
    if (lists.pool->ranges() > max_ranges) return std::nullopt;
    lists.of_child[block] = number;
    before = &place;
  }
  return lists;
}

std::optional<Lists> together(const Lists& a, const Lists& b, std::uint64_t max_ranges) {
  Lists lists;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> known;
  lists.of_child.reserve(a.of_child.size());
  for (std::size_t child = 0; child < a.of_child.size(); ++child) {
    const std::uint32_t of_a = a.of_child[child], of_b = b.of_child[child];
    const auto [found, is_new] = known.try_emplace((std::uint64_t{of_a} << 32) | of_b, 0);
    if (is_new) found->second = lists.pool->number_of(united((*a.pool)[of_a], (*b.pool)[of_b]));
    if (lists.pool->ranges() > max_ranges) return std::nullopt;
    lists.of_child.push_back(found->second);
  }
  return lists;
}

void make_full(BlockRelation& relation, std::string reason) {
  relation.pattern = BlockPattern::kFull;
  relation.lists = {};
  relation.max_degree = relation.parents;
  relation.edges = std::uint64_t{relation.parents} * relation.children;
  relation.full_reason = std::move(reason);
}

// Sums up, for each parent, what is added at the begins of ranges and taken away at their ends.
std::uint64_t most_at_once(std::vector<std::int64_t>& changes) {
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return static_cast<std::uint64_t>(std::ranges::max(changes));
}

// Counts pairs and degrees, and tells the pattern.
void classify(const Lists& lists, BlockRelation& relation) {
  std::vector<std::uint32_t> children(lists.pool->lists());  // of a list
  for (const std::uint32_t number : lists.of_child) ++children[number];
  std::vector<std::int64_t> children_of_parent(relation.parents + 1), lists_of_parent(relation.parents + 1);
  bool are_all = true;
  for (std::uint32_t number = 0; number < lists.pool->lists(); ++number) {
    if (children[number] == 0) continue;
    const BlockList& list = (*lists.pool)[number];
    const std::uint32_t degree = size(list);
    are_all &= degree == relation.parents;
    relation.max_degree = std::max(relation.max_degree, degree);
    relation.edges += std::uint64_t{degree} * children[number];
    for (const BlockInterval& range : list) {
      children_of_parent[range.begin] += children[number];
      children_of_parent[range.end] -= children[number];
      ++lists_of_parent[range.begin];
      --lists_of_parent[range.end];
    }
  }
  const bool has_one_child = most_at_once(children_of_parent) <= 1;
  if (relation.max_degree == 0) {
    relation.pattern = BlockPattern::kIndependent;
  } else if (relation.max_degree == 1) {
    relation.pattern = has_one_child ? BlockPattern::kOneToOne : BlockPattern::kOneToN;
  } else if (has_one_child) {
    relation.pattern = BlockPattern::kNToOne;
  } else if (are_all) {
    relation.pattern = BlockPattern::kFull;
  } else {
    relation.pattern = most_at_once(lists_of_parent) <= 1 ? BlockPattern::kGroups : BlockPattern::kOverlapped;
  }
}

bool reads(const LaunchFootprint& launch) {
  return launch.reads_anything || std::ranges::any_of(launch.accesses, &AccessFootprint::reads);
}
bool writes(const LaunchFootprint& launch) {
  return launch.writes_anything || std::ranges::any_of(launch.accesses, &AccessFootprint::writes);
}

// A launch that may touch anything waits, and is waited for, where the other one writes, or it does.
bool relate_anything(const LaunchFootprint& parent, const LaunchFootprint& child, bool raw_only,
                     BlockRelation& relation) {
  const auto meet = [](bool a, bool a_anything, bool b, bool b_anything) {
    return a && b && (a_anything || b_anything);
  };
  const bool raw = meet(writes(parent), parent.writes_anything, reads(child), child.reads_anything);
  const bool war = meet(reads(parent), parent.reads_anything, writes(child), child.writes_anything);
  const bool waw = meet(writes(parent), parent.writes_anything, writes(child), child.writes_anything);
  if (!raw && (raw_only || (!war && !waw))) return false;
  // Those between accesses whose arrays are known are not looked for: they may be.
  relation.raw = writes(parent) && reads(child);
  relation.war = !raw_only && reads(parent) && writes(child);
  relation.waw = !raw_only && writes(parent) && writes(child);
  const bool of_parent = (parent.writes_anything && (raw || waw)) || (parent.reads_anything && war);
  make_full(relation, of_parent ? parent.anything_reason : child.anything_reason);
  return true;
}

// Why a full relation is full: the reasons of accesses that cover their arrays, or that there are too many pairs.
struct Cause {
  bool is_by_bytes = false;  // accesses that do not cover their arrays for a reason make it full by themselves
  std::string whole_reason;

  std::string reason() const { return is_by_bytes ? "" : whole_reason; }
};

// Two accesses of which one writes.
struct Conflict {
  AccessPair accesses;
  bool raw = false, war = false, waw = false;

  const std::string& whole_reason() const {
    const std::string& of_child = accesses.child->whole_reason;
    return of_child.empty() ? accesses.parent->whole_reason : of_child;
  }
  void add_to(BlockRelation& relation) const {
    relation.raw |= raw;
    relation.war |= war;
    relation.waw |= waw;
  }
};

// One after the other for each access of the parent.
std::vector<Conflict> conflicts(const LaunchFootprint& parent, const LaunchFootprint& child, bool raw_only,
                                std::vector<Access>& of_parent, std::vector<Access>& of_child) {
  of_parent = merged_accesses(parent);
  of_child = merged_accesses(child);
  std::vector<Conflict> result;
  for (const Access& p : of_parent) {
    for (const Access& c : of_child) {
      if (p.footprint->allocation != c.footprint->allocation) continue;
      const Conflict one{.accesses = {p.footprint, c.footprint},
                         .raw = p.writes && c.reads,
                         .war = !raw_only && p.reads && c.writes,
                         .waw = !raw_only && p.writes && c.writes};
      if (one.raw || one.war || one.waw) result.push_back(one);
    }
  }
  return result;
}

// The lists of all conflicts. nullopt: of more ranges than `max_ranges`.
std::optional<Lists> all_lists(std::span<const Conflict> conflicts, std::uint64_t max_ranges, BlockRelation& relation,
                               Cause& cause) {
  std::map<const AccessFootprint*, ByPlace> by_place;
  std::optional<Lists> all;
  bool is_too_long = false;
  std::optional<BlockIndex> index;
  const AccessFootprint* indexed = nullptr;
  for (const Conflict& conflict : conflicts) {
    const auto [parent, child] = conflict.accesses;
    if (parent != indexed) index.emplace(*parent);
    indexed = parent;
    const ByPlace& places = by_place.try_emplace(child, *child).first->second;
    std::optional<Lists> lists = related(*index, *child, places, max_ranges);
    if (lists && !lists->any()) continue;
    conflict.add_to(relation);
    const std::string& reason = conflict.whole_reason();
    if (cause.whole_reason.empty()) cause.whole_reason = reason;
    if (is_too_long) continue;
    if (lists) cause.is_by_bytes |= reason.empty() && lists->are_all(relation.parents);
    all = all && lists ? together(*all, *lists, max_ranges) : std::move(lists);
    is_too_long = !all;
  }
  if (is_too_long) return std::nullopt;
  if (!all) all.emplace().of_child.assign(relation.children, all->pool->number_of({}));
  return all;
}

// Makes a relation that is over the limits full. `cause` is that of one which is full by itself.
void limit(BlockRelation& relation, const DependencyOptions& options, std::uint64_t max_edges, const Cause& cause) {
  if (relation.pattern == BlockPattern::kIndependent) {
    relation.lists = {};
  } else if (relation.pattern == BlockPattern::kFull) {
    make_full(relation, cause.reason());
  } else if (relation.pattern == BlockPattern::kOverlapped && relation.max_degree > options.max_degree) {
    make_full(relation, fmt::format("a block waits for {} others, and {} are the limit", relation.max_degree,
                                    options.max_degree));
  } else if (relation.edges > max_edges) {
    make_full(relation, fmt::format("{} pairs of blocks, and {} are the limit", relation.edges, max_edges));
  }
}

void relate_by_block(std::span<const Conflict> conflicts, const DependencyOptions& options, std::uint64_t max_edges,
                     BlockRelation& relation) {
  Cause cause;
  std::optional<Lists> lists = all_lists(conflicts, max_edges, relation, cause);
  if (!lists) {
    make_full(relation, fmt::format("more than {} pairs of blocks, which is the limit", max_edges));
    return;
  }
  classify(*lists, relation);
  relation.lists = ParentLists(*lists->pool, std::move(lists->of_child));
  limit(relation, options, max_edges, cause);
}

// False, with the reason in the relation: it is not told by boxes.
bool relate_by_boxes(std::span<const Conflict> conflicts, const LaunchFootprint& parent, const LaunchFootprint& child,
                     const DependencyOptions& options, std::uint64_t max_edges, BlockRelation& relation) {
  if (!options.by_boxes) {
    relation.by_block_reason = "it was asked for";
    return false;
  }
  std::vector<AccessPair> pairs;
  for (const Conflict& conflict : conflicts) pairs.push_back(conflict.accesses);
  BoxRelation boxes = relate_boxes(pairs, parent.grid, child.grid);
  if (!boxes.reason.empty()) {
    relation.by_block_reason = std::move(boxes.reason);
    return false;
  }
  classify(boxes, relation);
  Cause cause;
  for (std::size_t i = 0; i < conflicts.size(); ++i) {
    if (!boxes.meets[i]) continue;
    conflicts[i].add_to(relation);
    const std::string& reason = conflicts[i].whole_reason();
    if (cause.whole_reason.empty()) cause.whole_reason = reason;
    if (relation.pattern != BlockPattern::kFull || !reason.empty() || cause.is_by_bytes) continue;
    const BoxRelation alone = relate_boxes({&pairs[i], 1}, parent.grid, child.grid);
    cause.is_by_bytes = alone.reason.empty() && are_all(alone, relation.parents);
  }
  relation.lists = ParentLists(child.grid, boxes.families, std::move(boxes.tree));
  limit(relation, options, max_edges, cause);
  return true;
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
  if (relate_anything(parent, child, options.raw_only, relation)) return relation;
  const std::uint64_t max_edges = std::min<std::uint64_t>(options.max_edges, std::numeric_limits<std::uint32_t>::max());
  std::vector<Access> of_parent, of_child;
  const std::vector<Conflict> found = conflicts(parent, child, options.raw_only, of_parent, of_child);
  if (!relate_by_boxes(found, parent, child, options, max_edges, relation))
    relate_by_block(found, options, max_edges, relation);
  return relation;
}

void set_parents(const std::vector<std::vector<std::uint32_t>>& parents, const DependencyOptions& options,
                 BlockRelation& relation) {
  Lists lists;
  for (const std::vector<std::uint32_t>& list : parents) {
    BlockList ranges;
    for (const std::uint32_t parent : list) ranges.push_back({parent, parent + 1});
    normalize(ranges);
    lists.of_child.push_back(lists.pool->number_of(std::move(ranges)));
  }
  classify(lists, relation);
  relation.lists = ParentLists(*lists.pool, std::move(lists.of_child));
  limit(relation, options, options.max_edges, {});
}

}  // namespace pergola::analysis
