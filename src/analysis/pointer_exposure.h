// Where a kernel looks at the bits of its pointers: from there on the dataflow of pointer_flow.h does not see where a
// value comes from.
//
//   if (x >> i & 1) r ^= 1 << i;      r becomes x by branches alone
//
// So in a kernel that does this, an address that arithmetic put together is taken as universal, whatever bases are
// seen in it; `x + offset` stays in x as before. Tests for null and equality, and the order of two pointers, are no
// look at bits.
#pragma once

#include "src/analysis/pointer_flow.h"

namespace pergola::analysis {

// Whether the instruction makes a condition, or a number that is taken for one, of bits of a parameter, a variable's
// address or a 64-bit value out of memory. After flow.run().
bool exposes_bits(const PointerFlow& flow, PointerFlow::Site site);

}  // namespace pergola::analysis
