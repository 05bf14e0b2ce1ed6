// The text of what a barrier of a block becomes: a rendezvous of the lanes of a warp that are left, of which one
// arrives for the warp and waits. Names are those of TaskNames; a barrier's operands are arguments %id, %count, %pred,
// %out, %guard.
#pragma once

#include <string>

#include "src/transform/task_plan.h"

namespace pergola::transform {

// Registers of a body by name; all are 32 bits wide.
inline constexpr char kSlotName[] = "%pergola_slot";  // address of the warp's slot, in .shared
inline constexpr char kLiveName[] = "%pergola_live";  // lanes that take part
inline constexpr char kParametersName[] = "%pergola_parameters";
inline constexpr char kThreadsName[] = "%pergola_threads";  // of the block

struct BarrierText {
  BarrierUse::Form form = BarrierUse::Form::kSync;
  bool is_aligned = true;
  bool has_count = false, has_guard = false;
  std::optional<std::uint32_t> index;  // empty: it is %id
  TaskBarrierKind kind = TaskBarrierKind::kMbarrier;
  bool may_be_named = false;
  bool is_one_warp = false;  // the block is: nobody else to wait for
  bool has_try_wait = true;  // the target's: sm_90
  std::string gather;        // text that sets %pergola_live
};
std::string barrier_text(const BarrierText& barrier);

// One lane takes its warp, whose lanes have all returned, out of barrier `index`.
std::string drop_text(std::uint32_t index, TaskBarrierKind kind);

}  // namespace pergola::transform
