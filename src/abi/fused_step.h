// What a resident cluster that runs a chain of launches is told of each (transform/fused_chain.h writes the code that
// reads it, runtime/fused_lowering.h fills it).
//
//   table, in global memory, copied to shared memory by each of the cluster's blocks as it starts
//   │ step 0 │ step 1 │ ... │ parameters of step 0 │ of step 1 │ ...
//
//   blocks of a step over the cluster: block b is run by block b % C of the cluster, in its place (b / C) % groups
//   in columns: block c of a grid of C runs blocks [c * blocks, (c + 1) * blocks) of the launch, or c, c + C, c + 2 C,
//   ...
#pragma once

#include "src/abi/task_slot.h"

namespace pergola::abi {

struct alignas(16) FusedStep {
  u32 body;                       // its number in the kernel
  u32 blocks;                     // of the launch; in columns those of a column
  u32 groups;                     // of its blocks that a block of the cluster runs at once
  u32 warps;                      // of a block
  u32 block_x, block_y, block_z;  // %ntid
  u32 threads;                    // their product
  u32 grid_x, grid_y, grid_z;     // %nctaid
  u32 shared_stride_bytes;        // shared memory of a block
  u32 parameters;                 // where they begin in the table
  u32 dynamic_shared_bytes;
  u32 named;  // named barriers that a block has; 0: none
  u32 waits;  // nonzero: it needs what some step before it made, since the last one that waited
};
static_assert(sizeof(FusedStep) == 64);

// The parameters of the kernel, in this order.
struct FusedParameters {
  u64 table;        // its address, 16-byte aligned
  u32 table_bytes;  // a multiple of 16
  u32 steps;
};
static_assert(sizeof(FusedParameters) == 16);

}  // namespace pergola::abi
