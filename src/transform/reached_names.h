// What a function leads to: for passes that take a kernel out of its module, so that it carries neither the functions
// nor the shared memory of other kernels.
//
//   entry k ──names──▶ func f ──names──▶ .shared tile            left: k, f, tile, table, g
//          ──names──▶ .const table = {g} ──names──▶ func g       gone: h, and what only h or other kernels name
//
// Nothing that may be used goes: a name counts wherever it stands, also where a variable of the function hides the
// module's; an indirect call without .calltargets leads to every function of the module whose address is taken
// (analysis/call_graph.h).
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "src/ptx/module.h"

namespace pergola::transform {

// Thread-compatible.
class ReachedNames {
 public:
  // `root` is one of the module's functions; neither is looked at later.
  ReachedNames(const ptx::Module& module, const ptx::Function& root);

  bool contains(std::string_view name) const { return names_.contains(name); }
  // Whether the module needs this item of its own for what is reached: of what is kept verbatim, an alias of a function
  // that is not goes as well.
  bool needs(const ptx::Item& item) const;

 private:
  std::set<std::string, std::less<>> names_;
};

// Takes out of `module` what `root`, one of its functions, does not lead to. Thread-compatible.
void leave_only_reached(ptx::Module& module, std::string_view root);

}  // namespace pergola::transform
