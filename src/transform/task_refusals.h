// What keeps a kernel from being a task, said with the line and the mend.
#pragma once

#include "src/analysis/call_graph.h"
#include "src/base/result.h"
#include "src/transform/entry_to_task.h"

namespace pergola::transform {

// kUnsupported with the first reason, in the order: of the kernel, of its instructions and of those of what it calls,
// of the module's variables. Shared memory is the layout's to judge.
Status refuse_as_task(const ptx::Module& module, const ptx::Function& entry, const analysis::CallGraph& graph,
                      const TaskConfig& config);

}  // namespace pergola::transform
