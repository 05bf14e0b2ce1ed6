// One PTX function -> one LLVM function: registers, variables, labels, and the walk over its statements.
#include <llvm/IR/Verifier.h>

#include <algorithm>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/line_tables.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/ptx/printer.h"

namespace pergola::device::cpu::jit {

using ptx::Operand;
using ptx::Space;

FunctionEmitter::FunctionEmitter(ModuleEmitter& module, const ptx::Function& function, llvm::Function* target)
    : m_(module), f_(function), target_(target), b_(module.context()) {}

void FunctionEmitter::refuse(const Inst& in, const std::string& why) const {
  throw Refusal{PERGOLA_ERROR(kUnsupported, "{}:{}: the JIT cannot compile '{}' in '{}': {}.", m_.source().source_name,
                              in.location.line, ptx::print(in, f_), f_.name, why)};
}

void FunctionEmitter::refuse_operand(const std::string& why) const {
  if (current_ != nullptr) refuse(*current_, why);
  throw Refusal{PERGOLA_ERROR(kUnsupported, "{}: the JIT cannot compile '{}': {}.", m_.source().source_name, f_.name, why)};
}

llvm::BasicBlock* FunctionEmitter::new_block(const llvm::Twine& name) {
  return llvm::BasicBlock::Create(m_.context(), name, target_);
}

llvm::AllocaInst* FunctionEmitter::entry_alloca(llvm::Type* type, const llvm::Twine& name, std::uint32_t align_bytes) {
  llvm::IRBuilder<> at_entry(entry_, last_alloca_ == nullptr ? entry_->begin() : std::next(last_alloca_->getIterator()));
  auto* made = at_entry.CreateAlloca(type, nullptr, name);
  last_alloca_ = made;
  if (align_bytes != 0) made->setAlignment(llvm::Align(align_bytes));
  return made;
}

void FunctionEmitter::run() {
  const auto first = std::find_if(f_.body.begin(), f_.body.end(), [](const ptx::Statement& one) { return one.instruction() != nullptr; });
  add_line_scope(*target_, first == f_.body.end() ? 0 : first->instruction()->location.line);
  entry_ = new_block("entry");
  b_.SetInsertPoint(entry_);
  thread_ = target_->getArg(0);
  block_ = field(thread_, offsetof(ThreadContext, block), b_.getPtrTy(), "block");
  scopes_.emplace_back();
  choose_float_registers();
  find_values();
  declare_registers();
  find_origins();
  declare_parameters();
  declare_stack();
  start_labels();
  for (std::size_t n = 0; n < f_.body.size(); ++n) emit_statement(n);
  if (b_.GetInsertBlock()->getTerminator() == nullptr) emit_return();
}

// Type-less .b32 and .b64 registers hold floats in what recent compilers emit: where most uses of one are float
// operands, its alloca is float too, which keeps bit casts out of loops.
void FunctionEmitter::choose_float_registers() {
  std::vector<int> votes(f_.registers.size(), 0);
  for (const ptx::Statement& statement : f_.body) {
    const Inst* in = statement.instruction();
    if (in == nullptr || in->op == ptx::Op::kMov || in->op == ptx::Op::kOpaque) continue;
    for (std::size_t n = 0; n < in->operands.size(); ++n) {
      if (in->operands[n].kind != Operand::Kind::kRegister) continue;
      const ptx::Type type = ptx::operand_type(*in, n);
      const bool floats = type == ptx::Type::kF32 || type == ptx::Type::kF64;
      votes[in->operands[n].reg] += floats ? 1 : -1;
    }
  }
  prefers_float_.resize(f_.registers.size());
  for (std::size_t n = 0; n < f_.registers.size(); ++n) {
    const ptx::Type type = f_.registers[n].type;
    const bool bits = type == ptx::Type::kB32 || type == ptx::Type::kB64;
    prefers_float_[n] = type == ptx::Type::kF32 || type == ptx::Type::kF64 || (bits && votes[n] > 0);
  }
}

// A register is a value where one statement alone writes it, without a guard, and everything that reads it stands
// between that statement and the next label: the write then dominates every read.
void FunctionEmitter::find_values() {
  const std::size_t count = f_.registers.size();
  std::vector<int> writes(count, 0);
  std::vector<std::size_t> written_at(count, 0), written_in(count, 0);  // by which statement, after how many labels
  const auto each = [&](auto&& visit) {
    std::size_t labels = 0;
    for (std::size_t n = 0; n < f_.body.size(); ++n) {
      if (std::holds_alternative<ptx::Label>(f_.body[n].node)) ++labels;
      const Inst* in = f_.body[n].instruction();
      if (in == nullptr) continue;
      ptx::for_each_register(*in, [&](ptx::RegisterId reg, bool written) { visit(*in, n, labels, reg, written); });
    }
  };
  each([&](const Inst& in, std::size_t n, std::size_t labels, ptx::RegisterId reg, bool written) {
    if (!written) return;
    writes[reg] += in.guard.present() ? 2 : 1;
    written_at[reg] = n;
    written_in[reg] = labels;
  });
  values_.assign(count, nullptr);
  is_value_.assign(count, false);
  for (std::size_t n = 0; n < count; ++n) is_value_[n] = writes[n] == 1 && f_.registers[n].vector == 1;
  each([&](const Inst&, std::size_t n, std::size_t labels, ptx::RegisterId reg, bool written) {
    if (!written && (written_at[reg] >= n || written_in[reg] != labels)) is_value_[reg] = false;
  });
  for (const auto* list : {&f_.parameters, &f_.results}) {  // .reg ones are read and written outside the body
    for (const ptx::Variable& variable : *list) {
      for (std::size_t n = 0; n < count; ++n) {
        if (f_.registers[n].name == variable.name) is_value_[n] = false;
      }
    }
  }
}

void FunctionEmitter::declare_registers() {
  registers_.resize(f_.registers.size(), nullptr);
  for (std::size_t n = 0; n < f_.registers.size(); ++n) {
    const ptx::Register& reg = f_.registers[n];
    const unsigned width = bits_of(reg.type);
    if (width == 0) {
      throw Refusal{PERGOLA_ERROR(kUnsupported, "{}: '{}' has the register {} of type .{}, which the JIT cannot hold.",
                                  m_.source().source_name, f_.name, reg.name, ptx::spelling(reg.type))};
    }
    // A register read before it is written holds some value, the same at every read: PTX knows no poison.
    const auto declare = [&] {
      llvm::AllocaInst* made = entry_alloca(prefers_float_[n] ? float_type(width) : i(width), "");
      b_.CreateStore(llvm::Constant::getNullValue(made->getAllocatedType()), made);
      return made;
    };
    if (is_value_[n]) continue;
    registers_[n] = declare();
    if (reg.vector == 1) continue;
    auto& components = components_[static_cast<ptx::RegisterId>(n)];
    components.push_back(registers_[n]);
    while (components.size() < reg.vector) components.push_back(declare());
  }
  carry_ = entry_alloca(i(1), "cc");
  b_.CreateStore(k(1, 0), carry_);
}

// Registers written once, by a move, cvta or add of a constant, that hold a local variable's address: accesses
// through them name the variable, so that small local arrays become values.
void FunctionEmitter::find_origins() {
  std::vector<int> writes(f_.registers.size(), 0);
  std::unordered_set<std::string> locals;
  for (const ptx::Statement& statement : f_.body) {
    if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
      if (variable->space == Space::kLocal) locals.insert(variable->name);
    }
    if (const Inst* in = statement.instruction()) {
      ptx::for_each_register(*in, [&](ptx::RegisterId reg, bool written) { writes[reg] += written ? 1 : 0; });
    }
  }
  if (locals.empty()) return;
  for (const ptx::Statement& statement : f_.body) {
    const Inst* in = statement.instruction();
    if (in == nullptr || in->guard.present() || in->operands.size() < 2) continue;
    const Operand& d = in->operands[0];
    const Operand& a = in->operands[1];
    if (d.kind != Operand::Kind::kRegister || writes[d.reg] != 1) continue;
    const bool moves = in->op == ptx::Op::kMov || in->op == ptx::Op::kCvta;
    const bool sums = in->op == ptx::Op::kAdd && in->operands.size() == 3 && bits_of(in->type()) == 64;
    const bool adds = sums && in->operands[2].kind == Operand::Kind::kInteger;
    if (const std::string* variable = sums || moves ? indexed_variable(*in) : nullptr) {
      indexed_.emplace(d.reg, *variable);
      continue;
    }
    if (!moves && !adds) continue;
    Origin origin;
    if (a.kind == Operand::Kind::kSymbol && locals.contains(a.name)) {
      origin = {a.name, a.offset};
    } else if (a.kind == Operand::Kind::kRegister && origins_.contains(a.reg)) {
      origin = origins_.at(a.reg);
    } else {
      continue;
    }
    if (adds) origin.offset += static_cast<std::int64_t>(in->operands[2].bits);
    origins_.emplace(d.reg, origin);
  }
}

// The local variable that a sum or move of an index and its address, or of such a sum, points into; null for others.
const std::string* FunctionEmitter::indexed_variable(const Inst& in) const {
  const auto of = [&](const Operand& o) -> const std::string* {
    if (o.kind != Operand::Kind::kRegister) return nullptr;
    if (const auto found = indexed_.find(o.reg); found != indexed_.end()) return &found->second;
    return nullptr;
  };
  const auto base = [&](const Operand& o) -> const std::string* {
    if (o.kind != Operand::Kind::kRegister) return nullptr;
    if (const auto found = origins_.find(o.reg); found != origins_.end()) return &found->second.variable;
    return of(o);
  };
  if (in.op != ptx::Op::kAdd) return of(in.operands[1]);
  if (in.operands[2].kind == Operand::Kind::kInteger) return of(in.operands[1]);
  const std::string *left = base(in.operands[1]), *right = base(in.operands[2]);
  return left != nullptr && right != nullptr ? nullptr : left != nullptr ? left : right;
}

void FunctionEmitter::declare_parameters() {
  if (f_.is_entry) {
    Value base = field(block_, offsetof(BlockContext, parameters), b_.getPtrTy(), "parameters");
    std::uint64_t offset = 0;
    for (const ptx::Variable& parameter : f_.parameters) {
      const std::uint64_t align = parameter.alignment_bytes();
      offset = (offset + align - 1) / align * align;
      scopes_.front()[parameter.name] = {Space::kParam, b_.CreateConstInBoundsGEP1_64(i(8), base, offset), true};
      offset += parameter.size_bytes();
    }
    return;
  }
  unsigned n = 1;
  const auto declare = [&](const ptx::Variable& parameter, bool is_result) {
    Value storage = target_->getArg(n++);
    scopes_.front()[parameter.name] = {Space::kParam, storage};
    if (parameter.space != Space::kReg) return;
    for (std::size_t reg = 0; reg < f_.registers.size(); ++reg) {
      if (f_.registers[reg].name != parameter.name) continue;
      if (is_result) {
        result_registers_.emplace_back(static_cast<ptx::RegisterId>(reg), storage);
      } else {
        b_.CreateStore(b_.CreateLoad(registers_[reg]->getAllocatedType(), storage), registers_[reg]);
      }
    }
  };
  for (const ptx::Variable& result : f_.results) declare(result, true);
  for (const ptx::Variable& parameter : f_.parameters) declare(parameter, false);
}

void FunctionEmitter::declare_variable(const ptx::Variable& variable) {
  Place place{variable.space};
  switch (variable.space) {
    case Space::kLocal: case Space::kParam: {
      auto* type = llvm::ArrayType::get(i(8), std::max<std::uint64_t>(variable.size_bytes(), 1));
      place.pointer = entry_alloca(type, variable.name, std::max<std::uint32_t>(variable.alignment_bytes(), 8));
      place.size_bytes = variable.size_bytes();
      break;
    }
    case Space::kReg: return;
    default: return;  // shared: by the layout; global and const: placed as module-scope ones
  }
  scopes_.back()[variable.name] = place;
}

const FunctionEmitter::Place* FunctionEmitter::find_place(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(name);
    if (it != scope->end()) return &it->second;
  }
  return nullptr;
}

void FunctionEmitter::start_labels() {
  for (std::size_t n = 0; n < f_.body.size(); ++n) {
    if (const auto* label = std::get_if<ptx::Label>(&f_.body[n].node)) {
      labels_[label->name] = new_block(label->name);
      label_index_[label->name] = n;
    } else if (const auto* table = std::get_if<ptx::BranchTargets>(&f_.body[n].node)) {
      branch_targets_[table->name] = table;
    }
  }
}

void FunctionEmitter::emit_statement(std::size_t index) {
  const ptx::Statement& statement = f_.body[index];
  if (const Inst* in = statement.instruction()) {
    if (b_.GetInsertBlock()->getTerminator() != nullptr) b_.SetInsertPoint(new_block("unreachable"));
    emit_instruction(*in, index);
  } else if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
    llvm::BasicBlock* block = labels_.at(label->name);
    if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(block);
    block->moveAfter(&target_->back());
    b_.SetInsertPoint(block);
  } else if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
    declare_variable(*variable);
  } else if (std::holds_alternative<ptx::ScopeBegin>(statement.node)) {
    scopes_.emplace_back();
  } else if (std::holds_alternative<ptx::ScopeEnd>(statement.node)) {
    if (scopes_.size() > 1) scopes_.pop_back();
  }
}

// A branch to a label that has been passed.
bool FunctionEmitter::turns_back(const Inst& in) const {
  if (in.operands.empty()) return false;
  const auto label = labels_.find(in.operands[0].name);
  return label != labels_.end() && (!label->second->empty() || label->second == b_.GetInsertBlock());
}

void FunctionEmitter::emit_instruction(const Inst& in, std::size_t index) {
  number_on_line_ = current_ != nullptr && current_->location.line == in.location.line ? number_on_line_ + 1 : 1;
  current_ = &in;
  // What touches no memory has one place, line 0: a place of its own for each instruction is a tenth of LLVM's time. A
  // call touches the stack; where a loop turns is where a kernel stands whose time is over.
  const bool branches = in.op == ptx::Op::kBra;  // a guarded branch is one conditional branch
  const bool has_place = access_bytes(in) != 0 || in.op == ptx::Op::kCall || (branches && turns_back(in));
  b_.SetCurrentDebugLocation(line_place(*target_, has_place ? in.location.line : 0, has_place ? number_on_line_ : 0));
  if (!in.guard.present() || branches) return dispatch(in, index);
  Value guard = read_register(in.guard.predicate);
  auto* then = new_block("then");
  auto* after = new_block("after");
  if (in.guard.negated) {
    b_.CreateCondBr(guard, after, then);
  } else {
    b_.CreateCondBr(guard, then, after);
  }
  b_.SetInsertPoint(then);
  dispatch(in, index);
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(after);
  after->moveAfter(&target_->back());
  b_.SetInsertPoint(after);
}

void FunctionEmitter::dispatch(const Inst& in, std::size_t index) {
  if (in.op == ptx::Op::kOpaque) refuse(in, "the instruction is not understood");
  const bool done = emit_memory(in) || emit_compare(in) || emit_float(in) || emit_integer(in) || emit_bits(in) ||
                    emit_convert(in) || emit_control(in, index) || emit_atomic(in) || emit_warp(in) || emit_stack(in) ||
                    emit_texture(in);
  if (!done) refuse(in, "the instruction is not implemented in this tier");
}

}  // namespace pergola::device::cpu::jit
