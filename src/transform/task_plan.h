// What the functions of one task have in common: where shared variables lie, which barriers there are, who meets whom.
#pragma once

#include <map>
#include <string>

#include "src/analysis/call_graph.h"
#include "src/ptx/signature.h"
#include "src/transform/entry_to_task.h"
#include "src/transform/lane_flow.h"
#include "src/transform/reached_names.h"

namespace pergola::transform {

// A bar or barrier instruction of the block, taken apart.
struct BarrierUse {
  enum class Form : std::uint8_t { kSync, kArrive, kPopc, kAnd, kOr };
  Form form = Form::kSync;
  bool is_aligned = true;
  ptx::Operand id;
  std::optional<ptx::Operand> count;
  ptx::Operand predicate, result;  // of the last three forms
};
bool is_block_barrier(const ptx::Instruction& instruction);  // bar.sync and the rest, not bar.warp.sync
BarrierUse take_apart(const ptx::Instruction& instruction);

// What an instruction that is no call does together.
Together own_together(const ptx::Instruction& instruction);

struct TaskPlan {
  TaskConfig config;
  const ptx::Module* module = nullptr;
  const ptx::Function* entry = nullptr;
  ptx::KernelSignature signature;

  // Offsets in the block's shared memory: of module variables, and of those that a function declares.
  std::map<std::string, std::uint32_t, std::less<>> shared;
  std::map<std::string, std::map<std::string, std::uint32_t, std::less<>>, std::less<>> shared_of_function;
  std::uint32_t static_shared_bytes = 0, dynamic_shared_offset = 0, shared_align_bytes = 1;
  bool uses_dynamic_shared = false;

  // Index of each barrier id; by_register: ids are not all known, and are their own index.
  std::map<std::uint32_t, std::uint32_t> barriers;
  bool barriers_by_register = false;
  std::vector<TaskBarrierKind> kinds;
  std::vector<bool> without_count;  // by index: some use has no count, so the warps that are left matter

  std::map<std::string, Together, std::less<>> together;  // by function, with what it calls
  Together together_indirect = Together::kNo;
  bool callees_meet = false;  // some device function has a collective
  bool callees_have_barriers = false;
  bool is_ragged = false;
  std::uint32_t named_barriers = 0;
  bool copies_asynchronously = false;  // some function has a cp.async

  Together together_at(const ptx::Instruction& instruction) const;
};

// `reached` is of the entry.
Result<TaskPlan> make_task_plan(const ptx::Module& module, const ptx::Function& entry, const analysis::CallGraph& graph,
                                const ReachedNames& reached, const TaskConfig& config);

}  // namespace pergola::transform
