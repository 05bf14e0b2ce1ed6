// Branches, barriers and the ends of threads (PTX ISA 9.7.12, 9.7.13.1).
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/thread_context.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using Value = llvm::Value*;

// Every so many turns of a loop that may spin, the other threads get theirs.
void FunctionEmitter::emit_yield() {
  Value left = b_.CreateConstInBoundsGEP1_64(i(8), thread_, offsetof(ThreadContext, spin_left));
  Value now = b_.CreateLoad(i(32), left);
  auto* others = new_block("others");
  auto* go_on = new_block("go_on");
  b_.CreateStore(b_.CreateSub(now, k(32, 1)), left);
  b_.CreateCondBr(b_.CreateICmpEQ(now, k(32, 0)), others, go_on);
  b_.SetInsertPoint(others);
  call_runtime("pergola_jit_yield", b_.getVoidTy(), {thread_});
  b_.CreateBr(go_on);
  b_.SetInsertPoint(go_on);
}

void FunctionEmitter::note_wait(const Inst& in) {
  const auto at = b_.CreateConstInBoundsGEP1_64(i(8), thread_, offsetof(ThreadContext, wait_line));
  b_.CreateStore(k(32, in.location.line), at);
}

void FunctionEmitter::note_look(const Inst& in, Value address) {
  if (!m_.traits().needs_fibers) return;
  const auto at = [&](std::size_t offset) { return b_.CreateConstInBoundsGEP1_64(i(8), thread_, offset); };
  b_.CreateStore(k(32, in.location.line), at(offsetof(ThreadContext, look_line)));
  b_.CreateStore(b_.CreatePtrToInt(address, i(64)), at(offsetof(ThreadContext, look_address)));
}

void FunctionEmitter::emit_branch(const Inst& in, std::size_t index) {
  const auto target = labels_.find(in.operands.at(0).name);
  if (target == labels_.end()) refuse(in, "its label is not in the function");
  const auto yields = m_.traits().yields.find(f_.name);
  const bool yields_here = yields != m_.traits().yields.end() && yields->second.contains(index);
  if (!in.guard.present()) {
    if (yields_here) emit_yield();
    b_.CreateBr(target->second);
    return;
  }
  Value guard = read_register(in.guard.predicate);
  if (in.guard.negated) guard = b_.CreateNot(guard);
  auto* next = new_block("next");
  auto* taken = target->second;
  if (yields_here) taken = new_block("back_edge");
  b_.CreateCondBr(guard, taken, next);
  if (yields_here) {
    b_.SetInsertPoint(taken);
    emit_yield();
    b_.CreateBr(target->second);
  }
  next->moveAfter(&target_->back());
  b_.SetInsertPoint(next);
}

void FunctionEmitter::emit_branch_table(const Inst& in, std::size_t index) {
  const auto table = branch_targets_.find(in.operands.at(1).name);
  if (table == branch_targets_.end()) refuse(in, "its table of targets is not in the function");
  const auto yields = m_.traits().yields.find(f_.name);
  if (yields != m_.traits().yields.end() && yields->second.contains(index)) emit_yield();
  Value which = read(in.operands[0], 32);
  auto* outside = new_block("no_target");
  auto* choice = b_.CreateSwitch(which, outside, static_cast<unsigned>(table->second->labels.size()));
  for (std::size_t n = 0; n < table->second->labels.size(); ++n) {
    const auto target = labels_.find(table->second->labels[n]);
    if (target == labels_.end()) refuse(in, "one of its labels is not in the function");
    choice->addCase(llvm::cast<llvm::ConstantInt>(k(32, n)), target->second);
  }
  b_.SetInsertPoint(outside);  // an index outside the table is undefined in the ISA; here it is a fault
  call_runtime("pergola_jit_trap", b_.getVoidTy(), {thread_, k(32, kTrapBranchTable), k(32, in.location.line)});
  b_.CreateUnreachable();
}

// Results that are registers go to the caller's storage.
void FunctionEmitter::emit_return() {
  for (const auto& [reg, storage] : result_registers_) b_.CreateStore(to_bits(read_register(reg)), storage);
  b_.CreateRetVoid();
}

void FunctionEmitter::emit_exit() {
  if (f_.is_entry) {
    b_.CreateRetVoid();
  } else {
    call_runtime("pergola_jit_exit", b_.getVoidTy(), {thread_});
    b_.CreateUnreachable();
  }
}

void FunctionEmitter::emit_barrier(const Inst& in) {
  if (in.has(Mod::kCluster)) refuse(in, "clusters are not implemented in this tier");
  if (in.has(Mod::kWarp)) {
    call_runtime("pergola_jit_collective", i(64), {thread_, k(32, kSyncWarp), read(in.operands.at(0), 32), k(64, 0),
                                                   k(32, 0), k(32, 0)});
    return;
  }
  const bool reduces = in.has(Mod::kRed);
  const std::size_t first = reduces ? 1 : 0;
  const std::size_t last = in.operands.size() - (reduces ? 1 : 0);  // one past id and count
  Value id = first < last ? read(in.operands[first], 32) : k(32, 0);
  Value count = first + 1 < last ? read(in.operands[first + 1], 32) : k(32, 0);
  const bool aligned = in.op == Op::kBar || in.has(Mod::kAligned);
  const std::uint32_t kind = in.has(Mod::kArrive) ? kBarrierArrive : aligned ? kBarrierAligned : kBarrierSync;
  Value predicate = reduces ? b_.CreateZExt(read_pred(in.operands.back()), i(32)) : k(32, 0);
  Value v = call_runtime("pergola_jit_barrier", i(32), {thread_, id, count, k(32, kind), predicate});
  if (!reduces) return;
  // The run time gives the number of true predicates, and whether all were true in the top bit.
  if (in.has(Mod::kPopc)) return write(in.operands[0], b_.CreateAnd(v, k(32, 0x7fffffff)));
  Value all = b_.CreateICmpSLT(v, k(32, 0));
  Value any = b_.CreateICmpNE(b_.CreateAnd(v, k(32, 0x7fffffff)), k(32, 0));
  write(in.operands[0], in.has(Mod::kAnd) ? all : any);
}

bool FunctionEmitter::emit_control(const Inst& in, std::size_t index) {
  switch (in.op) {
    case Op::kBra: return emit_branch(in, index), true;
    case Op::kBrx: return emit_branch_table(in, index), true;
    case Op::kRet: return emit_return(), true;
    case Op::kExit: return emit_exit(), true;
    case Op::kTrap:
      call_runtime("pergola_jit_trap", b_.getVoidTy(), {thread_, k(32, kTrapInstruction), k(32, in.location.line)});
      b_.CreateUnreachable();
      return true;
    case Op::kBar: case Op::kBarrier: return note_wait(in), emit_barrier(in), true;
    case Op::kNanosleep: note_wait(in); return call_runtime("pergola_jit_yield", b_.getVoidTy(), {thread_}), true;
    case Op::kCall: return emit_call(in), true;
    case Op::kBrkpt:
      call_runtime("pergola_jit_trap", b_.getVoidTy(), {thread_, k(32, kTrapBreakpoint), k(32, in.location.line)});
      b_.CreateUnreachable();
      return true;
    // A counter event, and hints on registers and launches.
    case Op::kPmevent: case Op::kSetmaxnreg: case Op::kGriddepcontrol: return true;
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
