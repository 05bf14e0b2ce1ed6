// Control flow (ISA 9.7.12): bra, brx.idx, ret, exit, trap, nanosleep, and instructions that do nothing here.
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;

void branch(Machine&, Thread& t, const Inst& i) { t.pc = static_cast<std::uint32_t>(i.imm); }
void branch_indexed(Machine& m, Thread& t, const Inst& i) {  // imm the table's size
  const auto index = source<std::uint32_t>(t, i, 0);
  if (index >= i.imm)
    m.fault(t, i, fmt::format("branches with index {} into a table of {} targets", index, i.imm));
  else
    t.pc = static_cast<std::uint32_t>(t.function->extra[i.extra + index]);
}
void do_return(Machine& m, Thread& t, const Inst&) { m.leave(t); }
void do_exit(Machine& m, Thread& t, const Inst&) { m.exit(t); }
void do_trap(Machine& m, Thread& t, const Inst& i) { m.fault(t, i, trap_reason(m.launch())); }
void do_breakpoint(Machine& m, Thread& t, const Inst& i) { m.fault(t, i, "meets a breakpoint, and no debugger is there"); }
void do_sleep(Machine& m, Thread& t, const Inst&) { m.sleep(t); }

Decoded decode_branch(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  mods.take(Mod::kUni);
  if (!mods.empty() || i.operands.size() != 1 || i.operands[0].kind != ptx::Operand::Kind::kLabel)
    return d.unsupported(i);
  d.emit(branch, Kind::kControl);
  d.branch_fixup(d.code().code.size() - 1, i.operands[0].name);
  return true;
}

Decoded decode_table(Decoder& d, const ptx::Instruction& i) {
  ModReader mods(i);
  mods.take(Mod::kUni);
  if (!mods.take(Mod::kIdx) || !mods.empty() || i.operands.size() != 2) return d.unsupported(i);
  const ptx::BranchTargets* targets = d.branch_targets(i.operands[1].name);
  if (targets == nullptr) return d.unsupported(i, fmt::format("there is no table '{}'", i.operands[1].name));
  const std::int32_t index = d.read(i.operands[0], ptx::Type::kU32);
  const std::size_t extra = d.code().extra.size();
  for (const std::string& label : targets->labels) {
    d.branch_table_fixup(d.code().extra.size(), label);
    d.code().extra.push_back(0);
  }
  Inst& inst = d.emit(branch_indexed, Kind::kControl);
  inst.src[0] = index;
  inst.extra = static_cast<std::uint32_t>(extra);
  inst.imm = targets->labels.size();
  return true;
}

}  // namespace

Decoded decode_control(Decoder& d, const ptx::Instruction& i) {
  switch (i.op) {
    case Op::kBra: return decode_branch(d, i);
    case Op::kBrx: return decode_table(d, i);
    case Op::kRet: d.emit(do_return, Kind::kControl); return true;
    case Op::kExit: d.emit(do_exit, Kind::kControl); return true;
    case Op::kTrap: d.emit(do_trap, Kind::kControl); return true;
    case Op::kBrkpt: d.emit(do_breakpoint, Kind::kControl); return true;
    case Op::kNanosleep: d.emit(do_sleep, Kind::kControl); return true;
    // A launch starts after the one before it has ended, so there is nothing to wait for or to let go early;
    // registers are not a resource here; nobody counts performance events.
    case Op::kGriddepcontrol:
    case Op::kSetmaxnreg:
    case Op::kPmevent: d.emit(nothing); return true;
    default: return false;
  }
}

}  // namespace pergola::device::cpu::interp
