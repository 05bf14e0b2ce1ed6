// Which operands an instruction reads and writes, and how it touches memory. The types are in semantics_types.cc.
#include "src/ptx/semantics.h"

namespace pergola::ptx {

bool has_any(const Instruction& instruction, std::initializer_list<Mod> mods) {
  for (const Mod mod : mods) {
    if (instruction.has(mod)) return true;
  }
  return false;
}

namespace {

// Instructions whose first operand, where it is no address, is read. All others write it.
bool reads_first_operand(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kBar:
    case Op::kBarrier: return !instruction.has(Mod::kRed);
    case Op::kBrx:
    case Op::kCp:         // cp.async.wait_group N
    case Op::kFence:
    case Op::kNanosleep:
    case Op::kPmevent:
    case Op::kSetmaxnreg:
    case Op::kStackrestore: return true;
    case Op::kTcgen05: return !instruction.has(Mod::kLd);   // dealloc
    case Op::kWgmma: return !instruction.has(Mod::kMmaAsync);  // wait_group N
    default: return false;
  }
}

Role call_role(const Instruction& instruction, std::size_t index) {
  const Operand& operand = instruction.operands[index];
  if (operand.kind != Operand::Kind::kTuple) return Role::kTarget;
  const bool results = index == 0 && instruction.operands.size() > 1;
  return results ? Role::kWrite : Role::kRead;
}

void visit_operand(const Operand& operand, Role role, const std::function<void(RegisterId, bool)>& visit) {
  if (operand.kind == Operand::Kind::kRegister) {
    if (role != Role::kWrite) visit(operand.reg, false);
    if (role == Role::kWrite || role == Role::kReadWrite) visit(operand.reg, true);
    return;
  }
  // The registers of an address are read wherever it stands.
  const Role inner = operand.kind == Operand::Kind::kAddress ? Role::kAddress : role;
  for (const Operand& element : operand.elements) visit_operand(element, inner, visit);
}

bool is_strong_access(const Instruction& instruction) {
  return has_any(instruction, {Mod::kVolatile, Mod::kRelaxed, Mod::kAcquire, Mod::kRelease, Mod::kAcqRel, Mod::kMmio});
}

MemoryEffect make_effect(bool reads, bool writes, bool is_atomic, bool is_strong) {
  return MemoryEffect{reads, writes, is_atomic, is_strong};
}

}  // namespace

Role role(const Instruction& instruction, std::size_t index) {
  if (index >= instruction.operands.size()) return Role::kRead;
  const Operand& operand = instruction.operands[index];
  if (operand.kind == Operand::Kind::kAddress) return Role::kAddress;
  if (operand.kind == Operand::Kind::kLabel) return Role::kTarget;
  if (instruction.op == Op::kCall) return call_role(instruction, index);
  if (index != 0 || reads_first_operand(instruction)) return Role::kRead;
  // The accumulators of wgmma are read as well.
  return instruction.op == Op::kWgmma ? Role::kReadWrite : Role::kWrite;
}

std::vector<Operand> elements(const Operand& operand, const Function& function) {
  if (operand.kind == Operand::Kind::kVector) return operand.elements;
  const bool whole = operand.kind == Operand::Kind::kRegister && operand.component < 0 && operand.reg < function.registers.size();
  const std::uint8_t count = whole ? function.registers[operand.reg].vector : 1;
  std::vector<Operand> parts(count, operand);
  for (std::uint8_t n = 0; count > 1 && n < count; ++n) parts[n].component = static_cast<std::int8_t>(n);
  return parts;
}

void for_each_register(const Instruction& instruction,
                       const std::function<void(RegisterId, bool is_written)>& visit) {
  if (instruction.guard.present()) visit(instruction.guard.predicate, false);
  for (const RegisterId id : instruction.text_registers) {
    visit(id, false);
    visit(id, true);
  }
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    visit_operand(instruction.operands[i], role(instruction, i), visit);
  }
}

MemoryEffect memory_effect(const Instruction& instruction) {
  const bool strong = is_strong_access(instruction);
  switch (instruction.op) {
    case Op::kOpaque: return make_effect(true, true, false, true);
    case Op::kLd:
    case Op::kLdu:
    case Op::kLdmatrix:
    case Op::kSuld:
    case Op::kTex:
    case Op::kTld4: return make_effect(true, false, false, strong);
    case Op::kSt:
    case Op::kStmatrix:
    case Op::kSust:
    case Op::kDiscard: return make_effect(false, true, false, strong);
    case Op::kAtom:
    case Op::kRed:
    case Op::kSured:
    case Op::kMbarrier: {
      const bool touches = !instruction.has(Mod::kPendingCount);
      return make_effect(touches, touches, touches, touches);
    }
    case Op::kCp: {
      if (has_any(instruction, {Mod::kCommitGroup, Mod::kWaitGroup, Mod::kWaitAll, Mod::kPrefetch})) return {};
      const bool reduces = instruction.has(Mod::kReduce);
      const bool arrives = instruction.has(Mod::kMbarrier);
      return make_effect(true, true, reduces || arrives, arrives);
    }
    case Op::kMultimem:
      if (instruction.has(Mod::kLdReduce)) return make_effect(true, false, false, strong);
      if (instruction.has(Mod::kSt)) return make_effect(false, true, false, strong);
      return make_effect(true, true, true, true);
    case Op::kWmma: {
      const bool loads = instruction.has(Mod::kLoad), stores = instruction.has(Mod::kStore);
      return make_effect(loads, stores, false, false);
    }
    case Op::kWgmma: return make_effect(instruction.has(Mod::kMmaAsync), false, false, false);
    case Op::kTcgen05: return make_effect(true, true, false, false);
    case Op::kTensormap: return make_effect(true, true, false, false);
    case Op::kClusterlaunchcontrol: {
      const bool writes = instruction.has(Mod::kTryCancel);
      return make_effect(writes, writes, writes, writes);
    }
    default: return {};
  }
}

bool tells_of_cluster(Special special) {
  switch (special) {
    case Special::kIsExplicitCluster:
    case Special::kClusterid:
    case Special::kNclusterid:
    case Special::kClusterCtaid:
    case Special::kClusterNctaid:
    case Special::kClusterCtarank:
    case Special::kClusterNctarank: return true;
    default: return false;
  }
}

bool is_terminator(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kBra:
    case Op::kBrx:
    case Op::kRet:
    case Op::kExit:
    case Op::kTrap: return true;
    default: return false;
  }
}

bool ends_thread(const Instruction& instruction) {
  return instruction.op == Op::kExit || instruction.op == Op::kTrap;
}

}  // namespace pergola::ptx
