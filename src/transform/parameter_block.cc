#include "src/transform/parameter_block.h"

#include <algorithm>

#include "src/ptx/printer.h"
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
using ptx::Space;
using ptx::Statement;

void replace_space(Instruction& instruction, Space from, Mod to) {
  for (Mod& mod : instruction.mods)
    if (ptx::space_of(mod) == from) mod = to;
}

Instruction make(Op op, std::initializer_list<Mod> mods, std::initializer_list<Operand> operands) {
  Instruction made;
  made.op = op;
  made.mods.assign(mods.begin(), mods.end());
  made.operands.assign(operands.begin(), operands.end());
  return made;
}

// Rewrites the body of one entry.
class Rewriter {
 public:
  Rewriter(const ptx::Module& module, Function& entry, const ptx::KernelSignature& signature)
      : module_(module), entry_(entry), parameters_(signature) {}

  Status run() {
    add_registers();
    for (Statement& statement : entry_.body) {
      parameters_.pass(statement);
      if (auto* location = std::get_if<ptx::LocDirective>(&statement.node)) {
        location->rest.clear();  // names sections, which are gone
      } else if (Instruction* instruction = statement.instruction()) {
        PERGOLA_TRY(rewrite(*instruction, statement.location));
      }
    }
    if (address_taken_) PERGOLA_TRY(check_addresses());
    begin_with_block();
    return {};
  }

 private:
  Error refuse(const ptx::Location& location, std::string_view text, std::string_view why) const {
    return PERGOLA_ERROR(kUnsupported, "{}:{}: the parameters of kernel '{}' cannot lie in memory: `{}` {}.",
                         module_.source_name, location.line, entry_.name, text, why);
  }
  Error refuse(const Instruction& instruction, const ptx::Location& location, std::string_view why) const {
    return refuse(location, ptx::print(instruction, entry_), why);
  }

  Status rewrite(Instruction& instruction, const ptx::Location& location) {
    if (instruction.op == Op::kOpaque) return check_opaque(instruction, location);
    if (instruction.op == Op::kLd && instruction.space() == Space::kParam) return rewrite_load(instruction, location);
    if (instruction.op == Op::kCvta && instruction.space() == Space::kParam) return rewrite_cvta(instruction, location);
    const bool mentioned = parameters_.is_in(instruction);
    if (mentioned && instruction.op == Op::kMov) return rewrite_mov(instruction, location);
    if (mentioned) return refuse(instruction, location, "uses one otherwise than by loading it or taking its address");
    // Stores into the parameters of a call name them; anything else goes through an address.
    const bool by_name =
        std::any_of(instruction.operands.begin(), instruction.operands.end(), [](const Operand& operand) {
          return operand.kind == Operand::Kind::kAddress && operand.elements[0].kind == Operand::Kind::kSymbol;
        });
    if (instruction.space() == Space::kParam && !by_name)
      return refuse(instruction, location, "works on an address in .param");
    return {};
  }

  Status check_opaque(const Instruction& instruction, const ptx::Location& location) const {
    if (!parameters_.is_in_text(instruction.text)) return {};
    return refuse(location, instruction.text, "mentions one and is not understood");
  }

  // ld.param.T d, [name+imm] or, where an address was taken, [%reg+imm]; what calls return is named and stays.
  Status rewrite_load(Instruction& instruction, const ptx::Location& location) {
    Operand& address = instruction.operands.back();
    if (address.kind != Operand::Kind::kAddress || address.elements.size() != 1)
      return refuse(instruction, location, "is a load of another form than [address]");
    Operand& base = address.elements[0];
    if (base.kind == Operand::Kind::kSymbol) {
      const std::uint32_t* const offset = parameters_.offset(base.name);
      if (offset == nullptr) return {};
      address.offset += *offset;
      base = Operand::make_register(block_);
    } else if (base.kind != Operand::Kind::kRegister) {
      return refuse(instruction, location, "loads from an address that is a number");
    }
    replace_space(instruction, Space::kParam, Mod::kGlobal);
    return {};
  }

  // mov.b64 %rd, name+imm: addresses in .param become addresses in .global.
  Status rewrite_mov(Instruction& instruction, const ptx::Location& location) {
    return rewrite_address(instruction, location, block_);
  }

  // cvta.param.u64 %rd, name+imm or %reg (to generic); cvta.to.param.u64 %rd, %reg (back).
  Status rewrite_cvta(Instruction& instruction, const ptx::Location& location) {
    address_taken_ = true;
    if (instruction.operands.size() == 2 && instruction.operands[1].kind == Operand::Kind::kSymbol)
      return rewrite_address(instruction, location, generic_);
    replace_space(instruction, Space::kParam, Mod::kGlobal);
    return {};
  }

  Status rewrite_address(Instruction& instruction, const ptx::Location& location, ptx::RegisterId base) {
    const bool plain = instruction.operands.size() == 2 && instruction.operands[0].kind == Operand::Kind::kRegister &&
                       instruction.operands[1].kind == Operand::Kind::kSymbol &&
                       ptx::size_bytes(instruction.type()) == 8 && !instruction.has(Mod::kTo);
    const std::uint32_t* const offset = plain ? parameters_.offset(instruction.operands[1].name) : nullptr;
    if (offset == nullptr)
      return refuse(instruction, location, "takes an address in another form than into a register");
    address_taken_ = true;
    const std::int64_t at = *offset + instruction.operands[1].offset;
    Instruction sum =
        make(Op::kAdd, {Mod::kS64}, {instruction.operands[0], Operand::make_register(base), Operand::make_integer(at)});
    sum.guard = instruction.guard;
    sum.location = instruction.location;
    sum.debug_file = instruction.debug_file;
    sum.debug_line = instruction.debug_line;
    instruction = std::move(sum);
    return {};
  }

  // Addresses are of another space now: nobody may ask which, and a GPU's cache of tensor maps is not told when the
  // block has changed.
  Status check_addresses() const {
    for (const Function* function : module_.functions()) {
      for (const Statement& statement : function->body) {
        const Instruction* const instruction = statement.instruction();
        if (instruction == nullptr) continue;
        const bool asks = instruction->op == Op::kIsspacep;
        const bool tensor = instruction->has(Mod::kTensor) || instruction->has(Mod::kTensormap);
        if (!asks && !tensor) continue;
        return refuse(statement.location, ptx::print(*instruction, *function),
                      asks ? "asks for the space of an address, and the address of one is taken"
                           : "reads a tensor map, and the address of one is taken");
      }
    }
    return {};
  }

  // Ahead of the others, as they are declared first.
  void add_registers() {
    constexpr ptx::RegisterId kAdded = 2;
    const auto move = [](ptx::RegisterId& id) {
      if (id != ptx::kNoRegister) id += kAdded;
    };
    for (Statement& statement : entry_.body) {
      if (auto* declaration = std::get_if<ptx::RegisterDecl>(&statement.node)) move(declaration->first);
      Instruction* const instruction = statement.instruction();
      if (instruction == nullptr) continue;
      move(instruction->guard.predicate);
      for (ptx::RegisterId& id : instruction->text_registers) move(id);
      for (Operand& operand : instruction->operands) for_each_register(operand, move);
    }
    block_ = 0;
    generic_ = 1;
    const std::string block = free_name("%pergola_block"), generic = free_name("%pergola_block_generic");
    entry_.registers.insert(entry_.registers.begin(), {{block, ptx::Type::kB64}, {generic, ptx::Type::kB64}});
  }

  template <typename Visit>
  static void for_each_register(Operand& operand, const Visit& visit) {
    visit(operand.reg);
    for (Operand& element : operand.elements) for_each_register(element, visit);
  }

  std::string free_name(std::string name) const {
    while (std::any_of(entry_.registers.begin(), entry_.registers.end(),
                       [&](const ptx::Register& known) { return known.name == name; }))
      name += '_';
    return name;
  }

  void begin_with_block() {
    ptx::Variable block;
    block.space = Space::kParam;
    block.type = ptx::Type::kU64;
    block.name = entry_.name + "_block";
    std::vector<Statement> begin;
    begin.push_back({ptx::RegisterDecl{block_, 1, false, ""}, {}});
    begin.push_back({ptx::RegisterDecl{generic_, 1, false, ""}, {}});
    const Operand local = Operand::make_register(block_), generic = Operand::make_register(generic_);
    begin.push_back(
        {make(Op::kLd, {Mod::kParam, Mod::kU64}, {generic, Operand::make_address(Operand::make_symbol(block.name))}),
         {}});
    begin.push_back({make(Op::kCvta, {Mod::kTo, Mod::kGlobal, Mod::kU64}, {local, generic}), {}});
    entry_.body.insert(entry_.body.begin(), std::make_move_iterator(begin.begin()),
                       std::make_move_iterator(begin.end()));
    entry_.parameters.assign(1, block);
  }

  const ptx::Module& module_;
  Function& entry_;
  ParameterNames parameters_;
  ptx::RegisterId block_ = ptx::kNoRegister, generic_ = ptx::kNoRegister;
  bool address_taken_ = false;
};

}  // namespace

Status to_parameter_block(ptx::Module& module, std::string_view kernel) {
  PERGOLA_TRY(leave_only_kernel(module, kernel));
  Function* const entry = module.find_function(kernel);
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, *entry));
  return Rewriter(module, *entry, signature).run();
}

}  // namespace pergola::transform
