// One function of a task, rewritten: the kernel itself, or a device function that it calls.
#pragma once

#include "src/transform/task_plan.h"

namespace pergola::transform {

inline constexpr char kTaskSlotsName[] = "pergola_task_slots";
inline constexpr char kBeginLabel[] = "$pergola_begin";  // of a kernel's body with fences: behind what the slot says
inline constexpr char kEndLabel[] = "$pergola_end";      // of a kernel's body: what returning lanes go to

// The function's body with everything a block has of its own taken from the warp's slot. `flow` is the kernel's, over a
// body as end_at_label() leaves it; null for a device function. kUnsupported where a form of an instruction cannot be
// carried.
Result<ptx::Function> rewrite_for_task(const ptx::Function& function, const TaskPlan& plan, const LaneFlow* flow);

// Makes each `ret` and `exit` a branch to a label behind the body's last statement.
void end_at_label(ptx::Function& function);

}  // namespace pergola::transform
