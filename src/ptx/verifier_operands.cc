// Operand counts, kinds and types of one instruction (ISA 9.4 and 9.7).
//
// Each opcode has a row of forms; a form is a word with a letter for each operand:
//   d  register or _                 D  as d, or a vector of them         P  as d, or a pair d|d
//   V  as D, or a pair D|d           s  a value: register, special, constant, symbol
//   S  as s, or a vector of them     p  a predicate, perhaps negated      a  [address]
//   i  integer constant              l  label                             ~  any operands, up to the end
// The types come from semantics.h, so the table says nothing of them.
#include <fmt/format.h>

#include "src/base/plural.h"
#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"
#include "src/ptx/spellings.h"
#include "src/ptx/verifier_impl.h"

namespace pergola::ptx {
namespace {

std::string_view operand_forms(Op op) {
  switch (op) {
    case Op::kAbs:
    case Op::kNeg:
    case Op::kNot:
    case Op::kCnot:
    case Op::kBrev:
    case Op::kRcp:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kSin:
    case Op::kCos:
    case Op::kLg2:
    case Op::kEx2:
    case Op::kTanh:
    case Op::kPopc:
    case Op::kClz:
    case Op::kBfind:
    case Op::kMovmatrix:
    case Op::kTestp:
    case Op::kCvta:
    case Op::kGetctarank:
    case Op::kIsspacep:
    case Op::kIstypep: return "ds";
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kRem:
    case Op::kDiv:
    case Op::kCopysign:
    case Op::kAddc:
    case Op::kSubc:
    case Op::kMul24:
    case Op::kShl:
    case Op::kShr:
    case Op::kBmsk:
    case Op::kSzext:
    case Op::kMapa:
    case Op::kRedux: return "dss";
    case Op::kMin:
    case Op::kMax: return "dss dsss";
    case Op::kMad:
    case Op::kFma:
    case Op::kMadc:
    case Op::kMad24:
    case Op::kSad:
    case Op::kDp2a:
    case Op::kDp4a:
    case Op::kBfe:
    case Op::kPrmt:
    case Op::kSlct:
    case Op::kShf:
    case Op::kVabsdiff2:
    case Op::kVabsdiff4:
    case Op::kVadd2:
    case Op::kVadd4:
    case Op::kVavrg2:
    case Op::kVavrg4:
    case Op::kVmax2:
    case Op::kVmax4:
    case Op::kVmin2:
    case Op::kVmin4:
    case Op::kVset2:
    case Op::kVset4:
    case Op::kVsub2:
    case Op::kVsub4:
    case Op::kFns: return "dsss";
    case Op::kSelp: return "dssp";
    case Op::kBfi: return "dssss";
    case Op::kLop3: return "dsssi Psssip";
    case Op::kSetp: return "Pss Pssp";
    case Op::kSet: return "dss dssp";
    case Op::kMov: return "DS";
    case Op::kLd:
    case Op::kLdu: return "Da Das";
    case Op::kSt: return "aS aSs aSa";
    case Op::kRed: return "aS aSs aSa";
    case Op::kBra: return "l";
    case Op::kBrx: return "sl";
    case Op::kRet:
    case Op::kExit:
    case Op::kTrap:
    case Op::kBrkpt:
    case Op::kMembar:
    case Op::kGriddepcontrol: return "-";
    case Op::kFence: return "- as";
    case Op::kMatch: return "Pss";
    case Op::kElect: return "Ps";
    case Op::kActivemask:
    case Op::kStacksave: return "d";
    case Op::kNanosleep:
    case Op::kStackrestore: return "s";
    case Op::kPmevent:
    case Op::kSetmaxnreg: return "i";
    case Op::kAlloca: return "ds dss";
    case Op::kTex:
    case Op::kTld4: return "Va~";
    case Op::kTxq: return "da das";
    case Op::kSuq: return "da";
    case Op::kSuld:
    case Op::kLdmatrix: return "Da";
    case Op::kSust:
    case Op::kSured:
    case Op::kStmatrix: return "aS";
    case Op::kMma: return "DSSS~";
    case Op::kMultimem: return "Da aS";
    case Op::kPrefetch:
    case Op::kPrefetchu: return "a";
    case Op::kApplypriority:
    case Op::kDiscard: return "ai";
    case Op::kCreatepolicy: return "d~";
    default: return "~";  // call, wmma, wgmma, tcgen05, tensormap, ...: forms by modifier
  }
}

std::string_view barrier_forms(const Instruction& instruction) {
  if (instruction.has(Mod::kCluster)) return "-";
  if (instruction.has(Mod::kWarp)) return "s";
  if (instruction.has(Mod::kRed)) return "dssp dsp";
  if (instruction.has(Mod::kArrive)) return "ss";
  return "s ss";
}

std::string_view copy_forms(const Instruction& instruction) {
  if (!instruction.has(Mod::kAsync) || instruction.has(Mod::kBulk) || instruction.has(Mod::kReduce)) return "~";
  if (instruction.has(Mod::kMbarrier)) return "a";
  if (instruction.has(Mod::kCommitGroup) || instruction.has(Mod::kWaitAll)) return "-";
  if (instruction.has(Mod::kWaitGroup)) return "i";
  // The size read, or a predicate for "nothing".
  return instruction.has(Mod::kL2CacheHint) ? "aaips aaiss aais" : "aai aais aaip";
}

// Of two or four floats into one register there are as many, and bits to round by where .rs says so.
std::string_view conversion_forms(const Instruction& instruction) {
  if (instruction.has(Mod::kPack)) return "dss dsss";
  const std::string_view to = spelling(instruction.type(0));
  const bool takes_floats = instruction.type(1) == Type::kF32;
  if (takes_floats && to.ends_with("x4")) return "dSs";
  if (takes_floats && to.ends_with("x2")) return instruction.has(Mod::kRs) ? "dsss" : "dss";
  return "dS";
}

// ISA 9.7.13.15.
std::string_view mbarrier_forms(const Instruction& instruction) {
  if (instruction.has(Mod::kPendingCount)) return "ds";
  if (instruction.has(Mod::kInval)) return "a";
  if (instruction.has(Mod::kTestWait)) return "das";
  if (instruction.has(Mod::kTryWait)) return "das dass";
  const bool arrives = instruction.has(Mod::kArrive) || instruction.has(Mod::kArriveDrop);
  if (!arrives) return "as";  // init, expect_tx, complete_tx
  return instruction.has(Mod::kExpectTx) || instruction.has(Mod::kNoComplete) ? "das" : "da das";
}

// Where they differ by the modifiers; else those of the opcode.
std::string_view operand_forms(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kBar:
    case Op::kBarrier: return barrier_forms(instruction);
    case Op::kCp: return copy_forms(instruction);
    case Op::kCvt: return conversion_forms(instruction);
    case Op::kMbarrier: return mbarrier_forms(instruction);
    case Op::kShfl: return instruction.has(Mod::kSync) ? "Pssss" : "Psss";
    case Op::kVote: return instruction.has(Mod::kSync) ? "dps" : "dp";
    case Op::kAtom:
      if (instruction.has(Mod::kCas)) return instruction.has(Mod::kL2CacheHint) ? "DaSss" : "DaSs";
      return instruction.has(Mod::kL2CacheHint) ? "DaSs" : "DaS";
    default: return operand_forms(instruction.op);
  }
}

using Kind = Operand::Kind;

bool is_destination(const Operand& operand) {
  return (operand.kind == Kind::kRegister && !operand.negated) || operand.kind == Kind::kSink;
}

bool all_of(const Operand& operand, bool (*accept)(const Operand&)) {
  for (const Operand& element : operand.elements) {
    if (!accept(element)) return false;
  }
  return true;
}

bool is_destination_vector(const Operand& operand) {
  return is_destination(operand) || (operand.kind == Kind::kVector && all_of(operand, is_destination));
}

bool is_value(const Operand& operand) {
  switch (operand.kind) {
    case Kind::kRegister:
    case Kind::kSymbol:
    case Kind::kSpecial: return !operand.negated;
    case Kind::kInteger:
    case Kind::kF32:
    case Kind::kF64: return true;
    default: return false;
  }
}

bool is_value_or_sink(const Operand& operand) { return is_value(operand) || operand.kind == Kind::kSink; }

bool fits(const Operand& operand, char code) {
  const Kind kind = operand.kind;
  switch (code) {
    case 'd': return is_destination(operand);
    case 'D': return is_destination_vector(operand);
    case 'P': return is_destination(operand) || (kind == Kind::kPair && all_of(operand, is_destination));
    case 'V':
      return is_destination_vector(operand) ||
             (kind == Kind::kPair && is_destination_vector(operand.elements[0]) && is_destination(operand.elements[1]));
    case 's': return is_value(operand);
    case 'S': return is_value(operand) || (kind == Kind::kVector && all_of(operand, is_value_or_sink));
    case 'p': return kind == Kind::kRegister || kind == Kind::kInteger || kind == Kind::kSpecial;
    case 'a': return kind == Kind::kAddress;
    case 'i': return kind == Kind::kInteger;
    case 'l': return kind == Kind::kLabel;
    default: return false;
  }
}

std::string_view name_of(char code) {
  switch (code) {
    case 'd': return "a register";
    case 'D':
    case 'V': return "a register or a vector of registers";
    case 'P': return "a register or a pair of registers";
    case 's': return "a register or a constant";
    case 'S': return "a register, a constant or a vector";
    case 'p': return "a predicate";
    case 'a': return "an address in brackets";
    case 'i': return "an integer constant";
    case 'l': return "a label";
    default: return "an operand";
  }
}

// The number of operands that fit `form` from the first on; the whole count where the form matches.
std::size_t match(const Instruction& instruction, std::string_view form) {
  std::size_t i = 0;
  for (; i < form.size(); ++i) {
    if (form[i] == '~') return instruction.operands.size() + 1;
    if (i >= instruction.operands.size() || !fits(instruction.operands[i], form[i])) return i;
  }
  return i == instruction.operands.size() ? i + 1 : i;  // one more than the operands: a full match
}

std::optional<std::string> check_form(const Instruction& instruction) {
  std::string_view forms = operand_forms(instruction);
  const std::size_t count = instruction.operands.size();
  std::size_t best = 0;
  std::string_view best_form;
  while (!forms.empty()) {
    const std::size_t space = std::min(forms.find(' '), forms.size());
    std::string_view form = forms.substr(0, space);
    forms.remove_prefix(std::min(space + 1, forms.size()));
    if (form == "-") form = "";
    const std::size_t matched = match(instruction, form);
    if (matched == count + 1) return std::nullopt;
    if (matched >= best) {
      best = matched;
      best_form = form;
    }
  }
  const std::string_view op = spelling(instruction.op);
  if (best >= best_form.size()) {
    return fmt::format("expected {} of '{}', found {}", plural(best_form.size(), "operand"), op, count);
  }
  if (best >= count) {
    return fmt::format("expected {} as operand {} of '{}', found {}", name_of(best_form[best]), best + 1, op,
                       plural(count, "operand"));
  }
  return fmt::format("expected {} as operand {} of '{}', found another kind of operand", name_of(best_form[best]),
                     best + 1, op);
}

// ---- Types

// Of cvt and of loads and stores a register may be wider than the type (ISA 9.4.1).
bool may_be_wider(Op op) {
  switch (op) {
    case Op::kCvt:
    case Op::kLd:
    case Op::kLdu:
    case Op::kSt:
    case Op::kSuld:
    case Op::kSust: return true;
    default: return false;
  }
}

bool register_fits(Type reg, Type type, bool wider) {
  const TypeClass reg_class = class_of(reg), type_class = class_of(type);
  if (reg_class == TypeClass::kPredicate || type_class == TypeClass::kPredicate) return reg_class == type_class;
  const std::uint32_t reg_bytes = size_bytes(reg), type_bytes = size_bytes(type);
  if (wider ? reg_bytes < type_bytes : reg_bytes != type_bytes) return false;
  if (reg_class == TypeClass::kBits || type_class == TypeClass::kBits || reg == type) return true;
  if (type_class == TypeClass::kOpaque) return true;
  const bool reg_float = reg_class == TypeClass::kFloat, type_float = type_class == TypeClass::kFloat;
  return !reg_float && !type_float;  // signed and unsigned agree
}

bool constant_fits(Kind kind, Type type) {
  const TypeClass type_class = class_of(type);
  const bool wide_float = type == Type::kF32 || type == Type::kF64;
  if (kind == Kind::kInteger) return !wide_float;
  return type_class == TypeClass::kFloat || type_class == TypeClass::kBits;
}

std::optional<std::string> check_leaf(const Operand& operand, Type type, bool wider, const Function& function) {
  if (operand.kind == Kind::kRegister) {
    const Register& reg = function.registers[operand.reg];
    if (operand.component >= static_cast<int>(reg.vector) || (operand.component >= 0 && reg.vector == 1)) {
      return fmt::format("expected a component of a vector, found '{}.{}'", reg.name, "xyzw"[operand.component & 3]);
    }
    if (!register_fits(reg.type, type, wider)) {
      return fmt::format("expected a register that holds .{}, found '{}' of type .{}", spelling(type), reg.name,
                         spelling(reg.type));
    }
    if (operand.negated && type != Type::kPred) {
      return fmt::format("expected '!' before a predicate only, found it before '{}'", reg.name);
    }
  } else if (operand.kind == Kind::kInteger || operand.kind == Kind::kF32 || operand.kind == Kind::kF64) {
    if (!constant_fits(operand.kind, type)) {
      return fmt::format("expected {} constant for .{}, found another",
                         operand.kind == Kind::kInteger ? "a floating-point" : "an integer", spelling(type));
    }
  }
  return std::nullopt;
}

// mov.b64 {a, b}, c: elements share the type's bytes evenly.
std::optional<std::string> check_pack(const Operand& vector, Type type, const Function& function) {
  const std::size_t count = vector.elements.size();
  const std::uint32_t bytes = size_bytes(type);
  if (count == 0 || bytes % count != 0) {
    return fmt::format("expected a vector whose elements fill .{}, found {}", spelling(type), plural(count, "element"));
  }
  for (const Operand& element : vector.elements) {
    if (element.kind != Kind::kRegister) continue;
    const Register& reg = function.registers[element.reg];
    if (class_of(reg.type) == TypeClass::kPredicate || size_bytes(reg.type) != bytes / count) {
      return fmt::format("expected a register of {}, found '{}' of type .{}", plural(bytes / count, "byte"), reg.name,
                         spelling(reg.type));
    }
  }
  return std::nullopt;
}

std::optional<std::string> check_type(const Instruction& instruction, std::size_t index, const Function& function) {
  const Operand& operand = instruction.operands[index];
  const Type type = operand_type(instruction, index);
  if (type == Type::kNone) return std::nullopt;
  const bool wider = may_be_wider(instruction.op);
  if (instruction.op == Op::kMov && operand.kind == Kind::kVector && instruction.vector_width() == 1) {
    return check_pack(operand, type, function);
  }
  if (operand.kind == Kind::kPair) {
    // The second of a pair is a predicate wherever a pair stands.
    for (std::size_t i = 0; i < 2; ++i) {
      const Operand& half = operand.elements[i];
      if (half.kind == Kind::kVector) continue;
      if (auto wrong = check_leaf(half, i == 0 ? type : Type::kPred, wider, function)) return wrong;
    }
    return std::nullopt;
  }
  if (operand.kind != Kind::kVector) return check_leaf(operand, type, wider, function);
  for (const Operand& element : operand.elements) {
    if (auto wrong = check_leaf(element, type, wider, function)) return wrong;
  }
  return std::nullopt;
}

// ld.v4 takes four elements, ld takes none.
std::optional<std::string> check_vector_width(const Instruction& instruction, const Function& function) {
  std::size_t index = 0;
  switch (instruction.op) {
    case Op::kLd:
    case Op::kLdu: break;
    case Op::kSt: index = 1; break;
    default: return std::nullopt;
  }
  const Operand& operand = instruction.operands[index];
  const auto width = static_cast<std::size_t>(instruction.vector_width());
  std::size_t found = 1;
  if (operand.kind == Kind::kVector) {
    found = operand.elements.size();
  } else if (operand.kind == Kind::kRegister && operand.component < 0) {
    found = function.registers[operand.reg].vector;
  }
  if (width == found || operand.kind == Kind::kSink) return std::nullopt;
  return fmt::format("expected {} for '{}', found {}", plural(width, "element"), spelling(instruction.op), found);
}

std::optional<std::string> check_addresses(const Operand& operand, const Function& function) {
  if (operand.kind == Kind::kAddress && !operand.elements.empty()) {
    const Operand& base = operand.elements[0];
    if (base.kind == Kind::kRegister) {
      const Register& reg = function.registers[base.reg];
      const TypeClass reg_class = class_of(reg.type);
      const bool integer = reg_class == TypeClass::kBits || reg_class == TypeClass::kUnsigned ||
                           reg_class == TypeClass::kSigned || reg_class == TypeClass::kOpaque;
      const std::uint32_t bytes = size_bytes(reg.type);
      if (!integer || (bytes != 4 && bytes != 8)) {
        return fmt::format("expected an address of 32 or 64 bits, found '{}' of type .{}", reg.name,
                           spelling(reg.type));
      }
    } else if (base.kind != Kind::kSymbol && base.kind != Kind::kInteger && base.kind != Kind::kSpecial) {
      return "expected a register, a symbol or an integer as an address, found another kind of operand";
    }
  }
  for (const Operand& element : operand.elements) {
    if (auto wrong = check_addresses(element, function)) return wrong;
  }
  return std::nullopt;
}

bool needs_type(Op op) {
  switch (op) {
    case Op::kMov:
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kMad:
    case Op::kFma:
    case Op::kDiv:
    case Op::kRem:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kNot:
    case Op::kShl:
    case Op::kShr:
    case Op::kSetp:
    case Op::kSelp:
    case Op::kCvt:
    case Op::kCvta:
    case Op::kLd:
    case Op::kAtom:
    case Op::kRed:
    case Op::kAbs:
    case Op::kNeg:
    case Op::kMin:
    case Op::kMax: return true;
    default: return false;
  }
}

// What of a memory's order, or of a dependent grid, there must be a word about.
std::optional<std::string> check_level(const Instruction& instruction) {
  const auto missing = [&](std::string_view what) {
    return fmt::format("expected {} after '{}', found none", what, spelling(instruction.op));
  };
  switch (instruction.op) {
    case Op::kMembar:
      if (!instruction.mods.empty()) break;
      return missing(".cta, .gl or .sys");
    case Op::kFence:
      if (has_any(instruction, {Mod::kCta, Mod::kCluster, Mod::kGpu, Mod::kSys, Mod::kProxy})) break;
      return missing("a scope (.cta, .cluster, .gpu or .sys)");
    case Op::kGriddepcontrol:
      if (has_any(instruction, {Mod::kWait, Mod::kLaunchDependents})) break;
      return missing(".wait or .launch_dependents");
    default: break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_operands(const Instruction& instruction, const Function& function) {
  if (instruction.op == Op::kOpaque) return std::nullopt;
  if (auto wrong = check_form(instruction)) return wrong;
  if (auto wrong = check_level(instruction)) return wrong;
  if (needs_type(instruction.op) && instruction.type(0) == Type::kNone) {
    return fmt::format("expected a type after '{}', found none", spelling(instruction.op));
  }
  if (instruction.op == Op::kCvt && instruction.type(1) == Type::kNone) return "expected two types after 'cvt', found one";
  if (auto wrong = check_spelling(instruction)) return wrong;
  for (const Operand& operand : instruction.operands) {
    if (auto wrong = check_addresses(operand, function)) return wrong;
  }
  if (auto wrong = check_vector_width(instruction, function)) return wrong;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (auto wrong = check_type(instruction, i, function)) return wrong;
  }
  return std::nullopt;
}

}  // namespace pergola::ptx
