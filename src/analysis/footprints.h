// What each block of a launch reads and writes, from the kernel's PTX and the launch's values (paper 001, III-B:
// "value range analysis", here in closed form over expressions instead of thread by thread).
//
// Every address is a sum of the base of an allocation, the thread's and the block's index, loop counters and what is
// left unknown. Conditions on the way to an access narrow it. Registers hold numbers modulo 2^32 or 2^64: an expression
// is taken as such a residue, and where an instruction reads it as a signed or unsigned number (a widening, a
// comparison, a shift to the right, a division) its bounds must prove that it does not wrap; else it is unknown.
//
// Sound: no access of a block lies outside its footprint, if the kernel stays inside its allocations. What cannot be
// told is larger, never left out: an unknown index covers its base's whole allocation, an unknown base is anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/analysis/launch_footprint.h"
#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::analysis {

struct SymbolicLaunch;  // footprint_accesses.h

struct LaunchValues {
  // A parameter, or a field of one, that is a pointer into an allocation.
  struct Pointer {
    std::uint32_t offset_bytes = 0;  // in the parameter buffer
    AllocationId allocation = 0;
    std::int64_t position = 0;  // of what it points at, in the allocation
    std::uint64_t allocation_bytes = 0;
  };
  struct ModuleVariable {
    std::string name;
    AllocationId allocation = 0;
    std::uint64_t allocation_bytes = 0;
  };
  std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  std::vector<std::byte> parameters;  // as ptx::signature() lays them out
  std::vector<Pointer> pointers;
  std::vector<ModuleVariable> variables;

  // The module's variables in global memory, as allocations from that number on; the number behind them.
  AllocationId add_variables(const ptx::Module& module, AllocationId number);
};

enum class FootprintDetail : std::uint8_t { kAllocations, kBoxes, kEachBlock };

class KernelFootprints {
 public:
  // Once a kernel. Both must outlive the object. Refuses what build_cfg() and ptx::signature() refuse.
  static Result<KernelFootprints> of(const ptx::Module& module, const ptx::Function& entry);
  KernelFootprints(KernelFootprints&&) noexcept;
  KernelFootprints& operator=(KernelFootprints&&) noexcept;
  ~KernelFootprints();

  // For a launch; thread-safe. kInvalidArgument: a parameter buffer of the wrong size, an empty grid or block, more
  // than 2^22 blocks.
  Result<LaunchFootprint> at(const LaunchValues& values) const;
  // The same with `accesses` that tell their allocation, and whether they read and write it, but not of which blocks:
  // no shapes, no places. Much less work where there are many blocks.
  Result<LaunchFootprint> allocations_at(const LaunchValues& values) const;
  // at(), with each block worked out by itself in place of boxes of blocks: for tests, which hold the two to be equal.
  Result<LaunchFootprint> at_each_block(const LaunchValues& values) const;

  // What affine/ makes sets of; refuses as at() does.
  Result<SymbolicLaunch> symbolic_at(const LaunchValues& values) const;

  struct Kernel;  // what is known of it without a launch

 private:
  explicit KernelFootprints(std::unique_ptr<const Kernel> kernel);
  Status check(const LaunchValues& values) const;
  Result<LaunchFootprint> analyse(const LaunchValues& values, FootprintDetail detail) const;
  std::unique_ptr<const Kernel> kernel_;
};

}  // namespace pergola::analysis
