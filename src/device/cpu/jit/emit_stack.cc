// Stack memory of a size known at run time (PTX ISA 9.7.16): alloca, stacksave, stackrestore.
//
// A function that has them gets one block of its frame, of which alloca hands out pieces from the bottom up:
//
//   stack_  | piece | piece |      free      |      a saved stack pointer is stack_used_, checked when it comes back
//           0               stack_used_      kAllocaBytes
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/thread_context.h"

namespace pergola::device::cpu::jit {

using ptx::Op;
using Value = llvm::Value*;

void FunctionEmitter::declare_stack() {
  bool needed = false;
  for (const ptx::Statement& statement : f_.body) {
    const Inst* in = statement.instruction();
    needed = needed || (in != nullptr && (in->op == Op::kAlloca || in->op == Op::kStacksave || in->op == Op::kStackrestore));
  }
  if (!needed) return;
  stack_ = entry_alloca(llvm::ArrayType::get(i(8), kAllocaBytes), "stack", 128);
  stack_used_ = entry_alloca(i(64), "stack_used");
  b_.CreateStore(k(64, 0), stack_used_);
}

bool FunctionEmitter::emit_stack(const Inst& in) {
  const auto fault_unless = [&](Value good) {
    auto* bad = new_block("stack_fault");
    auto* next = new_block("stack");
    b_.CreateCondBr(good, next, bad);
    b_.SetInsertPoint(bad);
    call_runtime("pergola_jit_trap", b_.getVoidTy(), {thread_, k(32, kTrapStack), k(32, in.location.line)});
    b_.CreateUnreachable();
    next->moveAfter(&target_->back());
    b_.SetInsertPoint(next);
  };
  switch (in.op) {
    case Op::kStacksave: return write(in.operands.at(0), resize(b_.CreateLoad(i(64), stack_used_), bits_of(in.type()))), true;
    case Op::kStackrestore: {
      Value used = resize(read(in.operands.at(0), bits_of(in.type())), 64);
      fault_unless(b_.CreateICmpULE(used, b_.CreateLoad(i(64), stack_used_)));
      return b_.CreateStore(used, stack_used_), true;
    }
    case Op::kAlloca: {
      const std::uint64_t align = in.operands.size() > 2 ? in.operands[2].bits : 8;
      if (align == 0 || (align & (align - 1)) != 0 || align > 128) refuse(in, "its alignment is no power of two up to 128");
      Value size = resize(read(in.operands.at(1), bits_of(in.type())), 64);
      Value begin = b_.CreateAnd(b_.CreateAdd(b_.CreateLoad(i(64), stack_used_), k(64, align - 1)), k(64, ~(align - 1)));
      fault_unless(b_.CreateAnd(b_.CreateICmpULE(size, k(64, kAllocaBytes)),
                                b_.CreateICmpULE(b_.CreateAdd(begin, size), k(64, kAllocaBytes))));
      b_.CreateStore(b_.CreateAdd(begin, size), stack_used_);
      Value base = field(thread_, offsetof(ThreadContext, local_base), i(64), "local_base", false);
      Value address = b_.CreateSub(b_.CreateAdd(b_.CreatePtrToInt(stack_, i(64)), begin), base);
      return write(in.operands[0], resize(address, bits_of(in.type()))), true;
    }
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
