// The vector tier's memory accesses. By the address's shape:
//
//   uniform       one scalar access; of a store's lanes the last one counts, as if they had stored in order
//   affine        stride = size of the element: one vector access, masked where not all lanes are here
//   guarded       a branch on the guard: as affine, or as varying
//   otherwise     gather and scatter; lane by lane for elements of less than 32 bits
//
// Volatile, relaxed, acquire and release accesses and atomics go lane by lane, in order. Atomics on memory that only
// this block can see need no lock, as a block's lanes all run on one thread and change over in calls alone.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_emitter.h"

namespace pergola::device::cpu::jit {

using llvm::AtomicOrdering;
using llvm::AtomicRMWInst;
using Value = llvm::Value*;

namespace {

bool is_strong(AtomicOrdering ordering, bool is_volatile) {
  return is_volatile || (ordering != AtomicOrdering::NotAtomic && ordering != AtomicOrdering::Unordered);
}

std::int64_t bytes_of(const llvm::Type* type) { return static_cast<std::int64_t>(type->getPrimitiveSizeInBits().getFixedValue() / 8); }

bool can_gather(const llvm::Type* type) {
  return type->isPointerTy() || bytes_of(type) == 4 || bytes_of(type) == 8;
}

}  // namespace

void VectorEmitter::emit_load(const llvm::LoadInst& load) {
  llvm::Type* type = load.getType();
  const ContextField field = shapes_.field(load);
  const bool index = field == ContextField::kTidX || field == ContextField::kTidY || field == ContextField::kTidZ;
  if (index && shapes_.layout().kind == LaneLayout::Kind::kLinear) {
    auto* from = indices_[static_cast<int>(field) - static_cast<int>(ContextField::kTidX)];
    return keep_vector(load, b_.CreateLoad(from->getAllocatedType(), from));
  }
  if (field == ContextField::kBlock) return keep(load, target_.getArg(2), nullptr, nullptr);
  const Shape at = shapes_.of(load.getPointerOperand());
  if (shapes_.of(&load).has_base()) {
    auto* made = b_.CreateLoad(type, base(load.getPointerOperand()));
    made->setAlignment(load.getAlign());
    made->copyMetadata(load, {llvm::LLVMContext::MD_invariant_load});
    return keep(load, made, nullptr, nullptr);
  }
  if (is_strong(load.getOrdering(), load.isVolatile())) {
    Value pointers = vector(load.getPointerOperand());
    return keep_vector(load, per_lane(mask_, {pointers}, {type}, [&](llvm::ArrayRef<Value> o, Value) {
      auto* made = b_.CreateLoad(type, o[0], load.isVolatile());
      made->setAlignment(load.getAlign());
      made->setAtomic(load.getOrdering(), load.getSyncScopeID());
      return std::vector<Value>{made};
    }).front());
  }
  const bool unit = (at.is_affine() || at.is_guarded()) && !type->isPointerTy() && at.stride == bytes_of(type);
  if (!unit) return keep_vector(load, load_scattered(load));
  if (at.is_affine()) return keep_vector(load, load_contiguous(load, base(load.getPointerOperand())));
  Value from = base(load.getPointerOperand()), holds = guard(load.getPointerOperand());
  vector(load.getPointerOperand());
  auto *fast = new_block("unit_stride"), *slow = new_block("gather"), *done = new_block("loaded");
  b_.CreateCondBr(holds, fast, slow);
  b_.SetInsertPoint(fast);
  Value quick = load_contiguous(load, from);
  auto* fast_end = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(slow);
  Value gathered = load_scattered(load);
  auto* slow_end = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  auto* v = b_.CreatePHI(wide(type), 2);
  v->addIncoming(quick, fast_end);
  v->addIncoming(gathered, slow_end);
  keep_vector(load, v);
}

Value VectorEmitter::load_contiguous(const llvm::LoadInst& load, Value from) {
  auto* type = wide(load.getType());
  if (is_everyone(mask_)) return b_.CreateAlignedLoad(type, from, load.getAlign());
  return b_.CreateMaskedLoad(type, from, load.getAlign(), mask_, llvm::Constant::getNullValue(type));
}

Value VectorEmitter::load_scattered(const llvm::LoadInst& load) {
  llvm::Type* type = load.getType();
  Value pointers = vector(load.getPointerOperand());
  if (can_gather(type)) {
    return b_.CreateMaskedGather(wide(type), pointers, load.getAlign(), mask_, llvm::Constant::getNullValue(wide(type)));
  }
  return per_lane(mask_, {pointers}, {type}, [&](llvm::ArrayRef<Value> o, Value) {
    return std::vector<Value>{b_.CreateAlignedLoad(type, o[0], load.getAlign())};
  }).front();
}

// Of the lanes of the mask the last one's value.
Value VectorEmitter::last_lane(Value v) {
  if (is_everyone(mask_)) return b_.CreateExtractElement(v, lanes_ - 1);
  Value zeros = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, bits_of(mask_), b_.getTrue());
  return b_.CreateExtractElement(v, b_.CreateSub(b_.getIntN(lanes_, lanes_ - 1), zeros));
}

void VectorEmitter::emit_store(const llvm::StoreInst& store) {
  const llvm::Value* pointer = store.getPointerOperand();
  const llvm::Value* value = store.getValueOperand();
  llvm::Type* type = value->getType();
  if (type->isVectorTy() || type->isAggregateType()) refuse_vector("it stores an aggregate");
  const Shape at = shapes_.of(pointer);
  if (is_strong(store.getOrdering(), store.isVolatile())) {
    Value pointers = vector(pointer), values = vector(value);
    per_lane(mask_, {pointers, values}, {}, [&](llvm::ArrayRef<Value> o, Value) {
      auto* made = b_.CreateStore(o[1], o[0], store.isVolatile());
      made->setAlignment(store.getAlign());
      made->setAtomic(store.getOrdering(), store.getSyncScopeID());
      return std::vector<Value>{};
    });
    return;
  }
  if (at.is_uniform()) {
    Value v = shapes_.of(value).is_uniform() ? base(value) : last_lane(vector(value));
    b_.CreateAlignedStore(v, base(pointer), store.getAlign());
    return;
  }
  Value v = vector(value);
  const bool unit = (at.is_affine() || at.is_guarded()) && !type->isPointerTy() && at.stride == bytes_of(type);
  if (!unit) return store_scattered(store, v);
  if (at.is_affine()) return store_contiguous(store, base(pointer), v);
  Value to = base(pointer), holds = guard(pointer);
  vector(pointer);
  auto *fast = new_block("unit_stride"), *slow = new_block("scatter"), *done = new_block("stored");
  b_.CreateCondBr(holds, fast, slow);
  b_.SetInsertPoint(fast);
  store_contiguous(store, to, v);
  b_.CreateBr(done);
  b_.SetInsertPoint(slow);
  store_scattered(store, v);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

void VectorEmitter::store_contiguous(const llvm::StoreInst& store, Value to, Value v) {
  if (is_everyone(mask_)) {
    b_.CreateAlignedStore(v, to, store.getAlign());
  } else {
    b_.CreateMaskedStore(v, to, store.getAlign(), mask_);
  }
}

void VectorEmitter::store_scattered(const llvm::StoreInst& store, Value v) {
  Value pointers = vector(store.getPointerOperand());
  llvm::Type* type = store.getValueOperand()->getType();
  if (can_gather(type)) {
    b_.CreateMaskedScatter(v, pointers, store.getAlign(), mask_);
    return;
  }
  per_lane(mask_, {pointers, v}, {}, [&](llvm::ArrayRef<Value> o, Value) {
    b_.CreateAlignedStore(o[1], o[0], store.getAlign());
    return std::vector<Value>{};
  });
}

// A variable in .local memory, or an argument's storage: each lane has its own, one after the other.
void VectorEmitter::emit_variable(const llvm::AllocaInst& variable) {
  if (!variable.isStaticAlloca()) refuse_vector("it takes stack memory of a size known at run time only");
  const std::uint64_t bytes = VectorShapes::slot_bytes(variable);
  auto* made = entry_alloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes * lanes_), variable.getName(), false);
  made->setAlignment(variable.getAlign());
  keep(variable, made, nullptr, nullptr);
}

bool VectorEmitter::is_shared_memory(const llvm::Value* pointer) const {
  while (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(pointer)) pointer = address->getPointerOperand();
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(pointer);
  if (load == nullptr || shapes_.field(*load) != ContextField::kOfBlock) return false;
  llvm::APInt offset(64, 0);
  load->getPointerOperand()->stripAndAccumulateConstantOffsets(load->getModule()->getDataLayout(), offset, true);
  return offset == offsetof(BlockContext, shared_base);
}

void VectorEmitter::emit_read_modify_write(const AtomicRMWInst& in) {
  const llvm::Value *pointer = in.getPointerOperand(), *value = in.getValOperand();
  const bool own = is_shared_memory(pointer) && !in.isVolatile();
  llvm::Type* type = in.getType();
  // Where the order of the lanes cannot be seen, they are one operation.
  if (shapes_.of(pointer).is_uniform() && in.use_empty() && type->isIntegerTy()) {
    const auto reduced = [&](Value identity, auto reduce) {
      Value v = vector(value);
      if (!is_everyone(mask_)) v = b_.CreateSelect(mask_, v, splat(identity));
      auto* made = b_.CreateAtomicRMW(in.getOperation(), base(pointer), reduce(v), in.getAlign(), in.getOrdering(), in.getSyncScopeID());
      made->setVolatile(in.isVolatile());
    };
    const unsigned bits = type->getIntegerBitWidth();
    const auto number = [&](const llvm::APInt& v) { return llvm::ConstantInt::get(type, v); };
    switch (in.getOperation()) {
      case AtomicRMWInst::Add: return reduced(number(llvm::APInt(bits, 0)), [&](Value v) { return b_.CreateAddReduce(v); });
      case AtomicRMWInst::Or: return reduced(number(llvm::APInt(bits, 0)), [&](Value v) { return b_.CreateOrReduce(v); });
      case AtomicRMWInst::And: return reduced(number(llvm::APInt::getAllOnes(bits)), [&](Value v) { return b_.CreateAndReduce(v); });
      case AtomicRMWInst::Xor: return reduced(number(llvm::APInt(bits, 0)), [&](Value v) { return b_.CreateXorReduce(v); });
      case AtomicRMWInst::Max: return reduced(number(llvm::APInt::getSignedMinValue(bits)), [&](Value v) { return b_.CreateIntMaxReduce(v, true); });
      case AtomicRMWInst::Min: return reduced(number(llvm::APInt::getSignedMaxValue(bits)), [&](Value v) { return b_.CreateIntMinReduce(v, true); });
      case AtomicRMWInst::UMax: return reduced(number(llvm::APInt(bits, 0)), [&](Value v) { return b_.CreateIntMaxReduce(v, false); });
      case AtomicRMWInst::UMin: return reduced(number(llvm::APInt::getAllOnes(bits)), [&](Value v) { return b_.CreateIntMinReduce(v, false); });
      default: break;
    }
  }
  Value pointers = vector(pointer), values = vector(value);
  const bool used = !in.use_empty();
  llvm::SmallVector<llvm::Type*, 1> results;
  if (used) results.push_back(type);
  const auto made = per_lane(mask_, {pointers, values}, results, [&](llvm::ArrayRef<Value> o, Value) {
    std::vector<Value> result;
    Value old = nullptr;
    if (own && (in.getOperation() == AtomicRMWInst::Add || in.getOperation() == AtomicRMWInst::Xchg)) {
      old = b_.CreateAlignedLoad(type, o[0], in.getAlign());
      b_.CreateAlignedStore(in.getOperation() == AtomicRMWInst::Add ? b_.CreateAdd(old, o[1]) : o[1], o[0], in.getAlign());
    } else {
      auto* rmw = b_.CreateAtomicRMW(in.getOperation(), o[0], o[1], in.getAlign(), in.getOrdering(), in.getSyncScopeID());
      rmw->setVolatile(in.isVolatile());
      old = rmw;
    }
    if (used) result.push_back(old);
    return result;
  });
  if (used) keep_vector(in, made.front());
}

void VectorEmitter::emit_compare_exchange(const llvm::AtomicCmpXchgInst& in) {
  Value pointers = vector(in.getPointerOperand()), expected = vector(in.getCompareOperand()), desired = vector(in.getNewValOperand());
  const auto made = per_lane(mask_, {pointers, expected, desired}, {in.getCompareOperand()->getType(), b_.getInt1Ty()},
                             [&](llvm::ArrayRef<Value> o, Value) {
    auto* exchange = b_.CreateAtomicCmpXchg(o[0], o[1], o[2], in.getAlign(), in.getSuccessOrdering(), in.getFailureOrdering(),
                                            in.getSyncScopeID());
    exchange->setVolatile(in.isVolatile());
    return std::vector<Value>{b_.CreateExtractValue(exchange, 0), b_.CreateExtractValue(exchange, 1)};
  });
  // The pair never leaves the block it is made in as one: its parts do.
  auto* pair = llvm::StructType::get(made[0]->getType(), made[1]->getType());
  Value v = b_.CreateInsertValue(llvm::PoisonValue::get(pair), made[0], 0);
  known_.vector[&in] = b_.CreateInsertValue(v, made[1], 1);
  for (const llvm::User* user : in.users()) {
    const auto* used = llvm::dyn_cast<llvm::ExtractValueInst>(user);
    if (used == nullptr || used->getParent() != in.getParent()) refuse_vector("an atomic's result is used in a way that is not implemented");
  }
}

}  // namespace pergola::device::cpu::jit
