// How blocks of successive launches find each other in device memory: what a launch of a chain is given behind its own
// parameters (transform/block_signals.h writes the code that reads it, runtime/block_lowering.h fills it).
//
//   counters   │ launch 0: a word a block │ launch 1 │ ...      grows by the block's threads as they end
//   epochs     │ launch 0: a word a block │ launch 1 │ ...      how often the chain has been run before, by block
//   parents    │ block 0: `stride` entries │ block 1 │ ...      whom a block waits for; unused entries have kNoParent
//
// In the chain's run number e (from 0) a block waits until counter >= (e + 1) * threads of each parent, in 32 bits that
// wrap. Nothing is cleared between runs. An epoch is its own block's alone: read and written by that block, once a run.
#pragma once

#include "src/abi/task_slot.h"

namespace pergola::abi {

struct BlockParent {
  u32 counter;  // index into counters
  u32 threads;  // of the parent
};
inline constexpr u32 kNoParent = 0xffffffff;

// The layout of the parameter that the pass appends, 8-byte aligned.
struct BlockLinks {
  u64 parents;   // address of BlockParent[blocks * stride]
  u64 counters;  // address of the chain's u32[]
  u64 epochs;    // address of this launch's u32[blocks]
  u32 own;       // counter of this launch's block 0
  u32 stride;
};
inline constexpr u32 kBlockLinksBytes = 32;
static_assert(sizeof(BlockLinks) == kBlockLinksBytes);

}  // namespace pergola::abi
