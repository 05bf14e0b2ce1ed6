// A second tier behind the closed form of footprints: what each access of a launch touches as an affine set of block,
// thread, loop counters and unknowns, and relations between launches composed of these by libisl.
//
//   { [bx, by, bz] -> [byte] : exists tid, k, ... : byte = offset and guards and what each term is }
//
// The closed form takes each term by its bounds, and so joins what a choice keeps apart (half of the threads have a
// row, half a column: `row or column` becomes everything from the one to the other). An affine set keeps it. It takes
// milliseconds where the closed form takes microseconds: not for the path of a launch.
//
// Never less than the truth: what is not affine is a term with its bounds, and where libisl would take more operations
// than it is given the answer is the closed form's, with the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/analysis/block_dependencies.h"
#include "src/analysis/footprints.h"

namespace pergola::analysis {

struct AffineLimits {
  std::uint64_t operations = 20'000'000;  // of libisl, for one relation; some 5 million a second
  std::uint64_t pairs = 1u << 18;         // of blocks that are listed
};

// A launch; both are borrowed.
struct AffineLaunch {
  const KernelFootprints* kernel = nullptr;
  const LaunchValues* values = nullptr;
};

struct AffineRelation {
  BlockRelation relation;
  std::string reason;  // why the relation is the closed form's; "" where it is of affine sets
};

// Whether this build has libisl; without it every relation is the closed form's.
bool has_affine_sets();

// Thread-safe; each thread that asks keeps an isl_ctx of its own.
Result<AffineRelation> affine_dependencies(const AffineLaunch& parent, const AffineLaunch& child,
                                           const DependencyOptions& options = {}, const AffineLimits& limits = {});

// Of bytes that blocks of a launch access, the first that its affine sets say is not accessed: there is none but for a
// fault of theirs, which is for tests to find.
struct AffineByte {
  std::uint32_t block = 0;
  AllocationId allocation = 0;
  std::int64_t byte = 0;
  bool is_write = false;
};
std::optional<std::size_t> find_excluded(const AffineLaunch& launch, std::span<const AffineByte> bytes,
                                         const AffineLimits& limits = {});

}  // namespace pergola::analysis
