// Which blocks of a launch must wait for which blocks of an earlier one (paper 001, III-B and III-E): a child block
// depends on a parent block where one of them writes a byte that the other reads or writes.
//
// The relation is exact where the footprints are: a byte that one block writes and the other touches (RAW, WAR, WAW).
// Where a footprint is larger than the truth, so is the relation: never smaller.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/analysis/launch_footprint.h"
#include "src/analysis/parent_lists.h"

namespace pergola::analysis {

// Table I. N parent blocks, M child blocks.
enum class BlockPattern : std::uint8_t {
  kIndependent,  // (7) no child waits for any parent
  kOneToOne,     // (3) a child waits for one parent at most, and a parent has one child at most
  kOneToN,       // (4) a child waits for one parent at most; a parent may have several children
  kNToOne,       // (5) a parent has one child at most; a child may wait for several parents
  kGroups,       // (2) parents and children fall into groups, all of one group waiting for all of that group's parents
  kOverlapped,   // (6) a list of parents for each child, of bounded degree
  kFull,         // (1) every child waits for every parent, or it is taken so
};
std::string_view to_string(BlockPattern pattern);  // "independent" "one-to-one" "one-to-n" ...

struct BlockRelation {
  BlockPattern pattern = BlockPattern::kIndependent;
  bool raw = false, war = false, waw = false;  // the hazards that are in it
  std::uint32_t parents = 0, children = 0;     // blocks of either launch
  ParentLists lists;                           // of each child; empty where the pattern is independent or full
  std::uint32_t max_degree = 0;                // the most parents of a child
  std::uint64_t edges = 0;                     // pairs of a child and a parent it waits for
  // Why a relation is taken as full though the footprints need not make it so; "" otherwise.
  std::string full_reason;
  // Why it was found block by block, "" where it was found by boxes of blocks (block_boxes.h).
  std::string by_block_reason;

  // The parents of a child, ascending. Of a full relation all are, which this does not list.
  BlockView parents_of(std::uint32_t child) const { return lists.of(child); }

  // Bytes of the encoding that Table I gives the pattern, with 4 bytes for a block's number or counter, and of plain
  // storage: for each parent its list of children, and a counter for each child (Table III compares the two).
  std::uint64_t encoded_bytes() const;
  std::uint64_t plain_bytes() const;
};

struct DependencyOptions {
  std::uint32_t max_degree = 64;  // an overlapped relation with more parents of a child is full
  std::uint64_t max_edges = std::uint64_t{1} << 22;
  // Only what the child reads of what the parent wrote, as in the paper. Not enough to run by: for comparison.
  bool raw_only = false;
  // False: block by block even where boxes would do, which gives the same and takes longer.
  bool by_boxes = true;
};

// Deterministic; thread-safe.
BlockRelation block_dependencies(const LaunchFootprint& parent, const LaunchFootprint& child,
                                 const DependencyOptions& options = {});

// Pattern, degrees and lists of a relation of which the rest is set, from the parents of each child, ascending; the
// limits are as above.
void set_parents(const std::vector<std::vector<std::uint32_t>>& parents, const DependencyOptions& options,
                 BlockRelation& relation);

}  // namespace pergola::analysis
