// The vector tier's calls: LLVM's own functions on whole vectors, barriers and warp operations for the group at once,
// everything else lane by lane.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_emitter.h"
#include "src/device/cpu/jit/vector_resume.h"
#include "src/device/cpu/warp_sync.h"

namespace pergola::device::cpu::jit {

using llvm::Intrinsic::ID;
using Value = llvm::Value*;

namespace {

llvm::StringRef callee_name(const llvm::Instruction& in) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&in);
  const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
  return callee == nullptr ? llvm::StringRef() : callee->getName();
}

}  // namespace

bool is_barrier(const llvm::Instruction& in) { return callee_name(in) == "pergola_jit_barrier"; }
bool is_collective(const llvm::Instruction& in) { return callee_name(in) == "pergola_jit_collective"; }

Value VectorEmitter::runtime(const char* name, llvm::Type* result, llvm::ArrayRef<Value> arguments) {
  std::vector<llvm::Type*> types;
  for (Value argument : arguments) types.push_back(argument->getType());
  llvm::FunctionCallee callee = target_.getParent()->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  llvm::cast<llvm::Function>(callee.getCallee())->addFnAttr(llvm::Attribute::NoUnwind);
  return b_.CreateCall(callee, arguments);
}

// The lanes that the group began with and that have not returned.
Value VectorEmitter::live_bits() {
  Value lanes = everyone_;
  if (auto* returned = masks_[flow_.last()]; returned != nullptr) {
    lanes = without(lanes, b_.CreateLoad(returned->getAllocatedType(), returned));
  }
  return b_.CreateZExtOrTrunc(bits_of(lanes), b_.getInt32Ty());
}

void VectorEmitter::emit_call(const llvm::CallInst& call) {
  if (call.isInlineAsm()) refuse_vector("it has inline assembly");
  if (emit_intrinsic(call)) return;
  const llvm::StringRef name = callee_name(call);
  if (is_barrier(call)) return emit_barrier(call);
  if (is_collective(call)) return emit_collective(call);
  if (name == "pergola_jit_yield") {
    runtime("pergola_jit_yield", b_.getVoidTy(), {thread_});
    return;
  }
  if (name == "pergola_jit_clock" || name == "pergola_jit_globaltimer") {
    return keep(call, runtime(name.data(), call.getType(), {}), nullptr, nullptr);
  }
  emit_generic_call(call);
}

bool VectorEmitter::emit_intrinsic(const llvm::CallInst& call) {
  const ID id = call.getIntrinsicID();
  switch (id) {
    case llvm::Intrinsic::not_intrinsic: return false;
    case llvm::Intrinsic::lifetime_start: case llvm::Intrinsic::lifetime_end: case llvm::Intrinsic::assume:
    case llvm::Intrinsic::donothing: case llvm::Intrinsic::experimental_noalias_scope_decl: return true;
    default: break;
  }
  const bool classifies = id == llvm::Intrinsic::is_fpclass;
  const bool carries = llvm::isa<llvm::WithOverflowInst>(call);
  if (!classifies && !llvm::isTriviallyVectorizable(id) && !carries) {
    refuse_vector("LLVM made '" + llvm::Intrinsic::getBaseName(id).str() + "' of it, which is not implemented");
  }
  std::vector<Value> scalars, vectors;
  llvm::SmallVector<llvm::Type*, 3> types, scalar_types;
  if (!classifies && !carries && llvm::isVectorIntrinsicWithOverloadTypeAtArg(id, -1)) types.push_back(wide(call.getType()));
  for (unsigned n = 0; n < call.arg_size(); ++n) {
    const llvm::Value* operand = call.getArgOperand(n);
    const bool scalar = (classifies && n == 1) || llvm::isVectorIntrinsicWithScalarOpAtArg(id, n);
    vectors.push_back(scalar ? base(operand) : vector(operand));
    const bool overloaded = classifies || carries ? n == 0 : llvm::isVectorIntrinsicWithOverloadTypeAtArg(id, static_cast<int>(n));
    if (overloaded) types.push_back(vectors.back()->getType());
  }
  if (shapes_.of(&call).is_uniform()) {
    for (const llvm::Value* operand : call.args()) scalars.push_back(base(operand));
    keep(call, b_.CreateCall(call.getCalledFunction()->getFunctionType(),
                             llvm::Intrinsic::getDeclaration(target_.getParent(), id, [&] {
                               for (llvm::Type* type : types) scalar_types.push_back(type->getScalarType());
                               return llvm::ArrayRef<llvm::Type*>(scalar_types);
                             }()), scalars), nullptr, nullptr);
    return true;
  }
  if (carries) {
    known_.vector[&call] = b_.CreateIntrinsic(id, types, vectors);
    for (const llvm::User* user : call.users()) {
      if (llvm::cast<llvm::Instruction>(user)->getParent() != call.getParent()) refuse_vector("a carry crosses a branch");
    }
    return true;
  }
  keep_vector(call, b_.CreateIntrinsic(id, types, vectors));
  return true;
}

// The lanes that are here add what they bring to that of the groups before them, wait, and take away the sum of all.
void VectorEmitter::emit_resumed_barrier(const llvm::CallInst& call, Value truths) {
  Value block = target_.getArg(2);
  const auto field = [&](std::size_t offset) { return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), block, offset); };
  auto* type = b_.getInt64Ty();
  const auto count = [&](Value mask) { return b_.CreateZExt(b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits_of(mask)), type); };
  if (!call.use_empty()) {
    Value now = b_.CreateLoad(type, field(offsetof(BlockContext, arrivals)));
    Value mine = b_.CreateOr(count(truths), b_.CreateShl(count(without(mask_, truths)), 32));
    b_.CreateStore(b_.CreateAdd(now, mine), field(offsetof(BlockContext, arrivals)));
  }
  runtime(kGroupWaits, b_.getVoidTy(), {});
  if (call.use_empty()) return;
  Value all = b_.CreateLoad(type, field(offsetof(BlockContext, arrived)));
  Value none_false = b_.CreateICmpULT(all, b_.getInt64(std::uint64_t{1} << 32));
  Value result = b_.CreateOr(b_.CreateTrunc(all, b_.getInt32Ty()), b_.CreateSelect(none_false, b_.getInt32(1u << 31), b_.getInt32(0)));
  keep(call, result, nullptr, nullptr);
}

// bar.sync and its like: the lanes that are here arrive as one fiber, or leave until they are resumed.
void VectorEmitter::emit_barrier(const llvm::CallInst& call) {
  for (const unsigned n : {1u, 2u, 3u}) {
    if (!shapes_.of(call.getArgOperand(n)).is_uniform()) refuse_vector("a barrier's number or count differs between lanes");
  }
  Value predicate = vector(call.getArgOperand(4));
  Value truths = both(mask_, b_.CreateICmpNE(predicate, llvm::Constant::getNullValue(predicate->getType())));
  if (waits_ == GroupWaits::kResumed) return emit_resumed_barrier(call, truths);
  const auto word = [&](Value mask) { return b_.CreateZExtOrTrunc(bits_of(mask), b_.getInt32Ty()); };
  Value v = runtime("pergola_jit_group_barrier", b_.getInt32Ty(),
                    {thread_, base(call.getArgOperand(1)), base(call.getArgOperand(2)), base(call.getArgOperand(3)),
                     word(mask_), word(truths), live_bits()});
  keep(call, v, nullptr, nullptr);
}

Value VectorEmitter::shuffle(const llvm::CallInst& call, Value v, unsigned mode) {
  const auto* b = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(4));
  const auto* c = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(5));
  if (b == nullptr || c == nullptr) return nullptr;
  std::vector<int> from;
  std::vector<llvm::Constant*> flags;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    const ShuffleSource source = shuffle_source(static_cast<ShuffleMode>(mode), lane, static_cast<std::uint32_t>(b->getZExtValue()),
                                                static_cast<std::uint32_t>(c->getZExtValue()));
    from.push_back(source.lane < lanes_ ? static_cast<int>(source.lane) : static_cast<int>(lane));
    flags.push_back(b_.getInt64(source.in_range ? std::uint64_t{1} << 32 : 0));
  }
  Value moved = b_.CreateShuffleVector(v, from);
  if (!is_everyone(mask_)) moved = b_.CreateSelect(b_.CreateShuffleVector(mask_, from), moved, v);
  Value low = b_.CreateAnd(moved, splat(b_.getInt64(0xffffffff)));
  return b_.CreateOr(low, llvm::ConstantVector::get(flags));
}

// (thread, kind, mask or site, value, b, c) -> the result in the low half, a flag in bit 32.
void VectorEmitter::emit_collective(const llvm::CallInst& call) {
  if (lanes_ != 32) refuse_vector("warp operations need groups of 32 lanes");
  const auto* kind_number = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(1));
  if (kind_number == nullptr) refuse_vector("a warp operation's kind is not known");
  const auto kind = static_cast<std::uint32_t>(kind_number->getZExtValue());
  const bool converged = (kind & kConverged) != 0;
  const llvm::Value* members = call.getArgOperand(2);
  Value value = vector(call.getArgOperand(3));
  Value active = bits_of(mask_);
  const auto truth = [&] { return b_.CreateICmpNE(b_.CreateTrunc(value, wide(b_.getInt32Ty())), llvm::Constant::getNullValue(wide(b_.getInt32Ty()))); };
  const auto flag = [&](Value v) { return b_.CreateShl(b_.CreateZExt(v, b_.getInt64Ty()), b_.getInt64(32)); };
  if (converged || shapes_.of(members).is_uniform()) {
    const auto* all = llvm::dyn_cast<llvm::ConstantInt>(members);
    if (!converged && (all == nullptr || !all->isMinusOne())) {
      runtime("pergola_jit_group_members", b_.getVoidTy(), {thread_, base(members), active});
    }
    Value uniform = nullptr, varying = nullptr;
    switch (kind & 0x7f) {
      case kSyncWarp: return keep(call, b_.getInt64(0), nullptr, nullptr);
      case kActiveMask: uniform = b_.CreateZExt(active, b_.getInt64Ty()); break;
      case kBallot: uniform = b_.CreateZExt(bits_of(both(mask_, truth())), b_.getInt64Ty()); break;
      case kAny: uniform = flag(any(both(mask_, truth()))); break;
      case kAll: uniform = flag(b_.CreateICmpEQ(bits_of(both(mask_, truth())), active)); break;
      case kUniform: {
        Value yes = bits_of(both(mask_, truth()));
        uniform = flag(b_.CreateOr(b_.CreateICmpEQ(yes, active), b_.CreateICmpEQ(yes, b_.getInt32(0))));
        break;
      }
      case kShuffle: varying = shuffle(call, value, kind >> 8); break;
      default: break;
    }
    if (uniform != nullptr && shapes_.of(&call).is_uniform()) return keep(call, uniform, nullptr, nullptr);
    if (uniform != nullptr) return keep_vector(call, splat(uniform));
    if (varying != nullptr) return keep_vector(call, varying);
  }
  // The general form, in memory.
  const auto spilled = [&](Value v, llvm::Type* element) {
    auto* at = entry_alloca(wide(element), "warp", false);
    b_.CreateStore(v, at);
    return at;
  };
  auto* result = entry_alloca(wide(b_.getInt64Ty()), "warp", false);
  runtime("pergola_jit_group_collective", b_.getVoidTy(),
          {thread_, b_.getInt32(kind), active, spilled(vector(members), b_.getInt32Ty()), spilled(value, b_.getInt64Ty()),
           spilled(vector(call.getArgOperand(4)), b_.getInt32Ty()), spilled(vector(call.getArgOperand(5)), b_.getInt32Ty()), result});
  Value v = b_.CreateLoad(result->getAllocatedType(), result);
  if (shapes_.of(&call).is_uniform()) {  // the same in all lanes that are here: take the first
    Value first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, active, b_.getTrue());
    return keep(call, b_.CreateExtractElement(v, first), nullptr, nullptr);
  }
  keep_vector(call, v);
}

// Once where all lanes would get the same from it, else once a lane. A function that wants the thread gets one made up
// for the lane.
void VectorEmitter::emit_generic_call(const llvm::CallInst& call) {
  const llvm::Value* callee = call.getCalledOperand();
  const auto* function = llvm::dyn_cast<llvm::Function>(callee);
  if (!llvm::isa<llvm::Constant>(callee)) refuse_vector("it calls through a register");
  if (function != nullptr && !function->isDeclaration()) refuse_vector("it calls itself");
  if (function != nullptr && function->getName().starts_with("func.")) refuse_vector("it calls a function whose address is taken");
  const auto copy = [&](llvm::ArrayRef<Value> arguments) {
    llvm::FunctionCallee target(call.getFunctionType(), const_cast<llvm::Value*>(callee));
    auto* made = b_.CreateCall(target, arguments);
    made->setAttributes(call.getAttributes());
    return made;
  };
  llvm::Type* type = call.getType();
  if (shapes_.of(&call).is_uniform()) {
    std::vector<Value> arguments;
    for (const llvm::Value* argument : call.args()) arguments.push_back(base(argument));
    return keep(call, copy(arguments), nullptr, nullptr);
  }
  std::vector<Value> operands;
  bool wants_thread = false;
  for (const llvm::Value* argument : call.args()) {
    const bool is_thread = argument == scalar_.getArg(0);
    wants_thread |= is_thread;
    const bool shared = is_thread || shapes_.of(argument).is_uniform();
    operands.push_back(shared ? base(argument) : vector(argument));
  }
  llvm::AllocaInst* context = nullptr;
  if (wants_thread) {
    context = entry_alloca(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(ThreadContext)), "thread", false);
    context->setAlignment(llvm::Align(alignof(ThreadContext)));
  }
  llvm::SmallVector<llvm::Type*, 1> results;
  if (!type->isVoidTy()) results.push_back(type);
  const auto made = per_lane(mask_, operands, results, [&](llvm::ArrayRef<Value> scalars, Value lane) {
    std::vector<Value> arguments(scalars.begin(), scalars.end());
    if (context != nullptr) {
      b_.CreateLifetimeStart(context);
      runtime("pergola_jit_lane_context", b_.getVoidTy(), {thread_, b_.CreateTrunc(lane, b_.getInt32Ty()), context});
      for (unsigned n = 0; n < call.arg_size(); ++n) {
        if (call.getArgOperand(n) == scalar_.getArg(0)) arguments[n] = context;
      }
    }
    Value v = copy(arguments);
    if (context != nullptr) b_.CreateLifetimeEnd(context);
    return type->isVoidTy() ? std::vector<Value>{} : std::vector<Value>{v};
  });
  if (!type->isVoidTy()) keep_vector(call, made.front());
}

}  // namespace pergola::device::cpu::jit
