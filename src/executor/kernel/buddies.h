// Shared memory of a resident block as buddies (Pagoda, paper 000, 5.1): leaves, of which an allocation has as many as
// the next power of two, at a multiple of that. The paper keeps a tree; here a bit for each leaf is enough, as which
// inner nodes are taken follows from these.
//
//   leaves   0 1 2 3 4 5 6 7 ...        two have 0, 2, 4, ... to begin at, four 0, 4, ...
//
// Constant expressions, so that the device half and the host's tests have the same.
#pragma once

#include "src/abi/task_ring.h"

namespace pergola::executor {

static_assert(abi::kArenaLeaves == 64, "a bit of a word for each");

// Leaves of `leaf_bytes` that so many bytes, from 1 on, take: a power of two.
constexpr abi::u32 buddy_leaves(abi::u32 bytes, abi::u32 leaf_bytes) {
  const abi::u32 needed = (bytes + leaf_bytes - 1) / leaf_bytes;
  return needed <= 1 ? 1 : abi::u32{1} << (32 - __builtin_clz(needed - 1));
}
// The bits of so many leaves from 0 on.
constexpr abi::u64 buddy_mask(abi::u32 many) {
  return many >= abi::kArenaLeaves ? ~abi::u64{0} : (abi::u64{1} << many) - 1;
}
// Whether the n-th buddy of so many leaves is there, and free as a whole.
constexpr bool is_buddy_free(abi::u64 free, abi::u32 n, abi::u32 many) {
  return abi::u64{n} * many < abi::kArenaLeaves && (free >> n * many & buddy_mask(many)) == buddy_mask(many);
}

}  // namespace pergola::executor
