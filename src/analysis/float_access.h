// Whether the numbers that an access moves are floats or doubles, where the text says so beyond doubt.
//
// Compilers load and store floats as .f32, or as .b32 into registers that arithmetic on floats uses. Of other accesses
// nothing is said: integers of that size may be the bits of floats, and bytes anything.
#pragma once

#include "src/analysis/reaching.h"

namespace pergola::analysis {

// kF32, kF64, or kNone where the text does not say. `access` is an instruction of `function`, which `definitions` are
// of.
ptx::Type float_type_of(const ptx::Function& function, const ReachingDefinitions& definitions,
                        const ptx::Instruction& access);

}  // namespace pergola::analysis
