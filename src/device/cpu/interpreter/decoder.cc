// Names, registers, frames, labels and constants of a function; the instructions themselves are in exec_*.cc.
#include "src/device/cpu/interpreter/decoder.h"

#include <algorithm>
#include <bit>

#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/reserved_shared.h"

namespace pergola::device::cpu::interp {
namespace {

void run_not_predicate(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = cell(t, i.src[0]) ^ 1; }
void run_frame_offset(Machine&, Thread& t, const Inst& i) { t.regs[i.dst] = t.frame + i.imm; }
void run_return(Machine& m, Thread& t, const Inst&) { m.leave(t); }

std::uint32_t round_up(std::uint64_t value, std::uint64_t align) {
  return static_cast<std::uint32_t>((value + align - 1) / align * align);
}

bool is_rounding(ptx::Mod mod, Rounding* out) {
  switch (mod) {
    case ptx::Mod::kRn:
    case ptx::Mod::kRni: *out = Rounding::kNearestEven; return true;
    case ptx::Mod::kRz:
    case ptx::Mod::kRzi: *out = Rounding::kTowardZero; return true;
    case ptx::Mod::kRm:
    case ptx::Mod::kRmi: *out = Rounding::kDown; return true;
    case ptx::Mod::kRp:
    case ptx::Mod::kRpi: *out = Rounding::kUp; return true;
    case ptx::Mod::kRna: *out = Rounding::kNearestAway; return true;
    default: return false;
  }
}

}  // namespace

ModReader::ModReader(const ptx::Instruction& instruction) : mods_(instruction.mods.begin(), instruction.mods.end()) {}

bool ModReader::take(ptx::Mod mod) {
  auto it = std::find(mods_.begin(), mods_.end(), mod);
  if (it == mods_.end()) return false;
  mods_.erase(it);
  return true;
}

ptx::Type ModReader::take_type() {
  for (auto it = mods_.begin(); it != mods_.end(); ++it) {
    ptx::Type type = ptx::type_of(*it);
    if (type == ptx::Type::kNone) continue;
    mods_.erase(it);
    return type;
  }
  return ptx::Type::kNone;
}

std::optional<ptx::Space> ModReader::take_space() {
  for (auto it = mods_.begin(); it != mods_.end(); ++it) {
    auto space = ptx::space_of(*it);
    if (!space) continue;
    mods_.erase(it);
    return space;
  }
  return std::nullopt;
}

Rounding ModReader::take_rounding(Rounding otherwise, bool* found) {
  for (auto it = mods_.begin(); it != mods_.end(); ++it) {
    Rounding rounding;
    if (!is_rounding(*it, &rounding)) continue;
    mods_.erase(it);
    if (found) *found = true;
    return rounding;
  }
  if (found) *found = false;
  return otherwise;
}

Error Decoder::unsupported(const ptx::Instruction& i, const std::string& why) const {
  if (i.op == ptx::Op::kOpaque && why.empty())
    return PERGOLA_ERROR(kUnsupported,
                         "{}: instruction `{}` is none that is known: the CPU device does not support it, or there is "
                         "none such in PTX.",
                         where_with_ptx(*image_.module, i), spell(i));
  return PERGOLA_ERROR(kUnsupported, "{}: instruction `{}` is not supported by the CPU device{}{}.",
                       where_with_ptx(*image_.module, i), spell(i), why.empty() ? "" : ": ", why);
}

std::int32_t Decoder::constant(std::uint64_t value) {
  auto [it, fresh] = constant_index_.try_emplace(value, 0);
  if (fresh) {
    it->second = ~static_cast<std::int32_t>(code_.constants.size());
    code_.constants.push_back(value);
  }
  return it->second;
}

std::int32_t Decoder::shared_constant(const std::string& slot, std::uint64_t offset) {
  code_.shared_relocations.emplace_back(static_cast<std::uint32_t>(code_.constants.size()), slot);
  code_.constants.push_back(offset);
  return ~static_cast<std::int32_t>(code_.constants.size() - 1);
}

std::int32_t Decoder::temporary(std::uint32_t cells) {
  auto first = static_cast<std::int32_t>(code_.cell_count);
  code_.cell_count += cells;
  return first;
}

std::int32_t Decoder::register_cell(ptx::RegisterId id, int component) const {
  const int each = ptx::size_bytes(function_.registers[id].type) > 8 ? 2 : 1;
  return cells_[id] + std::max(component, 0) * each;
}

Inst& Decoder::append(const ptx::Instruction* source) {
  Inst& inst = code_.code.emplace_back();
  inst.source = source;
  return inst;
}

Inst& Decoder::emit(LaneFn fn, Kind kind) {
  Inst& inst = append(current_);
  inst.lane = fn;
  inst.kind = kind;
  if (current_->guard.present()) {
    inst.guard = register_cell(current_->guard.predicate);
    inst.guard_negated = current_->guard.negated;
  }
  return inst;
}

Inst& Decoder::emit_group(GroupFn fn) {
  Inst& inst = emit(nullptr, Kind::kGroup);
  inst.group = fn;
  return inst;
}

Inst& Decoder::emit_unguarded(LaneFn fn) {
  Inst& inst = append(current_);
  inst.lane = fn;
  return inst;
}

Decoder::Symbol Decoder::lookup(const std::string& name) const {
  for (int scope = scope_; scope >= 0; scope = scopes_[scope].parent) {
    auto it = scopes_[scope].names.find(name);
    if (it != scopes_[scope].names.end()) return it->second;
  }
  Symbol symbol;
  if (auto it = image_.globals.find(name); it != image_.globals.end()) {
    symbol.kind = Symbol::Kind::kAbsolute;
    symbol.value = reinterpret_cast<std::uintptr_t>(it->second.address);
    symbol.size = it->second.size_bytes;
    return symbol;
  }
  if (auto it = image_.module_locals.find(name); it != image_.module_locals.end()) {
    symbol.kind = Symbol::Kind::kLocalAbsolute;
    symbol.value = it->second;
    return symbol;
  }
  if (auto it = image_.function_index.find(name); it != image_.function_index.end()) {
    symbol.kind = Symbol::Kind::kFunction;
    symbol.value = it->second;
    return symbol;
  }
  if (const ptx::Variable* variable = image_.module->find_variable(name);
      variable != nullptr && variable->space == ptx::Space::kShared) {
    symbol.kind = Symbol::Kind::kShared;
    symbol.slot = name;
    symbol.size = variable->size_bytes();
  }
  return symbol;
}

std::int32_t Decoder::read(const ptx::Operand& o, ptx::Type type) {
  using OperandKind = ptx::Operand::Kind;
  switch (o.kind) {
    case OperandKind::kRegister: {
      std::int32_t index = register_cell(o.reg, o.component);
      if (!o.negated) return index;
      Inst& inst = emit_unguarded(run_not_predicate);
      inst.src[0] = index;
      const std::int32_t result = temporary();
      code_.code.back().dst = result;
      return result;
    }
    case OperandKind::kInteger:
      if (type == ptx::Type::kPred) return constant((o.bits != 0) != o.negated ? 1 : 0);
      return constant(o.bits);
    case OperandKind::kF32:
      if (type == ptx::Type::kF64)
        return constant(std::bit_cast<std::uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(o.bits)))));
      return constant(o.bits);
    case OperandKind::kF64:
      if (type == ptx::Type::kF32)
        return constant(round_double(std::bit_cast<double>(o.bits), kF32Format, Rounding::kNearestEven));
      return constant(o.bits);
    case OperandKind::kSpecial: {
      if (names_reserved_shared(o)) return shared_constant(o.name, 0);
      LaneFn reader = special_reader(o.special, o.component);
      if (reader == nullptr) break;
      emit_unguarded(reader);
      const std::int32_t result = temporary();
      code_.code.back().dst = result;
      return result;
    }
    case OperandKind::kSymbol: {
      Symbol symbol = lookup(o.name);
      const auto offset = static_cast<std::uint64_t>(o.offset);
      switch (symbol.kind) {
        case Symbol::Kind::kRegister: return static_cast<std::int32_t>(symbol.value);
        case Symbol::Kind::kAbsolute:
        case Symbol::Kind::kLocalAbsolute: return constant(symbol.value + offset);
        case Symbol::Kind::kShared: return shared_constant(symbol.slot, offset);
        case Symbol::Kind::kFunction:
          image_.functions[symbol.value]->address_taken = true;
          return constant(reinterpret_cast<std::uintptr_t>(&image_.handles[symbol.value]));
        case Symbol::Kind::kFrame: {
          emit_unguarded(run_frame_offset).imm = symbol.value + offset;
          const std::int32_t result = temporary();
          code_.code.back().dst = result;
          return result;
        }
        case Symbol::Kind::kEntryParam: {
          emit_unguarded([](Machine& m, Thread& t, const Inst& i) {
            t.regs[i.dst] = reinterpret_cast<std::uintptr_t>(m.launch().parameters.data()) + i.imm;
          }).imm = symbol.value + offset;
          const std::int32_t result = temporary();
          code_.code.back().dst = result;
          return result;
        }
        case Symbol::Kind::kNone: break;
      }
      break;
    }
    default: break;
  }
  bad_operand_ = true;
  return kNoCell;
}

std::int32_t Decoder::write_cell(const ptx::Operand& o) {
  if (o.kind == ptx::Operand::Kind::kRegister) return register_cell(o.reg, o.component);
  if (o.kind == ptx::Operand::Kind::kSymbol) {
    Symbol symbol = lookup(o.name);
    if (symbol.kind == Symbol::Kind::kRegister) return static_cast<std::int32_t>(symbol.value);
  }
  if (sink_ == kNoCell) sink_ = temporary(2);
  return sink_;
}

Result<Decoder::Address> Decoder::address(const ptx::Instruction& i, const ptx::Operand& o, ptx::Space space) {
  using OperandKind = ptx::Operand::Kind;
  Address result;
  switch (space) {
    case ptx::Space::kGlobal: result.region = Region::kGlobal; break;
    case ptx::Space::kConst: result.region = Region::kConst; break;
    case ptx::Space::kShared: result.region = Region::kShared; break;
    case ptx::Space::kLocal: result.region = Region::kLocal; break;
    case ptx::Space::kParam: result.region = function_.is_entry ? Region::kEntryParam : Region::kLocal; break;
    case ptx::Space::kNone: result.region = Region::kGeneric; break;
    default: return unsupported(i, "it has no such state space");
  }
  if (o.kind != OperandKind::kAddress || o.elements.empty()) return unsupported(i, "an address was expected");
  if (o.elements.size() > 1) return unsupported(i, "the address has several parts");
  const ptx::Operand& base = o.elements[0];
  result.offset = static_cast<std::uint64_t>(o.offset);
  if (base.kind == OperandKind::kSymbol) {
    Symbol symbol = lookup(base.name);
    result.offset += static_cast<std::uint64_t>(base.offset);
    if (symbol.kind == Symbol::Kind::kNone)
      return unsupported(i, fmt::format("'{}' is not a variable that it can reach", base.name));
    if (symbol.kind == Symbol::Kind::kFrame) {
      const std::uint32_t bytes = ptx::size_bytes(i.type()) * static_cast<std::uint32_t>(i.vector_width());
      if (result.offset + bytes > symbol.size || result.offset > symbol.size)
        return unsupported(i, fmt::format("the access lies outside '{}'", base.name));
      result.region = Region::kFrame;
      result.base = constant(0);
      result.offset += symbol.value;
      return result;
    }
    if (symbol.kind == Symbol::Kind::kEntryParam) result.region = Region::kEntryParam;
    if (symbol.kind == Symbol::Kind::kLocalAbsolute && result.region == Region::kGeneric)
      return unsupported(i, "a generic address of a local variable needs cvta");
    if (symbol.kind == Symbol::Kind::kShared && result.region == Region::kGeneric) result.region = Region::kShared;
    ptx::Operand plain = base;
    plain.offset = 0;
    result.base = read(plain, ptx::Type::kB64);
  } else {
    result.base = read(base, ptx::Type::kB64);
    // A 32-bit register as an address is zero-extended; so is a 32-bit cell.
  }
  if (result.base == kNoCell) return unsupported(i, "its address is not understood");
  return result;
}

const ptx::BranchTargets* Decoder::branch_targets(const std::string& name) const {
  auto it = targets_.find(name);
  return it == targets_.end() ? nullptr : it->second;
}

void Decoder::branch_fixup(std::size_t inst, const std::string& label) {
  fixups_.push_back({false, inst, label, scope_, current_->location});
}

void Decoder::branch_table_fixup(std::size_t extra, const std::string& label) {
  fixups_.push_back({true, extra, label, scope_, current_->location});
}

std::uint32_t Decoder::allocate(std::uint64_t size, std::uint32_t align) {
  const std::uint32_t offset = round_up(code_.frame_bytes, std::max<std::uint32_t>(align, 1));
  code_.frame_bytes = offset + static_cast<std::uint32_t>(size);
  return offset;
}

Status Decoder::declare_parameters() {
  auto place = [&](const ptx::Variable& variable, std::vector<FrameSlot>& slots) {
    Symbol symbol;
    FrameSlot slot;
    if (variable.space == ptx::Space::kReg) {
      symbol.kind = Symbol::Kind::kRegister;
      for (std::size_t r = 0; r < function_.registers.size(); ++r)
        if (function_.registers[r].name == variable.name) symbol.value = static_cast<std::uint64_t>(cells_[r]);
      slot.cell = static_cast<std::int32_t>(symbol.value);
      slot.size = 8;
    } else {
      symbol.kind = Symbol::Kind::kFrame;
      symbol.size = variable.size_bytes();
      symbol.value = allocate(symbol.size, variable.alignment_bytes());
      symbol.is_local = true;
      slot.offset = static_cast<std::uint32_t>(symbol.value);
      slot.size = static_cast<std::uint32_t>(symbol.size);
    }
    slots.push_back(slot);
    scopes_[0].names[variable.name] = symbol;
  };
  if (function_.is_entry) {
    std::uint64_t offset = 0;
    for (const ptx::Variable& variable : function_.parameters) {
      offset = round_up(offset, std::max<std::uint32_t>(variable.alignment_bytes(), 1));
      Symbol symbol;
      symbol.kind = Symbol::Kind::kEntryParam;
      symbol.value = offset;
      symbol.size = variable.size_bytes();
      scopes_[0].names[variable.name] = symbol;
      offset += symbol.size;
    }
    return {};
  }
  for (const auto& variable : function_.results) place(variable, code_.results);
  for (const auto& variable : function_.parameters) place(variable, code_.parameters);
  return {};
}

Status Decoder::declare(const ptx::Variable& variable) {
  Symbol symbol;
  symbol.size = variable.size_bytes();
  switch (variable.space) {
    case ptx::Space::kParam:
    case ptx::Space::kLocal:
      symbol.kind = Symbol::Kind::kFrame;
      symbol.value = allocate(symbol.size, std::max<std::uint32_t>(variable.alignment_bytes(), 1));
      symbol.is_local = variable.space == ptx::Space::kLocal;
      break;
    case ptx::Space::kShared:
      symbol.kind = Symbol::Kind::kShared;
      symbol.slot = function_.name + "/" + variable.name;
      break;
    default:
      return PERGOLA_ERROR(kUnsupported, "{}:{}:{}: a .{} variable inside a function is not supported by the CPU device.",
                           image_.module->source_name, variable.location.line, variable.location.column,
                           ptx::spelling(variable.space));
  }
  scopes_[scope_].names[variable.name] = symbol;
  return {};
}

Status Decoder::decode_statement(const ptx::Statement& statement) {
  if (const auto* i = statement.instruction()) {
    current_ = i;
    return decode_instruction(*i);
  }
  if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
    scopes_[scope_].labels[label->name] = static_cast<std::uint32_t>(code_.code.size());
  } else if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
    return declare(*variable);
  } else if (std::holds_alternative<ptx::ScopeBegin>(statement.node)) {
    scopes_.push_back({{}, {}, scope_});
    scope_ = static_cast<int>(scopes_.size()) - 1;
  } else if (std::holds_alternative<ptx::ScopeEnd>(statement.node)) {
    scope_ = scopes_[scope_].parent;
  }
  return {};
}

Status Decoder::decode_instruction(const ptx::Instruction& i) {
  constexpr Decoded (*kFamilies[])(Decoder&, const ptx::Instruction&) = {
      decode_move,    decode_memory, decode_control, decode_half,  decode_integer, decode_bits, decode_float, decode_approx,
      decode_compare, decode_convert, decode_atomic, decode_sync, decode_warp,    decode_call, decode_async,
      decode_texture};
  for (auto family : kFamilies) {
    PERGOLA_ASSIGN(const bool done, family(*this, i));
    if (!done) continue;
    if (bad_operand_) return unsupported(i, "an operand is not understood");
    return {};
  }
  return unsupported(i);
}

Status Decoder::apply_fixups() {
  for (const Fixup& fixup : fixups_) {
    std::optional<std::uint32_t> pc;
    for (int scope = fixup.scope; scope >= 0 && !pc; scope = scopes_[scope].parent)
      if (auto it = scopes_[scope].labels.find(fixup.label); it != scopes_[scope].labels.end()) pc = it->second;
    if (!pc)  // a jump into an inner scope
      for (const Scope& scope : scopes_)
        if (auto it = scope.labels.find(fixup.label); it != scope.labels.end()) pc = it->second;
    if (!pc)
      return PERGOLA_ERROR(kParseError, "{}:{}:{}: there is no label '{}' in '{}'.", image_.module->source_name,
                           fixup.location.line, fixup.location.column, fixup.label, function_.name);
    if (fixup.table)
      code_.extra[fixup.index] = static_cast<std::int32_t>(*pc);
    else
      code_.code[fixup.index].imm = *pc;
  }
  return {};
}

Status Decoder::run() {
  cells_.resize(function_.registers.size());
  for (std::size_t r = 0; r < cells_.size(); ++r) {
    const ptx::Register& reg = function_.registers[r];
    const std::uint32_t each = ptx::size_bytes(reg.type) > 8 ? 2 : 1;
    cells_[r] = temporary(each * std::max<std::uint32_t>(reg.vector, 1));
  }
  scopes_.push_back({});
  PERGOLA_TRY(declare_parameters());
  for (const ptx::Statement& statement : function_.body)
    if (const auto* targets = std::get_if<ptx::BranchTargets>(&statement.node)) targets_[targets->name] = targets;
  for (const ptx::Statement& statement : function_.body) PERGOLA_TRY(decode_statement(statement));
  append(nullptr).lane = run_return;  // falling off the end returns
  code_.code.back().kind = Kind::kControl;
  code_.frame_bytes = round_up(code_.frame_bytes, 16);
  return apply_fixups();
}

}  // namespace pergola::device::cpu::interp
