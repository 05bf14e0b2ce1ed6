#include "src/transform/constant_parameters.h"

#include <algorithm>
#include <cstring>

#include "src/analysis/call_graph.h"
#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"
#include "src/ptx/signature.h"
#include "src/transform/kernel_boundary.h"
#include "src/transform/parameter_names.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::RegisterId;
using ptx::Space;
using ptx::Type;
using ptx::TypeClass;

bool is_whole_number(Type type) {
  const TypeClass kind = ptx::class_of(type);
  return (kind == TypeClass::kUnsigned || kind == TypeClass::kSigned || kind == TypeClass::kBits) &&
         ptx::size_bytes(type) <= 8;
}

// By register: whether somebody may read it as anything but a whole number. Bits that are moved are taken to be what
// they are moved to, and parts of a vector, or what an instruction that is not understood has, to be any.
std::vector<char> read_otherwise(const Function& function) {
  std::vector<char> marked(function.registers.size());
  for (const ptx::Statement& statement : function.body) {
    const Instruction* const in = statement.instruction();
    if (in == nullptr) continue;
    for (const RegisterId reg : in->text_registers) marked[reg] = true;
    for (std::size_t n = 0; n < in->operands.size(); ++n) {
      const Operand& operand = in->operands[n];
      const ptx::Role role = ptx::role(*in, n);
      if (role == ptx::Role::kWrite || role == ptx::Role::kTarget || role == ptx::Role::kAddress) continue;
      for (const Operand& part : operand.elements)
        if (part.kind == Operand::Kind::kRegister) marked[part.reg] = true;
      if (operand.kind != Operand::Kind::kRegister) continue;
      const Operand& to = in->operands[0];
      const bool becomes_other = in->op == Op::kMov && (to.kind != Operand::Kind::kRegister ||
                                                        !is_whole_number(function.registers[to.reg].type));
      if (becomes_other || !is_whole_number(ptx::operand_type(*in, n))) marked[operand.reg] = true;
    }
  }
  return marked;
}

// Loads of whole numbers by an entry's body.
struct Load {
  std::size_t statement;
  ParameterPlace place;
};
Result<std::vector<Load>> loads_of(const ptx::Module& module, const Function& entry) {
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, entry));
  const std::vector<char> otherwise = read_otherwise(entry);
  std::vector<Load> loads;
  ParameterNames names(signature);
  for (std::size_t i = 0; i < entry.body.size(); ++i) {
    names.pass(entry.body[i]);
    const Instruction* const in = entry.body[i].instruction();
    if (in == nullptr || in->op != Op::kLd || in->space() != Space::kParam || in->operands.size() != 2) continue;
    const Operand &to = in->operands[0], &from = in->operands[1];
    if (to.kind != Operand::Kind::kRegister || to.component != -1 || from.kind != Operand::Kind::kAddress ||
        from.elements.size() != 1 || from.elements[0].kind != Operand::Kind::kSymbol)
      continue;
    const ptx::Register& reg = entry.registers[to.reg];
    const std::uint32_t width = ptx::size_bytes(reg.type), size = ptx::size_bytes(in->type());
    const bool is_register = reg.vector == 1 && is_whole_number(reg.type) && (width == 2 || width == 4 || width == 8);
    const std::uint32_t* const offset = names.offset(from.elements[0].name);
    if (offset == nullptr || !is_register || !is_whole_number(in->type()) || size > width || otherwise[to.reg])
      continue;
    std::int64_t at = *offset;
    if (__builtin_add_overflow(at, from.offset, &at) || __builtin_add_overflow(at, from.elements[0].offset, &at) ||
        at < 0 || at > std::int64_t{signature.parameter_bytes} - size)
      continue;
    loads.push_back({i, {static_cast<std::uint32_t>(at), size}});
  }
  return loads;
}

// Why an instruction's result might be another where the compiler knows more: "" where it is not.
std::string_view why_not(const Instruction& in) {
  if (in.op == Op::kOpaque) return "is not understood";
  if (in.has(Mod::kApprox) || in.has(Mod::kFull)) return "approximates, as the compiler would in another way";
  const bool is_rounded = in.has(Mod::kRn) || in.has(Mod::kRz) || in.has(Mod::kRm) || in.has(Mod::kRp);
  const bool is_product = in.op == Op::kMul || in.op == Op::kMad;
  if (is_product && !is_rounded && !is_whole_number(in.type())) return "may become one operation with a sum, or not";
  return {};
}

Operand number(std::uint64_t value, Type loaded, std::size_t bytes) {
  const auto extended = [](std::uint64_t from, std::size_t bits) {
    return bits >= 64 ? static_cast<std::int64_t>(from) : static_cast<std::int64_t>(from << (64 - bits)) >> (64 - bits);
  };
  // As the load would have extended it; then as the instruction's own width has it.
  if (ptx::class_of(loaded) == TypeClass::kSigned)
    value = static_cast<std::uint64_t>(extended(value, std::size_t{8} * ptx::size_bytes(loaded)));
  return Operand::make_integer(extended(value, 8 * bytes));
}

}  // namespace

Result<std::vector<ParameterPlace>> constant_places(const ptx::Module& module, std::string_view kernel) {
  const Function* const entry = find_kernel(module, kernel);
  if (entry == nullptr) return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in '{}'.", kernel, module.source_name);
  const analysis::CallGraph calls = analysis::call_graph(module, *entry);
  for (const analysis::CallGraph::Node& node : calls.nodes) {
    if (node.calls_unknown)
      return PERGOLA_ERROR(kUnsupported,
                           "{}:{}: whole numbers of kernel '{}' cannot be constants: it calls what is not "
                           "known.",
                           module.source_name, entry->location.line, kernel);
    for (const ptx::Statement& statement : node.function->body) {
      const Instruction* const in = statement.instruction();
      const std::string_view why = in == nullptr ? std::string_view() : why_not(*in);
      if (!why.empty())
        return PERGOLA_ERROR(kUnsupported, "{}:{}: whole numbers of kernel '{}' cannot be constants: `{}` {}.",
                             module.source_name, statement.location.line, kernel, ptx::print(*in, *node.function), why);
    }
  }
  PERGOLA_ASSIGN(const std::vector<Load> loads, loads_of(module, *entry));
  std::vector<ParameterPlace> places;
  for (const Load& load : loads) places.push_back(load.place);
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

std::vector<ConstantParameter> constants_at(std::span<const ParameterPlace> places,
                                            std::span<const std::byte> parameters) {
  std::vector<ConstantParameter> constants;
  for (const ParameterPlace& place : places) {
    if (std::uint64_t{place.offset_bytes} + place.size_bytes > parameters.size()) continue;
    ConstantParameter one{place, 0};
    std::memcpy(&one.value, parameters.data() + place.offset_bytes, place.size_bytes);
    if (place.size_bytes < 8 || one.value >> 32 == 0) constants.push_back(one);
  }
  return constants;
}

Status make_constant(ptx::Module& module, std::string_view kernel, std::span<const ConstantParameter> constants) {
  PERGOLA_TRY(leave_only_kernel(module, kernel));
  Function& entry = *module.find_function(kernel);
  PERGOLA_ASSIGN(const std::vector<Load> loads, loads_of(module, entry));
  for (const Load& load : loads) {
    const auto one = std::ranges::find(constants, load.place, &ConstantParameter::place);
    if (one == constants.end()) continue;
    Instruction& in = *entry.body[load.statement].instruction();
    const std::size_t bytes = ptx::size_bytes(entry.registers[in.operands[0].reg].type);
    Instruction made;
    made.op = Op::kMov;
    made.mods.assign(1, bytes == 2 ? Mod::kU16 : bytes == 4 ? Mod::kU32 : Mod::kU64);
    made.operands = {in.operands[0], number(one->value, in.type(), bytes)};
    made.guard = in.guard;
    made.location = in.location;
    made.debug_file = in.debug_file;
    made.debug_line = in.debug_line;
    in = std::move(made);
  }
  entry.name = constant_kernel(kernel);
  return {};
}

}  // namespace pergola::transform
