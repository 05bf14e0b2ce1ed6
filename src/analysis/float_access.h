// Whether the numbers that an access moves are floats or doubles, where the text says so beyond doubt: a register that
// is moved is used by arithmetic on them, or the access itself adds.
//
// Of other accesses nothing is said, `ld.global.f32` included: floats may be moved as doubles, or four at a time, and
// integers of that size may be the bits of floats.
#pragma once

#include <vector>

#include "src/analysis/reaching.h"

namespace pergola::analysis {

class FloatAccesses {
 public:
  FloatAccesses() = default;
  // Looks at the function once.
  FloatAccesses(const ptx::Function& function, const ReachingDefinitions& definitions);
  // kF32, kF64, or kNone where the text does not say. `access` is an instruction of that function.
  ptx::Type type_of(const ptx::Instruction& access) const;

 private:
  std::vector<ptx::Type> by_use_;  // of each register
};

}  // namespace pergola::analysis
