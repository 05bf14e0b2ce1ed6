// Which accesses of a body are fenced, and which of them one check does for: accesses by the same register at constant
// offsets, in one basic block, are a group; its check stands before the first and covers all of their bytes.
//
// A check may stand for accesses behind it only where these surely come: in the same block, with no call between, under
// the same guard. A group whose bytes have been checked on every way to it needs none, where a lane that fails leaves:
// who comes there has passed.
#pragma once

#include <vector>

#include "src/analysis/cfg.h"
#include "src/transform/entry_to_task.h"

namespace pergola::transform {

struct FencedAccess {
  std::uint32_t statement = 0;
  std::size_t operand = 0;  // that is the address
  FenceSite::Kind kind = FenceSite::Kind::kRead;
  std::int64_t offset = 0;
  std::uint32_t bytes = 0;  // and it must be a multiple of that
  bool is_weak = true;      // else it is a group of its own: it may wait for others
};

struct FenceGroup {
  std::vector<FencedAccess> accesses;  // in the order of the text
  ptx::Operand base;                   // a register, or a number
  ptx::Guard guard;
  bool is_generic = false;          // may be shared or local memory
  bool may_leave = false;           // a lane that fails here
  std::int64_t begin = 0, end = 0;  // bytes that are accessed, from the base
  std::int64_t aligned = 0;         // base + aligned must be a multiple of align
  std::uint32_t align = 1;
  // A granule that holds the first byte holds the last one.
  bool is_one_unit() const { return aligned == begin && end - begin <= align; }
  bool writes() const;
};

inline constexpr std::int64_t kMostFencedSpan = 2048;  // of a group

// `may_leave`: by block. In the order of the text.
std::vector<FenceGroup> fence_groups(const ptx::Function& function, const analysis::Cfg& cfg, bool merges,
                                     const std::vector<bool>& may_leave);

}  // namespace pergola::transform
