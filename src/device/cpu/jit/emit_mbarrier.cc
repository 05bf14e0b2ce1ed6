// mbarrier objects (PTX ISA 9.7.13.15): 64 bits of shared memory that mbarrier.cc alone knows the inside of.
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using Value = llvm::Value*;

void FunctionEmitter::emit_mbarrier(const Inst& in) {
  const auto call = [&](const Operand& at, std::uint32_t operation, Value value) {
    Value object = address(in, at, in.space(), 8);
    if (operation == kMbarrierTest || operation == kMbarrierTestParity) note_look(in, object);
    return call_runtime("pergola_jit_mbarrier", i(64), {object, k(32, operation), value});
  };
  if (in.op == Op::kCp) {  // cp.async.mbarrier.arrive: the copies are done, so it arrives at once
    if (in.has(Mod::kNoinc)) call(in.operands.at(0), kMbarrierArrive, k(64, 1));
    return;  // without .noinc the pending count goes up by the arrival that it then makes
  }
  if (in.has(Mod::kPendingCount)) return write(in.operands.at(0), b_.CreateAnd(read(in.operands.at(1), 64), k(64, 0xfffff)));
  if (in.has(Mod::kInit)) {
    call(in.operands.at(0), kMbarrierInit, read(in.operands.at(1), 64));
    return;
  }
  if (in.has(Mod::kInval)) {
    call(in.operands.at(0), kMbarrierInval, k(64, 0));
    return;
  }
  if (in.has(Mod::kTestWait) || in.has(Mod::kTryWait)) {
    const std::uint32_t operation = in.has(Mod::kParity) ? kMbarrierTestParity : kMbarrierTest;
    return write(in.operands.at(0), b_.CreateTrunc(call(in.operands.at(1), operation, read(in.operands.at(2), 64)), i(1)));
  }
  const bool arrives = in.has(Mod::kArrive), drops = in.has(Mod::kArriveDrop);
  if (!arrives && !drops) {
    if (!in.has(Mod::kExpectTx) && !in.has(Mod::kCompleteTx)) refuse(in, "this form of mbarrier is not implemented in this tier");
    call(in.operands.at(0), in.has(Mod::kExpectTx) ? kMbarrierExpectTx : kMbarrierCompleteTx,
         b_.CreateZExt(read(in.operands.at(1), 32), i(64)));
    return;
  }
  const bool gives_state = in.operands.at(0).kind != Operand::Kind::kAddress;
  const std::size_t at = gives_state ? 1 : 0;
  const bool has_value = in.operands.size() > at + 1;
  Value value = has_value ? b_.CreateZExt(read(in.operands[at + 1], 32), i(64)) : k(64, 1);
  if (in.has(Mod::kExpectTx)) {
    call(in.operands[at], kMbarrierExpectTx, value);
    value = k(64, 1);
  }
  Value state = call(in.operands[at], drops ? kMbarrierArriveDrop : kMbarrierArrive, value);
  if (gives_state) write(in.operands[0], state);
}

}  // namespace pergola::device::cpu::jit
