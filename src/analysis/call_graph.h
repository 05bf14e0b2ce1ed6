// Who may call whom, from one kernel down.
//
// Direct calls go to the definition of their name. An indirect call goes to its .calltargets, and without them to every
// function of the module whose address is taken (in an instruction or an initialiser), and perhaps elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/ptx/module.h"

namespace pergola::analysis {

struct CallGraph {
  struct Node {
    const ptx::Function* function = nullptr;
    std::vector<std::uint32_t> callees;  // into nodes, ascending, each once
    bool calls_unknown = false;          // an indirect call without .calltargets, or of a name that is not declared
  };
  std::vector<Node> nodes;               // nodes[0] is the root; declared functions without a body are leaves
  bool is_recursive = false;
  // Functions on the longest chain of calls below the root: 0 where it calls nothing. Each cycle counts once round.
  std::uint32_t depth = 0;
};

// `root` must be of `module`, which must outlive the graph. Any module that parse() returns will do.
CallGraph call_graph(const ptx::Module& module, const ptx::Function& root);

}  // namespace pergola::analysis
