#include "src/analysis/footprints.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/analysis/footprint_accesses.h"
#include "src/analysis/inlined_calls.h"
#include "src/analysis/memory_operands.h"
#include "src/analysis/pointer_modes.h"
#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::Space;

constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 22;

// Memory that other blocks and kernels may see, and that this does not only name: not shared, local or parameters.
bool may_be_global(const MemoryOperand& memory) {
  return memory.space == Space::kGlobal || memory.space == Space::kNone || memory.space == Space::kTex;
}

bool calls_anything(const ptx::Function& function) {
  return std::ranges::any_of(function.body, [](const ptx::Statement& statement) {
    return statement.instruction() != nullptr && statement.instruction()->op == Op::kCall;
  });
}

// Bytes that one access takes; 0 where the instruction is not told apart.
std::uint64_t width_of(const Instruction& instruction, const MemoryOperand& memory) {
  switch (instruction.op) {
    case Op::kLd:
    case Op::kLdu:
    case Op::kSt:
    case Op::kAtom:
    case Op::kRed:
      return std::uint64_t{ptx::size_bytes(instruction.type())} *
             static_cast<std::uint64_t>(instruction.vector_width());
    case Op::kCp: {
      const bool is_plain = !instruction.has(ptx::Mod::kBulk) && memory.is_sure && instruction.operands.size() > 2;
      const ptx::Operand* bytes = is_plain ? &instruction.operands[2] : nullptr;
      return bytes != nullptr && bytes->kind == ptx::Operand::Kind::kInteger ? bytes->bits : 0;
    }
    default: return 0;
  }
}

class LaunchAnalysis {
 public:
  LaunchAnalysis(const KernelFootprints::Kernel& kernel, const LaunchValues& values, FootprintDetail detail)
      : kernel_(kernel), values_(values), detail_(detail), symbols_(kernel, values) {}

  SymbolicLaunch symbolic() {
    SymbolicLaunch launch;
    launch.closed = run();
    launch.reason = whole_reason();
    if (launch.closed.reads_anything || launch.closed.writes_anything) launch.reason = launch.closed.anything_reason;
    launch.accesses = std::move(accesses_);
    const auto bounds = symbols_.iteration_bounds();
    launch.bounds.assign(bounds.begin(), bounds.end());
    launch.terms = std::move(symbols_.terms());
    return launch;
  }

  LaunchFootprint run() {
    std::copy_n(values_.grid, 3, result_.grid);
    if (const std::string reason = whole_reason(); !reason.empty()) {
      take_whole(reason);
      return std::move(result_);
    }
    for (const std::uint32_t statement : kernel_.accesses) {
      const Instruction& instruction = *kernel_.function->body[statement].instruction();
      for (const MemoryOperand& memory : memory_operands(instruction)) {
        if (may_be_global(memory)) note(statement, instruction, memory);
      }
    }
    note_waiting();
    if (detail_ == FootprintDetail::kAllocations) {
      for (const SymbolicAccess& access : accesses_) add_without_blocks(access);
      return std::move(result_);
    }
    accesses_ = fused(symbols_.terms(), std::move(accesses_));
    for (const SymbolicAccess& access : accesses_) {
      AccessFootprint footprint = footprint_of(access, symbols_.terms(), symbols_.iteration_bounds(), values_.grid,
                                               detail_ == FootprintDetail::kEachBlock);
      if (!footprint.shapes.empty()) result_.accesses.push_back(std::move(footprint));  // else no block makes it
    }
    return std::move(result_);
  }

 private:
  // Why each array is taken whole; "" where none is.
  std::string whole_reason() const {
    if (!kernel_.call_reason.empty()) return kernel_.call_reason;
    return kernel_.loops.is_reducible ? "" : "control flow is not made of loops";
  }

  void add_without_blocks(const SymbolicAccess& access) {
    AccessFootprint footprint;
    footprint.allocation = access.allocation;
    footprint.reads = access.reads;
    footprint.writes = access.writes;
    footprint.whole_reason = access.whole_reason;
    footprint.line = access.line;
    result_.accesses.push_back(std::move(footprint));
  }

  std::string at(std::uint32_t statement) const {
    return fmt::format("{}:{}", kernel_.module->source_name, kernel_.function->body[statement].location.line);
  }

  void anything(const MemoryOperand& memory, std::string reason) {
    result_.reads_anything |= memory.reads;
    result_.writes_anything |= memory.writes;
    if (result_.anything_reason.empty()) result_.anything_reason = std::move(reason);
  }

  void note(std::uint32_t statement, const Instruction& instruction, const MemoryOperand& memory) {
    if (memory.operand == MemoryOperand::kNowhere) {
      return anything(memory, fmt::format("`{}` at {} names no address", ptx::spelling(instruction.op), at(statement)));
    }
    const std::uint32_t line = kernel_.function->body[statement].location.line;
    // A line of a function that is called may be several accesses.
    const bool is_called = !kernel_.is_called.empty() && kernel_.is_called[statement];
    LaunchFootprint::Instruction which{.line = line};
    const ptx::Operand& address = instruction.operands[memory.operand];
    const Affine begin = symbols_.operand(statement, address.elements[0]);
    const auto moved = sum(begin, Affine::number(1), address.offset);
    FootprintTerms& terms = symbols_.terms();
    std::optional<TermId> base;
    std::size_t bases = 0, elsewhere = 0;
    bool is_based_elsewhere = false;  // on it, not less than it
    if (moved) {
      for (const Affine::Part& part : moved->parts) {
        const bool is_base = terms[part.term].kind == Term::Kind::kBase;
        bases += is_base;
        const bool is_elsewhere = terms[part.term].kind == Term::Kind::kElsewhere;
        elsewhere += is_elsewhere;
        is_based_elsewhere |= is_elsewhere && part.coefficient == 1;
        if (is_base && part.coefficient == 1) base = part.term;
      }
    }
    // Shared, local or parameter memory.
    if (bases == 0 && elsewhere == 1 && is_based_elsewhere && memory.space == Space::kNone) return;
    if (base && bases == 1 && elsewhere == 0) which.allocation = symbols_.bases()[terms[*base].index].allocation;
    if (!is_called) result_.instructions.push_back(which);
    if (!base || bases != 1 || elsewhere != 0) {
      const Term* unknown = moved ? terms.find_unknown(*moved) : nullptr;
      return anything(memory, fmt::format("the address at {} is {}", at(statement),
                                          unknown != nullptr ? "unknown: " + unknown->reason : "no array's"));
    }
    const FootprintSymbols::Base& allocation = symbols_.bases()[terms[*base].index];
    SymbolicAccess access{.allocation = allocation.allocation,
                          .allocation_bytes = allocation.bytes,
                          .offset = *sum(*moved, Affine::term(*base), -1),
                          .guards = symbols_.conditions_at(statement),
                          .width = width_of(instruction, memory),
                          .reads = memory.reads,
                          .writes = memory.writes};
    access.line = line;
    if (access.width == 0) access.whole_reason = fmt::format("`{}` is not followed", ptx::spelling(instruction.op));
    split_indices(terms, access);
    drop_certain_guards(terms, access);
    accesses_.push_back(std::move(access));
  }

  // A loop without bound that reads memory as others write it waits for them: blocks are then ordered by more than what
  // they read and write.
  void note_waiting() {
    for (std::size_t i = 0; i < kernel_.loops.loops.size(); ++i) {
      const NaturalLoop& loop = kernel_.loops.loops[i];
      for (const std::uint32_t statement : kernel_.accesses) {
        if (!loop.contains[kernel_.ssa->block_of(statement)]) continue;
        const ptx::MemoryEffect effect = ptx::memory_effect(*kernel_.function->body[statement].instruction());
        const bool may_wait = effect.reads && (effect.is_strong || effect.is_atomic) &&
                              kernel_.function->body[statement].instruction()->op != Op::kRed;
        if (!may_wait || symbols_.has_bound(static_cast<std::uint32_t>(i))) continue;
        result_.reads_anything = result_.writes_anything = true;
        result_.anything_reason = fmt::format("a loop without bound may wait for other blocks at {}", at(statement));
        return;
      }
    }
  }

  // Each array as pointer_modes() has it, whole.
  void take_whole(const std::string& reason) {
    const auto modes = pointer_modes(*kernel_.module, *kernel_.entry);
    const AccessMode universal = modes.ok() ? modes->universal : AccessMode::kReadWrite;
    const auto reads = [](AccessMode mode) {
      return (static_cast<int>(mode) & static_cast<int>(AccessMode::kRead)) != 0;
    };
    const auto writes = [](AccessMode mode) {
      return (static_cast<int>(mode) & static_cast<int>(AccessMode::kWrite)) != 0;
    };
    result_.reads_anything = reads(universal);
    result_.writes_anything = writes(universal);
    result_.may_wait = true;
    if (universal != AccessMode::kNeither) result_.anything_reason = reason;
    if (!modes.ok()) return;
    const auto add = [&](AllocationId allocation, std::uint64_t bytes, AccessMode mode) {
      if (mode == AccessMode::kNeither) return;
      SymbolicAccess access{.allocation = allocation,
                            .allocation_bytes = bytes,
                            .offset = {},
                            .guards = {},
                            .width = bytes,
                            .reads = reads(mode),
                            .writes = writes(mode),
                            .line = 0,
                            .whole_reason = reason};
      if (detail_ == FootprintDetail::kAllocations) return add_without_blocks(access);
      result_.accesses.push_back(footprint_of(access, symbols_.terms(), {}, values_.grid, false));
    };
    for (const PointerParameter& parameter : modes->parameters) {
      const std::uint32_t offset =
          kernel_.signature.parameters[parameter.parameter].offset_bytes + parameter.offset_bytes;
      const auto pointer = std::ranges::find(values_.pointers, offset, &LaunchValues::Pointer::offset_bytes);
      if (pointer != values_.pointers.end()) {
        add(pointer->allocation, pointer->allocation_bytes, parameter.mode);
      } else if (parameter.mode != AccessMode::kNeither && parameter.is_sole) {
        add_anything(parameter.mode, reason);
      }
    }
    for (const SummedParameters& sum : modes->sums) {
      const auto pointers = std::ranges::count_if(sum.parameters, [&](std::uint32_t parameter) {
        const std::uint32_t offset = kernel_.signature.parameters[parameter].offset_bytes;
        return std::ranges::find(values_.pointers, offset, &LaunchValues::Pointer::offset_bytes) !=
               values_.pointers.end();
      });
      if (others_may_be_address(sum.parameters.size(), static_cast<std::size_t>(pointers), sum.has_other_base))
        add_anything(sum.mode, reason);
    }
    for (const VariableAccess& variable : modes->variables) {
      const auto known = std::ranges::find(values_.variables, variable.name, &LaunchValues::ModuleVariable::name);
      if (known != values_.variables.end()) {
        add(known->allocation, known->allocation_bytes, variable.mode);
      } else {
        add_anything(variable.mode, reason);
      }
    }
  }

  void add_anything(AccessMode mode, const std::string& reason) {
    if (mode == AccessMode::kNeither) return;
    result_.reads_anything |= mode != AccessMode::kWrite;
    result_.writes_anything |= mode != AccessMode::kRead;
    if (result_.anything_reason.empty()) result_.anything_reason = reason;
  }

  const KernelFootprints::Kernel& kernel_;
  const LaunchValues& values_;
  const FootprintDetail detail_;
  FootprintSymbols symbols_;
  std::vector<SymbolicAccess> accesses_;
  LaunchFootprint result_;
};

}  // namespace

KernelFootprints::KernelFootprints(std::unique_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {}
KernelFootprints::KernelFootprints(KernelFootprints&&) noexcept = default;
KernelFootprints& KernelFootprints::operator=(KernelFootprints&&) noexcept = default;
KernelFootprints::~KernelFootprints() = default;

Result<KernelFootprints> KernelFootprints::of(const ptx::Module& module, const ptx::Function& entry) {
  auto kernel = std::make_unique<Kernel>();
  kernel->module = &module;
  kernel->entry = kernel->function = &entry;
  if (calls_anything(entry)) {
    InlinedCalls calls = inline_calls(module, entry);
    kernel->call_reason = std::move(calls.reason);
    if (kernel->call_reason.empty()) {
      kernel->inlined = std::move(calls.function);
      kernel->is_called = std::move(calls.is_called);
      kernel->function = &kernel->inlined;
    }
  }
  const ptx::Function& function = *kernel->function;
  PERGOLA_ASSIGN(kernel->cfg, build_cfg(function));
  PERGOLA_ASSIGN(kernel->signature, ptx::signature(module, entry));
  kernel->ssa = std::make_unique<Ssa>(function, kernel->cfg);
  kernel->loops = natural_loops(kernel->cfg);
  for (const std::uint32_t block : kernel->cfg.reverse_post_order) {
    for (const std::uint32_t statement : kernel->cfg.blocks[block].statements) {
      if (std::ranges::any_of(memory_operands(*function.body[statement].instruction()), may_be_global)) {
        kernel->accesses.push_back(statement);
      }
    }
  }
  return KernelFootprints(std::move(kernel));
}

Result<LaunchFootprint> KernelFootprints::at(const LaunchValues& values) const {
  return analyse(values, FootprintDetail::kBoxes);
}
Result<LaunchFootprint> KernelFootprints::allocations_at(const LaunchValues& values) const {
  return analyse(values, FootprintDetail::kAllocations);
}
Result<LaunchFootprint> KernelFootprints::at_each_block(const LaunchValues& values) const {
  return analyse(values, FootprintDetail::kEachBlock);
}

Status KernelFootprints::check(const LaunchValues& values) const {
  std::uint64_t blocks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (values.grid[axis] == 0 || values.block[axis] == 0) {
      return PERGOLA_ERROR(kInvalidArgument, "{}: the grid or the block has no threads along {}; give at least 1",
                           kernel_->function->name, "xyz"[axis]);
    }
    blocks *= values.grid[axis];
    if (blocks > kMaxBlocks) {
      return PERGOLA_ERROR(kInvalidArgument,
                           "{}: footprints are made of at most {} blocks; order such a launch as a whole",
                           kernel_->function->name, kMaxBlocks);
    }
  }
  if (values.parameters.size() != kernel_->signature.parameter_bytes) {
    return PERGOLA_ERROR(kInvalidArgument, "{}: the parameters take {} bytes and {} were given",
                         kernel_->function->name, kernel_->signature.parameter_bytes, values.parameters.size());
  }
  return {};
}

AllocationId LaunchValues::add_variables(const ptx::Module& module, AllocationId number) {
  for (const ptx::Item& item : module.items)
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node);
        variable != nullptr && variable->space == Space::kGlobal)
      variables.push_back({variable->name, number++, variable->size_bytes()});
  return number;
}

Result<LaunchFootprint> KernelFootprints::analyse(const LaunchValues& values, FootprintDetail detail) const {
  PERGOLA_TRY(check(values));
  return LaunchAnalysis(*kernel_, values, detail).run();
}

Result<SymbolicLaunch> KernelFootprints::symbolic_at(const LaunchValues& values) const {
  PERGOLA_TRY(check(values));
  return LaunchAnalysis(*kernel_, values, FootprintDetail::kBoxes).symbolic();
}

}  // namespace pergola::analysis
