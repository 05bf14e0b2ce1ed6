// Warp operations (PTX ISA 9.7.9.6, 9.7.13.8 to 9.7.13.11): each is one arrival in the run time, which keeps the
// lane until those it names have arrived too.
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/warp_sync.h"

namespace pergola::device::cpu::jit {

using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using Value = llvm::Value*;

bool FunctionEmitter::emit_warp(const Inst& in) {
  const bool sync = in.has(Mod::kSync);
  // Old forms without .sync act on the lanes that are converged at this instruction.
  const auto collective = [&](std::uint32_t kind, Value mask, Value value, Value b, Value c) {
    if (mask == nullptr) {
      kind |= kConverged;
      mask = k(32, m_.next_site());
    }
    note_wait(in);
    return call_runtime("pergola_jit_collective", i(64), {thread_, k(32, kind), mask, resize(value, 64), b, c});
  };
  const auto low = [&](Value v) { return b_.CreateTrunc(v, i(32)); };
  const auto flag = [&](Value v) { return b_.CreateTrunc(b_.CreateLShr(v, k(64, 32)), i(1)); };
  const auto write_pair = [&](const Operand& d, Value v) {
    if (d.kind != Operand::Kind::kPair) return write(d, low(v));
    write(d.elements[0], low(v));
    write(d.elements[1], flag(v));
  };
  Value none = k(32, 0);
  switch (in.op) {
    case Op::kShfl: {
      ShuffleMode mode = ShuffleMode::kIdx;
      if (in.has(Mod::kUp)) mode = ShuffleMode::kUp;
      if (in.has(Mod::kDown)) mode = ShuffleMode::kDown;
      if (in.has(Mod::kBfly)) mode = ShuffleMode::kBfly;
      Value mask = sync ? read(in.operands.at(4), 32) : nullptr;
      write_pair(in.operands[0], collective(kShuffle | static_cast<std::uint32_t>(mode) << 8, mask,
                                            read(in.operands[1], 32), read(in.operands[2], 32),
                                            read(in.operands[3], 32)));
      return true;
    }
    case Op::kVote: {
      Value mask = sync ? read(in.operands.at(2), 32) : nullptr;
      const std::uint32_t kind = in.has(Mod::kBallot) ? kBallot : in.has(Mod::kAll) ? kAll : in.has(Mod::kAny) ? kAny : kUniform;
      Value v = collective(kind, mask, b_.CreateZExt(read_pred(in.operands[1]), i(32)), none, none);
      write(in.operands[0], kind == kBallot ? low(v) : flag(v));
      return true;
    }
    case Op::kMatch: {
      Value v = collective(in.has(Mod::kAll) ? kMatchAll : kMatchAny, read(in.operands.at(2), 32),
                           read(in.operands[1], bits_of(in.type())), none, none);
      write_pair(in.operands[0], v);
      return true;
    }
    case Op::kRedux: {
      ReduxOp op = ReduxOp::kAdd;
      if (in.has(Mod::kMin)) op = ReduxOp::kMin;
      if (in.has(Mod::kMax)) op = ReduxOp::kMax;
      if (in.has(Mod::kAnd)) op = ReduxOp::kAnd;
      if (in.has(Mod::kOr)) op = ReduxOp::kOr;
      if (in.has(Mod::kXor)) op = ReduxOp::kXor;
      if (ptx::is_float(in.type())) refuse(in, "reductions of floats are not implemented in this tier");
      const std::uint32_t sign = ptx::is_signed(in.type()) ? 1u << 16 : 0u;
      Value v = collective(kRedux | static_cast<std::uint32_t>(op) << 8 | sign, read(in.operands.at(2), 32),
                           read(in.operands[1], 32), none, none);
      write(in.operands[0], low(v));
      return true;
    }
    case Op::kActivemask:
      write(in.operands[0], low(collective(kActiveMask, nullptr, none, none, none)));
      return true;
    case Op::kElect:
      write_pair(in.operands[0], collective(kElect, read(in.operands.at(1), 32), none, none, none));
      return true;
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
