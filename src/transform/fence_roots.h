// Which pointer an address is reckoned from: a register that is loaded, given or made of what is no address, from which
// others are made by adding offsets. Accesses of one root are mostly near each other, so fences remember one granule
// for each (fence_accesses.h).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "src/ptx/module.h"

namespace pergola::transform {

class FenceRoots {
 public:
  explicit FenceRoots(const ptx::Function& function);

  // Of a 64-bit register: itself where it is not found out.
  ptx::RegisterId root(ptx::RegisterId address);

 private:
  // What one definition says: the root; nothing where no address is among its operands. kItself while it is looked for.
  struct Found {
    enum class Kind { kNone, kItself, kRoot } kind = Kind::kNone;
    ptx::RegisterId root = 0;
  };
  Found find(ptx::RegisterId address);
  Found of_definition(ptx::RegisterId address, const ptx::Instruction& in);
  Found of_operand(const ptx::Operand& operand);

  std::map<ptx::RegisterId, std::vector<const ptx::Instruction*>> definitions_;
  std::map<ptx::RegisterId, std::optional<Found>> found_;  // nothing while it is looked for
};

}  // namespace pergola::transform
