// A symbolic access in libisl's notation.
#pragma once

#include <optional>
#include <string>

#include "src/analysis/footprint_accesses.h"

namespace pergola::analysis {

// "{ [b0, b1, b2] -> [f] : ... }": where the access of a block begins, its width always inside the allocation. nullopt:
// it has more terms than kMaxAffineTerms.
inline constexpr std::size_t kMaxAffineTerms = 24;
std::optional<std::string> affine_text(const SymbolicLaunch& launch, const SymbolicAccess& access);

}  // namespace pergola::analysis
