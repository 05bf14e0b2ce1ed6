#include "src/transform/constant_parameters.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/analysis/cfg.h"
#include "src/analysis/reaching.h"
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

bool is_whole_number(Type type) {
  const ptx::TypeClass kind = ptx::class_of(type);
  const bool is_scalar =
      kind == ptx::TypeClass::kUnsigned || kind == ptx::TypeClass::kSigned || kind == ptx::TypeClass::kBits;
  return is_scalar && ptx::size_bytes(type) <= 8;
}

bool reads_as_float(const Instruction& in, RegisterId reg, const Function& function) {
  for (std::size_t n = 0; n < in.operands.size(); ++n) {
    const Operand& operand = in.operands[n];
    const bool is_it = operand.kind == Operand::Kind::kRegister && operand.reg == reg;
    const bool is_in = std::ranges::any_of(operand.elements, [&](const Operand& part) { return part.reg == reg; });
    if (!is_it && !is_in) continue;
    const ptx::Role role = ptx::role(in, n);
    if (role == ptx::Role::kWrite || role == ptx::Role::kTarget || role == ptx::Role::kAddress) continue;
    // Bits that are moved are taken to be what they are moved to, and those in a vector to be any.
    if (is_in || ptx::is_float(ptx::operand_type(in, n))) return true;
    if (in.op == Op::kMov && in.operands[0].kind == Operand::Kind::kRegister &&
        ptx::is_float(function.registers[in.operands[0].reg].type))
      return true;
  }
  return false;
}

// Loads of whole numbers by an entry's body, and its other instructions as far as they matter.
class Parameters {
 public:
  struct Load {
    std::size_t statement;
    std::uint32_t offset_bytes, size_bytes;
  };
  static Result<Parameters> of(const ptx::Module& module, const Function& entry) {
    PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, entry));
    Parameters found;
    ParameterNames names(signature);
    for (std::size_t i = 0; i < entry.body.size(); ++i) {
      names.pass(entry.body[i]);
      const Instruction* const in = entry.body[i].instruction();
      if (in == nullptr || in->op != Op::kLd || in->space() != Space::kParam || in->operands.size() != 2) continue;
      const Operand &to = in->operands[0], &from = in->operands[1];
      if (to.kind != Operand::Kind::kRegister || to.component != -1 || from.kind != Operand::Kind::kAddress ||
          from.elements.size() != 1 || from.elements[0].kind != Operand::Kind::kSymbol)
        continue;
      const std::uint32_t* const offset = names.offset(from.elements[0].name);
      if (offset == nullptr || !is_whole_number(in->type()) || ptx::is_float(entry.registers[to.reg].type)) continue;
      const auto is_float_there = [&](const ptx::Statement& statement) {
        const Instruction* const each = statement.instruction();
        return each != nullptr && (each->op == Op::kOpaque || reads_as_float(*each, to.reg, entry));
      };
      if (std::ranges::any_of(entry.body, is_float_there)) continue;
      const std::int64_t at = *offset + from.offset + from.elements[0].offset;
      if (at >= 0)
        found.loads.push_back(
            {i, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(ptx::size_bytes(in->type()))});
    }
    return found;
  }
  std::vector<Load> loads;
};

// Whether a function computes the same to the bit where the compiler knows more of its whole numbers.
class Roundings {
 public:
  // `parameters` of an entry; null of a function, whose own may be constants.
  Roundings(const ptx::Module& module, const Function& function, const analysis::Cfg& cfg, const Parameters* parameters)
      : module_(module),
        function_(function),
        cfg_(cfg),
        parameters_(parameters),
        reaching_(function, cfg),
        data_(function.registers.size()) {}

  Status check() {
    find_data();
    for (std::size_t block = 0; block < cfg_.blocks.size(); ++block)
      for (const std::uint32_t statement : cfg_.blocks[block].statements) {
        const Instruction& in = *function_.body[statement].instruction();
        const bool is_product = in.op == Op::kMul && ptx::is_float(in.type()) && !is_rounded(in);
        const bool approximates = in.has(Mod::kApprox) || in.has(Mod::kFull);
        if ((is_product || approximates) && !depends_on_data(in))
          return refuse(statement, "depends on no data, and would be computed by the compiler");
        if (is_product && !stays_in(block, statement, in))
          return refuse(statement, "is used behind its block, where a sum might become one operation with it");
      }
    return {};
  }

 private:
  static bool is_rounded(const Instruction& in) {
    return in.has(Mod::kRn) || in.has(Mod::kRz) || in.has(Mod::kRm) || in.has(Mod::kRp);
  }

  Error refuse(std::uint32_t statement, std::string_view why) const {
    const ptx::Statement& at = function_.body[statement];
    return PERGOLA_ERROR(kUnsupported, "{}:{}: whole numbers of '{}' cannot be constants: `{}` {}.",
                         module_.source_name, at.location.line, function_.name,
                         ptx::print(*at.instruction(), function_), why);
  }

  bool depends_on_data(const Instruction& in) const {
    bool depends = false;
    ptx::for_each_register(in,
                           [&](RegisterId reg, bool is_written) { depends = depends || (!is_written && data_[reg]); });
    return depends;
  }

  bool loads(const Instruction& in, std::size_t statement) const {
    if (in.op == Op::kOpaque || in.op == Op::kCall) return true;
    if (!ptx::memory_effect(in).reads || in.space() == Space::kConst) return false;
    if (in.space() != Space::kParam) return true;
    const auto is_it = [&](const Parameters::Load& load) { return load.statement == statement; };
    return parameters_ != nullptr && std::ranges::none_of(parameters_->loads, is_it);
  }

  // What is loaded from memory, or from parameters that stay such, and what is made of that, in whichever of a
  // register's definitions.
  void find_data() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < function_.body.size(); ++i) {
        const Instruction* const in = function_.body[i].instruction();
        if (in == nullptr || (!loads(*in, i) && !depends_on_data(*in))) continue;
        ptx::for_each_register(*in, [&](RegisterId reg, bool is_written) {
          if (!is_written || data_[reg]) return;
          data_[reg] = changed = true;
        });
      }
    }
  }

  bool stays_in(std::size_t block, std::uint32_t statement, const Instruction& in) const {
    if (in.operands[0].kind != Operand::Kind::kRegister) return false;
    const analysis::DefinitionId made = reaching_.definition(statement, in.operands[0].reg);
    if (made == analysis::kNoStatement) return false;
    const std::vector<std::uint32_t>& here = cfg_.blocks[block].statements;
    return std::ranges::all_of(reaching_.users(made), [&](std::uint32_t user) {
      const Op op = function_.body[user].instruction()->op;
      return std::ranges::find(here, user) != here.end() && user > statement && op != Op::kMov && op != Op::kSelp;
    });
  }

  const ptx::Module& module_;
  const Function& function_;
  const analysis::Cfg& cfg_;
  const Parameters* const parameters_;
  const analysis::ReachingDefinitions reaching_;
  std::vector<char> data_;  // by register
};

Operand number(std::uint64_t value, Type loaded, std::size_t bytes) {
  const std::size_t bits = 8 * ptx::size_bytes(loaded);
  // As the load would have extended it; then as the instruction's own width has it.
  const auto extended = [](std::uint64_t from, std::size_t width) {
    return width >= 64 ? static_cast<std::int64_t>(from)
                       : static_cast<std::int64_t>(from << (64 - width)) >> (64 - width);
  };
  if (ptx::class_of(loaded) == ptx::TypeClass::kSigned) value = static_cast<std::uint64_t>(extended(value, bits));
  return Operand::make_integer(extended(value, 8 * bytes));
}

}  // namespace

Result<std::vector<ConstantParameter>> constant_parameters(const ptx::Module& module, std::string_view kernel,
                                                           std::span<const std::byte> parameters) {
  const Function* const entry = module.find_function(kernel);
  if (entry == nullptr) return PERGOLA_ERROR(kNotFound, "No kernel '{}' is in '{}'.", kernel, module.source_name);
  PERGOLA_ASSIGN(const Parameters found, Parameters::of(module, *entry));
  std::vector<ConstantParameter> constants;
  for (const Parameters::Load& load : found.loads) {
    if (load.offset_bytes + load.size_bytes > parameters.size()) continue;
    ConstantParameter one{load.offset_bytes, load.size_bytes, 0};
    std::memcpy(&one.value, parameters.data() + load.offset_bytes, load.size_bytes);
    if (load.size_bytes < 8 || one.value >> 32 == 0) constants.push_back(one);
  }
  std::ranges::sort(constants);
  constants.erase(std::unique(constants.begin(), constants.end()), constants.end());
  if (constants.empty()) return constants;
  for (const Function* function : module.functions()) {
    if (function->body.empty() || (function->is_entry && function != entry)) continue;
    PERGOLA_ASSIGN(const analysis::Cfg cfg, analysis::build_cfg(*function));
    PERGOLA_TRY(Roundings(module, *function, cfg, function == entry ? &found : nullptr).check());
  }
  return constants;
}

Status make_constant(ptx::Module& module, std::string_view kernel, std::span<const ConstantParameter> constants) {
  PERGOLA_TRY(leave_only_kernel(module, kernel));
  Function& entry = *module.find_function(kernel);
  PERGOLA_ASSIGN(const Parameters found, Parameters::of(module, entry));
  for (const Parameters::Load& load : found.loads) {
    const auto one = std::ranges::find_if(constants, [&](const ConstantParameter& constant) {
      return constant.offset_bytes == load.offset_bytes && constant.size_bytes == load.size_bytes;
    });
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
