#include "src/analysis/idle_blocks.h"

#include <algorithm>

#include "src/analysis/call_graph.h"
#include "src/analysis/resources.h"
#include "src/ptx/semantics.h"

namespace pergola::analysis {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::Special;

// What tells a thread where it is, and nothing of the grid's size.
bool is_of_block(Special special) {
  switch (special) {
    case Special::kTid:
    case Special::kNtid:
    case Special::kLaneid:
    case Special::kWarpid:
    case Special::kNwarpid:
    case Special::kCtaid:
    case Special::kSmid:
    case Special::kNsmid:
    case Special::kLanemaskEq:
    case Special::kLanemaskLe:
    case Special::kLanemaskLt:
    case Special::kLanemaskGe:
    case Special::kLanemaskGt:
    case Special::kClock:
    case Special::kClockHi:
    case Special::kClock64:
    case Special::kGlobaltimer:
    case Special::kGlobaltimerLo:
    case Special::kGlobaltimerHi:
    case Special::kTotalSmemSize:
    case Special::kDynamicSmemSize: return true;
    default: return false;
  }
}

bool tells_of_grid(const ptx::Operand& operand) {
  return (operand.kind == ptx::Operand::Kind::kSpecial && !is_of_block(operand.special)) ||
         std::ranges::any_of(operand.elements, tells_of_grid);
}

// What stands in the way; "" where nothing does.
std::string_view obstacle(const Instruction& instruction) {
  if (instruction.op == Op::kTrap || instruction.op == Op::kBrkpt) return "it may end the launch with an error";
  if (instruction.op == Op::kGriddepcontrol) return "it says itself when the next launch may start";
  if (instruction.op == Op::kClusterlaunchcontrol || std::ranges::any_of(instruction.operands, tells_of_grid))
    return "it can tell how many blocks there are";
  return {};
}

}  // namespace

std::array<std::uint32_t, 3> writing_grid(const LaunchFootprint& launch) {
  std::array<std::uint32_t, 3> all = std::to_array(launch.grid), some = {1, 1, 1};
  if (launch.writes_anything || launch.may_wait) return all;
  for (const AccessFootprint& access : launch.accesses) {
    if (!access.writes) continue;
    if (!access.whole_reason.empty()) return all;
    for (const BlockPlaces::Region& region : access.places.regions())
      for (std::size_t axis = 0; axis < 3; ++axis) some[axis] = std::max(some[axis], region.box.end[axis]);
  }
  return some;
}

Status may_leave_blocks_out(const ptx::Module& module, const ptx::Function& entry) {
  const auto no = [&](std::string_view why) {
    return PERGOLA_ERROR(kUnsupported, "Blocks of kernel '{}' that write nothing are not left out: {}.", entry.name,
                         why);
  };
  if (is_launched_in_clusters(entry)) return no("it is launched in clusters");
  PERGOLA_ASSIGN(const Resources uses, resources(module, entry));
  if (!uses.opaque.empty()) return no(fmt::format("{} is not understood", uses.opaque.front()));
  if (!uses.externals.empty()) return no(fmt::format("it calls '{}'", uses.externals.front()));
  if (uses.has_indirect_calls) return no("it calls what is not known");
  if (uses.uses_textures) return no("it uses textures or surfaces");
  if (uses.uses_grid_sync || uses.uses_cluster_barrier) return no("its blocks wait for each other");
  for (const CallGraph::Node& node : call_graph(module, entry).nodes)
    for (const ptx::Statement& statement : node.function->body) {
      const Instruction* const instruction = statement.instruction();
      const std::string_view why = instruction == nullptr ? std::string_view() : obstacle(*instruction);
      if (!why.empty()) return no(fmt::format("{}:{}: {}", module.source_name, statement.location.line, why));
    }
  return {};
}

}  // namespace pergola::analysis
