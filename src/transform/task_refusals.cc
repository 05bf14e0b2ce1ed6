#include "src/transform/task_refusals.h"

#include <algorithm>
#include <string_view>

#include "src/analysis/pointer_modes.h"
#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Special;

std::string_view reason_of(const Operand& operand) {
  for (const Operand& element : operand.elements)
    if (const std::string_view why = reason_of(element); !why.empty()) return why;
  if (operand.kind != Operand::Kind::kSpecial) return {};
  if (ptx::tells_of_cluster(operand.special)) return "clusters";
  switch (operand.special) {
    case Special::kEnvreg: return "a grid-wide barrier, as blocks of a task do not all run at once";
    case Special::kReservedSmemOffset:
    case Special::kAggrSmemSize:
    case Special::kOther: return "shared memory that the driver reserves";
    case Special::kCurrentGraphExec: return "the graph it is launched from";
    case Special::kTid:
    case Special::kNtid:
    case Special::kCtaid:
    case Special::kNctaid:
      if (operand.component < 0 || operand.component > 2) return "a special register as a whole vector";
      return {};
    default: return {};
  }
}

bool is_cluster_wide(const Instruction& in) {
  return in.has(Mod::kSharedCluster) || in.op == Op::kMapa || in.op == Op::kGetctarank ||
         ((in.op == Op::kBar || in.op == Op::kBarrier) && in.has(Mod::kCluster));
}

std::string_view reason_of(const Instruction& in, bool in_entry) {
  if (in.op == Op::kCp && in.has(Mod::kBulk)) return "bulk copies (TMA)";
  if (is_cluster_wide(in)) return "clusters";
  switch (in.op) {
    case Op::kOpaque: return "an instruction that is not understood";
    case Op::kGriddepcontrol: return "griddepcontrol, which orders whole launches";
    case Op::kSetmaxnreg: return "setmaxnreg, which changes the registers of the executor's own warps";
    case Op::kClusterlaunchcontrol: return "clusterlaunchcontrol";
    case Op::kTensormap: return "tensor maps (TMA)";
    case Op::kMultimem: return "multimem, which spans devices";
    case Op::kWgmma:
    case Op::kTcgen05: return "warpgroup instructions, as a task's warps are not aligned to groups of four";
    case Op::kTex:
    case Op::kTld4:
    case Op::kTxq:
    case Op::kSuld:
    case Op::kSust:
    case Op::kSured:
    case Op::kSuq: return "textures or surfaces";
    case Op::kShfl:
    case Op::kVote:
      if (!in.has(Mod::kSync)) return "a warp operation without .sync, which counts lanes that have returned";
      break;
    case Op::kIsspacep:
      if (in.has(Mod::kParam) || in.has(Mod::kParamEntry))
        return "isspacep.param, as its parameters are in other memory";
      break;
    case Op::kExit:
      if (!in_entry) return "exit in a device function; use return, or have the function inlined";
      break;
    default: break;
  }
  for (const Operand& operand : in.operands)
    if (const std::string_view why = reason_of(operand); !why.empty()) return why;
  return {};
}

class Refusals {
 public:
  Refusals(const ptx::Module& module, const ptx::Function& entry) : module_(module), entry_(entry) {}

  Status of_entry(const TaskConfig& config) const {
    if (entry_.required_cluster || entry_.max_cluster_rank ||
        std::find(entry_.directives.begin(), entry_.directives.end(), ".explicitcluster") != entry_.directives.end())
      return refuse(entry_.location,
                    "it is made for clusters (.reqnctapercluster, .maxclusterrank or .explicitcluster)");
    if (entry_.required_threads) {
      const auto [x, y, z] = *entry_.required_threads;
      const std::uint64_t threads = std::uint64_t{x} * y * z;
      if (threads > config.most_threads)
        return refuse(entry_.location,
                      fmt::format("it requires blocks of {} x {} x {} = {} threads, and a block of a task "
                                  "has {} at most",
                                  x, y, z, threads, config.most_threads));
    }
    return {};
  }

  Status of_body(const ptx::Function& function) const {
    for (const ptx::Statement& statement : function.body) {
      const Instruction* in = statement.instruction();
      if (in == nullptr) continue;
      const std::string_view why = reason_of(*in, &function == &entry_);
      if (!why.empty())
        return refuse(statement.location, fmt::format("it uses {}: `{}`", why, ptx::print(*in, function)));
    }
    return {};
  }

  Status of_variables() const {
    PERGOLA_ASSIGN(const analysis::PointerModes modes, analysis::pointer_modes(module_, entry_));
    for (const analysis::VariableAccess& access : modes.variables) {
      const ptx::Variable* variable = module_.find_variable(access.name);
      if (variable == nullptr) continue;
      const bool writes =
          access.mode == analysis::AccessMode::kWrite || access.mode == analysis::AccessMode::kReadWrite;
      if (writes)
        return refuse(variable->location,
                      fmt::format("it writes module variable '{}' ({}), of which each module has a copy of its "
                                  "own; pass it an array instead",
                                  variable->name, access.reason));
      PERGOLA_TRY(of_read_variable(*variable));
    }
    return {};
  }

 private:
  Status refuse(ptx::Location location, std::string_view why) const {
    return PERGOLA_ERROR(kUnsupported, "{}:{}:{}: Kernel '{}' cannot be a task: {}. Launch it as an ordinary kernel.",
                         module_.source_name, location.line, location.column, entry_.name, why);
  }

  // A copy is as good as the original where nobody ever writes it.
  Status of_read_variable(const ptx::Variable& variable) const {
    if (variable.space != ptx::Space::kGlobal && variable.space != ptx::Space::kConst) return {};
    if (variable.initializers.empty() || variable.linkage == ptx::Linkage::kExtern)
      return refuse(variable.location,
                    fmt::format("it reads module variable '{}', which has no initial value, so others write it; "
                                "pass it as an argument instead",
                                variable.name));
    if (variable.space == ptx::Space::kConst) return {};
    for (const ptx::Function* other : module_.entries()) {
      if (other == &entry_ || !other->has_body) continue;
      PERGOLA_ASSIGN(const analysis::PointerModes modes, analysis::pointer_modes(module_, *other));
      for (const analysis::VariableAccess& access : modes.variables) {
        if (access.name != variable.name || access.mode == analysis::AccessMode::kRead ||
            access.mode == analysis::AccessMode::kNeither)
          continue;
        return refuse(variable.location,
                      fmt::format("it reads module variable '{}', which kernel '{}' writes ({}); pass it an array "
                                  "instead",
                                  variable.name, other->name, access.reason));
      }
    }
    return {};
  }

  const ptx::Module& module_;
  const ptx::Function& entry_;
};

}  // namespace

Status refuse_as_task(const ptx::Module& module, const ptx::Function& entry, const analysis::CallGraph& graph,
                      const TaskConfig& config) {
  const Refusals refusals(module, entry);
  PERGOLA_TRY(refusals.of_entry(config));
  for (const analysis::CallGraph::Node& node : graph.nodes) PERGOLA_TRY(refusals.of_body(*node.function));
  return refusals.of_variables();
}

}  // namespace pergola::transform
