// Which operands of an instruction address memory, in which space, and whether it is read or written there.
//
// semantics.h says what an instruction does to memory as a whole; copies (cp.async) read through one operand and
// write through another, texture and tensor instructions reach memory that no operand addresses.
#pragma once

#include <boost/container/small_vector.hpp>

#include "src/ptx/module.h"

namespace pergola::analysis {

struct MemoryOperand {
  std::size_t operand = 0;  // index of the kAddress operand; kNowhere where memory is reached by other means
  ptx::Space space = ptx::Space::kNone;
  bool reads = false, writes = false;
  bool is_sure = true;  // the instruction does just that; else it is the worst that one not told apart may do
  static constexpr std::size_t kNowhere = ~std::size_t{0};
};

// Without prefetches and hints, which touch nothing, and without calls.
boost::container::small_vector<MemoryOperand, 2> memory_operands(const ptx::Instruction& instruction);

}  // namespace pergola::analysis
