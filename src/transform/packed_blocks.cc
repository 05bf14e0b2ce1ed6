#include "src/transform/packed_blocks.h"

#include <algorithm>
#include <array>

#include "src/analysis/call_graph.h"
#include "src/analysis/resources.h"
#include "src/ptx/printer.h"
#include "src/transform/body_editor.h"
#include "src/transform/kernel_boundary.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::Special;
using ptx::Statement;
using ptx::Type;

// What of a block several may share, by its name: "" where there is no such thing.
std::string_view why_not_packed(const analysis::Resources& uses) {
  if (uses.static_shared_bytes != 0 || uses.uses_dynamic_shared) return "it has shared memory";
  if (!uses.barriers.empty() || uses.has_dynamic_barrier) return "its threads meet at a barrier";
  if (uses.uses_warp_operations) return "its warps do something together";
  if (uses.uses_grid_sync || uses.uses_cluster_barrier) return "its blocks wait for each other";
  if (uses.uses_async_copies) return "it copies to shared memory";
  if (uses.has_indirect_calls) return "it calls what is not known";
  if (!uses.opaque.empty()) return "an instruction is not understood";
  return {};
}

bool is_packed(Special special) {
  return special == Special::kTid || special == Special::kNtid || special == Special::kCtaid ||
         special == Special::kNctaid;
}

// The same for a thread wherever its block lies.
bool is_elsewhere_the_same(Special special) {
  switch (special) {
    case Special::kSmid:
    case Special::kNsmid:
    case Special::kGridid:
    case Special::kClock:
    case Special::kClockHi:
    case Special::kClock64:
    case Special::kGlobaltimer:
    case Special::kGlobaltimerLo:
    case Special::kGlobaltimerHi: return true;
    default: return false;
  }
}

bool reads_special(const Operand& operand) {
  return operand.kind == Operand::Kind::kSpecial || std::ranges::any_of(operand.elements, reads_special);
}

std::string register_of(Special special, int axis) {
  const std::string_view name = special == Special::kTid     ? "tid"
                                : special == Special::kNtid  ? "ntid"
                                : special == Special::kCtaid ? "ctaid"
                                                             : "nctaid";
  return fmt::format("%pergola_packed_{}_{}", name, "xyz"[axis]);
}

class BlockPacker {
 public:
  BlockPacker(const ptx::Module& module, Function& function, const PackedShape& shape)
      : module_(module), function_(function), shape_(shape), editor_(function) {}

  Status run() {
    Statements body;
    for (Statement& statement : function_.body) {
      if (const Instruction* const in = statement.instruction(); in == nullptr)
        body.push_back(std::move(statement));
      else
        PERGOLA_TRY(rewrite(*in, statement.location, body));
    }
    PERGOLA_ASSIGN(const Statements head, editor_.statements(begin(), {}, function_.location));
    function_.body = editor_.declarations();
    function_.body.insert(function_.body.end(), head.begin(), head.end());
    function_.body.insert(function_.body.end(), std::make_move_iterator(body.begin()),
                          std::make_move_iterator(body.end()));
    ptx::Variable grid;
    grid.space = ptx::Space::kParam;
    grid.type = Type::kB8;
    grid.align_bytes = 4;
    grid.name = grid_name();
    grid.extents = {12};
    function_.parameters.push_back(std::move(grid));
    function_.required_threads.reset();
    function_.min_blocks_per_sm.reset();
    function_.max_registers.reset();
    function_.max_threads = std::array<std::uint32_t, 3>{shape_.threads() * shape_.blocks, 1, 1};
    return {};
  }

 private:
  std::string grid_name() const { return function_.name + "_blocks"; }

  Status rewrite(const Instruction& in, const ptx::Location& location, Statements& out) {
    const auto refuse = [&](std::string_view why) {
      return PERGOLA_ERROR(kUnsupported, "{}:{}: blocks of kernel '{}' cannot be packed: `{}` {}.", module_.source_name,
                           location.line, function_.name, ptx::print(in, function_), why);
    };
    if (in.op == Op::kGriddepcontrol) return refuse("orders whole launches");
    Instruction made = in;
    for (Operand& operand : made.operands) {
      if (operand.kind != Operand::Kind::kSpecial) {
        if (reads_special(operand)) return refuse("reads its place as a part of an operand");
        continue;
      }
      if (is_elsewhere_the_same(operand.special)) continue;
      if (!is_packed(operand.special)) return refuse("reads what a thread of another block has otherwise");
      const bool is_word = in.op != Op::kMov || ptx::size_bytes(in.type()) == 4;
      if (operand.component < 0 || operand.component > 2 || !is_word) return refuse("reads its place in another form");
      operand = Operand::make_register(editor_.declare(register_of(operand.special, operand.component), Type::kB32));
    }
    out.push_back({std::move(made), location});
    return {};
  }

  // Which thread of which block this is.
  std::string begin() {
    for (const Special special : {Special::kTid, Special::kNtid, Special::kCtaid, Special::kNctaid})
      for (int axis = 0; axis < 3; ++axis) editor_.declare(register_of(special, axis), Type::kB32);
    const auto name = [](Special special, int axis) { return register_of(special, axis); };
    std::string text = ".reg .b32 %t, %number, %inner, %count; .reg .pred %none;\n";
    const std::uint32_t sides[] = {shape_.x, shape_.y, shape_.z};
    for (int axis = 0; axis < 3; ++axis)
      text += fmt::format("mov.u32 {}, {};\nld.param.u32 {}, [{}+{}];\n", name(Special::kNtid, axis), sides[axis],
                          name(Special::kNctaid, axis), grid_name(), 4 * axis);
    text += fmt::format(
        "mov.u32 %inner, %tid.x;\ndiv.u32 %t, %inner, {0};\nmul.lo.u32 %count, %t, {0};\n"
        "sub.u32 %inner, %inner, %count;\nmov.u32 %number, %ctaid.x;\nmad.lo.u32 %number, %number, {1}, %t;\n"
        "mul.lo.u32 %count, {2}, {3};\nmul.lo.u32 %count, %count, {4};\nsetp.ge.u32 %none, %number, %count;\n"
        "@%none ret;\n",
        shape_.threads(), shape_.blocks, name(Special::kNctaid, 0), name(Special::kNctaid, 1),
        name(Special::kNctaid, 2));
    // `from` becomes what is left for the axes behind.
    const auto split = [](std::string_view from, const std::string& to, const std::string& side) {
      return fmt::format(
          "div.u32 %t, {0}, {2};\nmul.lo.u32 %count, %t, {2};\nsub.u32 {1}, {0}, %count;\nmov.u32 {0}, %t;\n", from, to,
          side);
    };
    for (int axis = 0; axis < 2; ++axis) {
      text += split("%number", name(Special::kCtaid, axis), name(Special::kNctaid, axis));
      text += split("%inner", name(Special::kTid, axis), std::to_string(sides[axis]));
    }
    return text +
           fmt::format("mov.u32 {}, %number;\nmov.u32 {}, %inner;\n", name(Special::kCtaid, 2), name(Special::kTid, 2));
  }

  const ptx::Module& module_;
  Function& function_;
  const PackedShape shape_;
  BodyEditor editor_;
};

}  // namespace

Status pack_blocks(ptx::Module& module, std::string_view kernel, const PackedShape& shape) {
  PERGOLA_TRY(leave_only_kernel(module, kernel));
  Function& entry = *module.find_function(kernel);
  const auto no = [&](std::string_view why) {
    return PERGOLA_ERROR(kUnsupported, "{}:{}: blocks of kernel '{}' cannot be packed: {}.", module.source_name,
                         entry.location.line, entry.name, why);
  };
  if (analysis::is_launched_in_clusters(entry)) return no("it is launched in clusters");
  PERGOLA_ASSIGN(const analysis::Resources uses, analysis::resources(module, entry));
  if (const std::string_view why = why_not_packed(uses); !why.empty()) return no(why);
  for (const analysis::CallGraph::Node& node : analysis::call_graph(module, entry).nodes) {
    if (node.function == &entry) continue;
    for (const Statement& statement : node.function->body)
      if (const Instruction* const in = statement.instruction();
          in != nullptr && std::ranges::any_of(in->operands, reads_special))
        return no(fmt::format("function '{}' asks for its place", node.function->name));
  }
  PERGOLA_TRY(BlockPacker(module, entry, shape).run());
  entry.name = packed_kernel(kernel);
  return {};
}

}  // namespace pergola::transform
