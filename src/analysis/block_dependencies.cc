// How the relation is found:
//
//   accesses   Those of one launch with the same bytes in the same blocks are one.
//   pairs      For two accesses of which one writes, each place of the child's asks the parent's BlockIndex which
//   blocks
//              it meets. Children at one place have one list; equal lists have one number.
//   together   Lists of all pairs are united, once for each combination of numbers that a child has.
//   patterns   are told from lists of ranges: no time or memory is spent on each pair of blocks until a relation is
//              stored, which is when it is within the limits.
#include "src/analysis/block_dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "src/analysis/block_index.h"

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

// The blocks that make an access, by shape and place.
std::vector<std::uint32_t> by_place(const AccessFootprint& access) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t block = 0; block < access.places.size(); ++block) {
    if (access.places[block].shape != AccessFootprint::kNoShape) result.push_back(block);
  }
  const auto key = [&](std::uint32_t block) {
    return std::pair(access.places[block].shape, access.places[block].first);
  };
  if (!std::ranges::is_sorted(result, {}, key)) std::ranges::sort(result, {}, key);
  return result;
}

// What two accesses make. nullopt: lists of more than `max_ranges`, so of more pairs of blocks.
std::optional<Lists> related(BlockIndex& parent, const AccessFootprint& child, const std::vector<std::uint32_t>& blocks,
                             std::uint64_t max_ranges) {
  Lists lists;
  const std::uint32_t none = blocks.size() == child.places.size() ? 0 : lists.pool->number_of({});
  lists.of_child.assign(child.places.size(), none);
  const AccessFootprint::Place* before = nullptr;
  std::uint32_t number = none;
  for (const std::uint32_t block : blocks) {
    const AccessFootprint::Place& place = child.places[block];
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
  relation.first_parent.clear();
  relation.parent_list.clear();
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

void store(BlockRelation& relation, const Lists& lists) {
  relation.first_parent.reserve(relation.children + 1);
  relation.first_parent.push_back(0);
  relation.parent_list.resize(relation.edges);
  auto at = relation.parent_list.begin();
  for (const std::uint32_t number : lists.of_child) {
    for (const BlockInterval& range : (*lists.pool)[number]) {
      const auto end = at + (range.end - range.begin);
      std::iota(at, end, range.begin);
      at = end;
    }
    relation.first_parent.push_back(static_cast<std::uint32_t>(at - relation.parent_list.begin()));
  }
}

// Why a full relation is full: the reasons of accesses that cover their arrays, or that there are too many pairs.
struct Cause {
  bool is_by_bytes = false;  // accesses that do not cover their arrays for a reason make it full by themselves
  std::string whole_reason;

  std::string reason() const { return is_by_bytes ? "" : whole_reason; }
};

// The lists of all pairs of accesses. nullopt: of more ranges than `max_ranges`.
std::optional<Lists> all_lists(const LaunchFootprint& parent, const LaunchFootprint& child, bool raw_only,
                               std::uint64_t max_ranges, BlockRelation& relation, Cause& cause) {
  const std::vector<Access> of_parent = merged_accesses(parent), of_child = merged_accesses(child);
  std::vector<std::vector<std::uint32_t>> blocks(of_child.size());
  std::optional<Lists> all;
  bool is_too_long = false;
  for (const Access& p : of_parent) {
    std::optional<BlockIndex> index;
    for (std::size_t i = 0; i < of_child.size(); ++i) {
      const Access& c = of_child[i];
      const bool raw = p.writes && c.reads, war = p.reads && c.writes, waw = p.writes && c.writes;
      if (p.footprint->allocation != c.footprint->allocation || !(raw || (!raw_only && (war || waw)))) continue;
      if (!index) index.emplace(*p.footprint);
      if (blocks[i].empty()) blocks[i] = by_place(*c.footprint);
      std::optional<Lists> lists = related(*index, *c.footprint, blocks[i], max_ranges);
      if (lists && !lists->any()) continue;
      relation.raw |= raw;
      relation.war |= war && !raw_only;
      relation.waw |= waw && !raw_only;
      const std::string& reason =
          c.footprint->whole_reason.empty() ? p.footprint->whole_reason : c.footprint->whole_reason;
      if (cause.whole_reason.empty()) cause.whole_reason = reason;
      if (is_too_long) continue;
      if (lists) cause.is_by_bytes |= reason.empty() && lists->are_all(relation.parents);
      all = all && lists ? together(*all, *lists, max_ranges) : std::move(lists);
      is_too_long = !all;
    }
  }
  if (is_too_long) return std::nullopt;
  if (!all) all.emplace().of_child.assign(relation.children, all->pool->number_of({}));
  return all;
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
  Cause cause;
  const std::optional<Lists> lists = all_lists(parent, child, options.raw_only, max_edges, relation, cause);
  if (!lists) {
    make_full(relation, fmt::format("more than {} pairs of blocks, which is the limit", max_edges));
    return relation;
  }
  classify(*lists, relation);
  if (relation.pattern == BlockPattern::kIndependent) return relation;
  if (relation.pattern == BlockPattern::kFull) {
    make_full(relation, cause.reason());
  } else if (relation.pattern == BlockPattern::kOverlapped && relation.max_degree > options.max_degree) {
    make_full(relation, fmt::format("a block waits for {} others, and {} are the limit", relation.max_degree,
                                    options.max_degree));
  } else if (relation.edges > max_edges) {
    make_full(relation, fmt::format("{} pairs of blocks, and {} are the limit", relation.edges, max_edges));
  } else {
    store(relation, *lists);
  }
  return relation;
}

}  // namespace pergola::analysis
