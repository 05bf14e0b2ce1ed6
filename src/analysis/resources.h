// What a kernel needs and uses, read off its PTX and that of every function it may call: for `pergola analyze`, and for
// passes that must refuse what they cannot carry.
//
// What an indirect call without .calltargets reaches is counted as every function whose address is taken.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::analysis {

struct Resources {
  std::uint32_t static_shared_bytes = 0;
  bool uses_dynamic_shared = false;
  // Declared .local bytes on the worst chain of calls, each function on it once; a bound only where nothing recurs.
  std::uint64_t local_bytes = 0;

  // Virtual registers that the kernel itself declares, by width; ptxas decides how many real ones that takes.
  std::uint32_t predicates = 0, registers_16 = 0, registers_32 = 0, registers_64 = 0, registers_128 = 0;

  std::set<std::uint32_t> barriers;  // ids of bar and barrier
  bool has_dynamic_barrier = false;  // an id that is no constant
  bool uses_cluster_barrier = false;

  bool uses_atomics = false;          // atom, red, and what behaves as they do; of any space
  bool uses_warp_operations = false;  // shfl, vote, match, redux, elect, activemask, matrix operations
  bool uses_grid_sync = false;        // reads the driver's workspace (%envreg), as cooperative groups do
  bool uses_printf = false;
  bool uses_heap = false;          // malloc
  bool uses_textures = false;      // textures and surfaces
  bool uses_async_copies = false;  // cp.async in any form

  std::uint32_t call_depth = 0;
  bool is_recursive = false;
  bool has_indirect_calls = false;     // without .calltargets
  std::vector<std::string> externals;  // functions called and not defined here, sorted
  std::vector<std::string> opaque;     // "FILE:LINE:COLUMN: text" of each instruction that is not understood
};

// Whether its directives say that it is launched in clusters.
bool is_launched_in_clusters(const ptx::Function& entry);

// `entry` must be an .entry of `module`; kInvalidArgument otherwise.
Result<Resources> resources(const ptx::Module& module, const ptx::Function& entry);

}  // namespace pergola::analysis
