// Loads, stores, moves and addresses (PTX ISA 9.7.9). The memory model's weak accesses become LLVM `unordered`
// atomics where another OS thread could race with them; shared, local, param and const memory cannot be raced for,
// as a block's threads share one OS thread and switch only inside calls.
#include <llvm/IR/Intrinsics.h>

#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/thread_context.h"

namespace pergola::device::cpu::jit {

using llvm::AtomicOrdering;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Space;
using ptx::Type;
using Value = llvm::Value*;

namespace {

// What an access of so many bytes is aligned to: vectors have powers of two; a copy of 12 bytes wants 4.
std::uint64_t alignment_of(std::uint64_t bytes) { return bytes & (~bytes + 1); }

}  // namespace

// Code for a fault goes out of line; what comes next goes on where `bad` is false.
void FunctionEmitter::fault_if(Value bad, const char* function, llvm::ArrayRef<Value> arguments) {
  auto* fault = new_block("fault");
  auto* right = new_block("right");
  auto* weights = llvm::MDNode::get(m_.context(), {llvm::MDString::get(m_.context(), "branch_weights"),
                                                   llvm::ConstantAsMetadata::get(k(32, 1)),
                                                   llvm::ConstantAsMetadata::get(k(32, 1u << 20))});
  b_.CreateCondBr(bad, fault, right, weights);
  b_.SetInsertPoint(fault);
  call_runtime(function, b_.getVoidTy(), arguments);
  b_.CreateUnreachable();
  right->moveAfter(&target_->back());
  b_.SetInsertPoint(right);
}

// GPUs fault where an address is no multiple of what is accessed; hosts do not. LLVM drops the test where it knows: an index
// times the element's size leaves the base's low bits alone, so that one test a base is left.
void FunctionEmitter::check_alignment(Value address, std::uint64_t bytes) {
  const std::uint64_t align = alignment_of(bytes);
  if (align <= 1) return;
  Value low = b_.CreateAnd(address, llvm::ConstantInt::get(address->getType(), align - 1));
  fault_if(b_.CreateICmpNE(low, llvm::ConstantInt::get(address->getType(), 0)), "pergola_jit_misaligned",
           {thread_, resize(address, 64), k(32, bytes), k(32, current_->location.line), k(32, number_on_line_)});
}

Value FunctionEmitter::shared_pointer(Value offset32, std::uint64_t bytes, bool checked) {
  Value base = field(block_, offsetof(BlockContext, shared_base), b_.getPtrTy(), "shared");
  if (checked) {
    Value size = field(block_, offsetof(BlockContext, shared_bytes), i(32), "shared_bytes");
    Value bound = b_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, size, k(32, bytes - 1));  // of offsets that fit
    check_alignment(offset32, bytes);
    fault_if(b_.CreateICmpUGE(offset32, bound), "pergola_jit_shared_fault",
             {thread_, offset32, k(32, bytes), k(32, current_->location.line), k(32, number_on_line_)});
  }
  return b_.CreateGEP(i(8), base, b_.CreateZExt(offset32, i(64), "", true));  // what fits is far below 2^31
}

// What an index finds in a local variable: beside it lie other variables and return addresses of the host's stack.
Value FunctionEmitter::local_element(const Place& variable, Value at, std::int64_t offset, Space space,
                                     std::uint64_t bytes) {
  at = b_.CreateAdd(at, k(64, static_cast<std::uint64_t>(offset)));
  check_alignment(at, bytes);
  if (space == Space::kLocal)
    at = b_.CreateAdd(field(thread_, offsetof(ThreadContext, local_base), i(64), "local", false), at);
  Value into = b_.CreateSub(at, b_.CreatePtrToInt(variable.pointer, i(64)));
  const std::uint64_t fit = variable.size_bytes < bytes ? 0 : variable.size_bytes - bytes + 1;
  fault_if(b_.CreateICmpUGE(into, k(64, fit)), "pergola_jit_local_fault",
           {thread_, into, k(32, bytes), k(32, variable.size_bytes), k(32, current_->location.line),
            k(32, number_on_line_)});
  return b_.CreateGEP(i(8), variable.pointer, into);
}

// The host pointer of an address operand. `bytes` is what the access spans, for the check of shared memory.
Value FunctionEmitter::address(const Inst& in, const Operand& o, Space space, std::uint64_t bytes) {
  if (o.kind != Operand::Kind::kAddress || o.elements.size() != 1) refuse(in, "its address has a form that is not implemented");
  const Operand& base = o.elements[0];
  const std::int64_t offset = o.offset + (base.kind == Operand::Kind::kSymbol ? base.offset : 0);
  const std::uint64_t align = alignment_of(bytes);
  const auto misplaced = [&](std::int64_t at) { return align != 0 && static_cast<std::uint64_t>(at) % align != 0; };
  const auto advance = [&](Value pointer, std::int64_t by) {
    if (by == 0) return pointer;
    Value at = b_.CreateGEP(i(8), pointer, k(64, static_cast<std::uint64_t>(by)));
    if (misplaced(by)) check_alignment(b_.CreatePtrToInt(at, i(64)), bytes);  // variables themselves are aligned
    return at;
  };
  if (base.kind == Operand::Kind::kSymbol || base.kind == Operand::Kind::kLabel) {
    if (const Place* place = find_place(base.name)) return advance(place->pointer, offset);
    for (const std::string& key : {f_.name + "/" + base.name, base.name}) {
      for (const SharedLayout::Slot& slot : m_.shared().slots) {
        if (slot.name != key) continue;
        const std::int64_t at = slot.offset_bytes + offset;
        const bool inside = at >= 0 && static_cast<std::uint64_t>(at) + bytes <= m_.shared().static_bytes;
        return shared_pointer(k(32, static_cast<std::uint64_t>(at)), bytes, !inside || misplaced(at));
      }
    }
    Value at = symbol_address(base.name, offset, &in);
    check_alignment(at, bytes);
    return b_.CreateIntToPtr(at, b_.getPtrTy());
  }
  if (base.kind == Operand::Kind::kRegister && (space == Space::kLocal || space == Space::kNone)) {
    if (const auto origin = origins_.find(base.reg); origin != origins_.end()) {
      if (const Place* place = find_place(origin->second.variable)) {
        return advance(place->pointer, origin->second.offset + offset);
      }
    }
  }
  if (base.kind == Operand::Kind::kRegister && (space == Space::kLocal || space == Space::kNone)) {
    const auto indexed = indexed_.find(base.reg);
    const Place* place = indexed == indexed_.end() ? nullptr : find_place(indexed->second);
    if (place != nullptr) return local_element(*place, read(base, 64), offset, space, bytes);
  }
  if (space == Space::kShared) {
    Value at = b_.CreateAdd(read(base, 32), k(32, static_cast<std::uint64_t>(offset)));
    return shared_pointer(at, bytes, true);
  }
  Value at = read(base, 64);
  if (offset != 0) at = b_.CreateAdd(at, k(64, static_cast<std::uint64_t>(offset)));
  check_alignment(at, bytes);
  if (space == Space::kLocal) {
    // As an integer: a pointer derived from local_base would be taken not to reach the variables' allocas.
    at = b_.CreateAdd(field(thread_, offsetof(ThreadContext, local_base), i(64), "local", false), at);
  }
  return b_.CreateIntToPtr(at, b_.getPtrTy());
}

namespace {

bool raceable(Space space) { return space == Space::kGlobal || space == Space::kNone; }

bool is_strong(const ptx::Instruction& in) {
  return in.has(Mod::kVolatile) || in.has(Mod::kRelaxed) || in.has(Mod::kMmio);
}

}  // namespace

AtomicOrdering FunctionEmitter::load_ordering(const Inst& in) const {
  if (in.has(Mod::kAcquire)) return AtomicOrdering::Acquire;
  if (is_strong(in)) return AtomicOrdering::Monotonic;
  if (!raceable(in.space()) || in.has(Mod::kNc) || in.op == Op::kLdu) return AtomicOrdering::NotAtomic;
  return AtomicOrdering::Unordered;
}

AtomicOrdering FunctionEmitter::store_ordering(const Inst& in) const {
  if (in.has(Mod::kRelease)) return AtomicOrdering::Release;
  if (is_strong(in)) return AtomicOrdering::Monotonic;
  return raceable(in.space()) ? AtomicOrdering::Unordered : AtomicOrdering::NotAtomic;
}

void FunctionEmitter::emit_load(const Inst& in) {
  const Type type = in.type();
  const unsigned width = static_cast<unsigned>(in.vector_width());
  const unsigned bytes = ptx::size_bytes(type);
  if (bytes == 0) refuse(in, "it loads a type without a size");
  const Operand& destination = in.operands[0];
  Value base = address(in, in.operands[1], in.space(), std::uint64_t{bytes} * width);
  const AtomicOrdering ordering = load_ordering(in);
  if (ordering != AtomicOrdering::NotAtomic && ordering != AtomicOrdering::Unordered) note_look(in, base);
  const Operand& from = in.operands[1].elements[0];
  const Place* place = from.kind == Operand::Kind::kSymbol ? find_place(from.name) : nullptr;
  const bool constant = in.space() == Space::kConst || in.has(Mod::kNc) || (place != nullptr && place->constant);
  const auto load = [&](std::uint64_t offset, unsigned size) -> Value {
    auto* made = b_.CreateLoad(i(8 * size), offset == 0 ? base : b_.CreateGEP(i(8), base, k(64, offset)));
    made->setAlignment(llvm::Align(size));
    if (ordering != AtomicOrdering::NotAtomic) made->setAtomic(ordering);
    if (constant) made->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(m_.context(), {}));
    return made;
  };
  std::vector<Value> values;
  for (unsigned n = 0; n < width; ++n) {
    if (bytes <= 8) {
      values.push_back(load(std::uint64_t{n} * bytes, bytes));
      continue;
    }
    Value low = b_.CreateZExt(load(16 * n, 8), i(128)), high = b_.CreateZExt(load(16 * n + 8, 8), i(128));
    values.push_back(b_.CreateOr(low, b_.CreateShl(high, k(128, 64))));
  }
  if (width == 1) return write(destination, values[0], ptx::is_signed(type));
  const std::vector<Operand> parts = ptx::elements(destination, f_);
  if (parts.size() != width) refuse(in, "its destination is not a vector of its width");
  for (unsigned n = 0; n < width; ++n) write(parts[n], values[n], ptx::is_signed(type));
}

void FunctionEmitter::emit_store(const Inst& in) {
  const Type type = in.type();
  const unsigned width = static_cast<unsigned>(in.vector_width());
  const unsigned bytes = ptx::size_bytes(type);
  if (bytes == 0) refuse(in, "it stores a type without a size");
  if (in.space() == Space::kConst) refuse(in, "constant memory is read-only");
  Value base = address(in, in.operands[0], in.space(), std::uint64_t{bytes} * width);
  const AtomicOrdering ordering = store_ordering(in);
  const auto store = [&](Value v, std::uint64_t offset, unsigned size) {
    auto* made = b_.CreateStore(v, offset == 0 ? base : b_.CreateGEP(i(8), base, k(64, offset)));
    made->setAlignment(llvm::Align(size));
    if (ordering != AtomicOrdering::NotAtomic) made->setAtomic(ordering);
  };
  if (in.has(Mod::kAsync)) refuse(in, "asynchronous stores are not implemented in this tier");
  const std::vector<Operand> parts = ptx::elements(in.operands[1], f_);
  if (parts.size() != width) refuse(in, "its source is not a vector of its width");
  for (unsigned n = 0; n < width; ++n) {
    const Operand& element = parts[n];
    if (element.kind == Operand::Kind::kSink) continue;
    Value v = type == Type::kF32 || type == Type::kF64 ? to_bits(read_float(element, type)) : read(element, 8 * bytes);
    if (bytes <= 8) {
      store(v, std::uint64_t{n} * bytes, bytes);
    } else {
      store(b_.CreateTrunc(v, i(64)), 16 * n, 8);
      store(b_.CreateTrunc(b_.CreateLShr(v, k(128, 64)), i(64)), 16 * n + 8, 8);
    }
  }
}

void FunctionEmitter::emit_mov(const Inst& in) {
  const Operand& to = in.operands[0];
  const Operand& from = in.operands[1];
  const Type type = in.type();
  if (to.kind == Operand::Kind::kVector && from.kind == Operand::Kind::kVector) {
    std::vector<Value> values;
    const unsigned part = bits_of(type) / static_cast<unsigned>(from.elements.size());
    for (const Operand& element : from.elements) values.push_back(read(element, part));
    for (std::size_t n = 0; n < to.elements.size() && n < values.size(); ++n) write(to.elements[n], values[n]);
    return;
  }
  if (in.vector_width() > 1) {
    const std::vector<Operand> into = ptx::elements(to, f_), parts = ptx::elements(from, f_);
    if (into.size() != parts.size()) refuse(in, "its operands are not vectors of one width");
    std::vector<Value> values;
    for (const Operand& part : parts) values.push_back(read(part, bits_of(type)));
    for (std::size_t n = 0; n < into.size(); ++n) write(into[n], values[n]);
    return;
  }
  const bool same = to.component < 0 && from.component < 0 && to.kind == Operand::Kind::kRegister && from.kind == Operand::Kind::kRegister && !from.negated &&
                    register_type(to.reg) == register_type(from.reg);
  if (same) return write_register(to.reg, read_register(from.reg));
  if ((type == Type::kF32 || type == Type::kF64) && from.kind != Operand::Kind::kVector) {
    return write(to, read_float(from, type));
  }
  write(to, read(from, bits_of(type)));
}

// Global, const, param and generic addresses are host addresses; shared and local ones count from their base.
void FunctionEmitter::emit_cvta(const Inst& in) {
  const unsigned bits = bits_of(in.type());
  const Space space = in.space();
  Value a = read(in.operands[1], 64);
  Value base = nullptr;
  if (space == Space::kShared) base = field(block_, offsetof(BlockContext, shared_base), i(64), "shared");
  if (space == Space::kLocal) base = field(thread_, offsetof(ThreadContext, local_base), i(64), "local", false);
  if (base != nullptr && in.has(Mod::kTo)) a = b_.CreateSub(a, base);
  if (base != nullptr && !in.has(Mod::kTo)) {
    if (space == Space::kShared) a = b_.CreateAnd(a, k(64, 0xffffffffu));
    a = b_.CreateAdd(a, base);
  }
  write(in.operands[0], resize(a, bits));
}

void FunctionEmitter::emit_isspacep(const Inst& in) {
  Value a = read(in.operands[1], 64);
  const auto within = [&](Value base, Value size) { return b_.CreateICmpULT(b_.CreateSub(a, base), size); };
  const auto shared = [&] {
    return within(field(block_, offsetof(BlockContext, shared_base), i(64), "shared"),
                  b_.CreateZExt(field(block_, offsetof(BlockContext, shared_bytes), i(32), "shared_bytes"), i(64)));
  };
  const auto local = [&] {
    return within(field(thread_, offsetof(ThreadContext, local_base), i(64), "local", false),
                  b_.CreateZExt(field(thread_, offsetof(ThreadContext, local_bytes), i(32), "local", false), i(64)));
  };
  const auto constant = [&] {
    Value any = b_.getFalse();
    for (const ptx::Item& item : m_.source().items) {
      const auto* variable = std::get_if<ptx::Variable>(&item.node);
      if (variable == nullptr || variable->space != Space::kConst) continue;
      const GlobalPlacement* placement = m_.global(variable->name);
      if (placement == nullptr) continue;
      any = b_.CreateOr(any, within(m_.address_of(*placement), k(64, placement->size_bytes)));
    }
    return any;
  };
  Value v;
  const auto parameter = [&] {  // of an entry; where cvta.param puts them
    std::uint64_t bytes = 0;
    for (const ptx::Variable& one : f_.parameters) {
      bytes = (bytes + one.alignment_bytes() - 1) / one.alignment_bytes() * one.alignment_bytes() + one.size_bytes();
    }
    return within(field(block_, offsetof(BlockContext, parameters), i(64), "parameters"), k(64, f_.is_entry ? bytes : 4096));
  };
  switch (in.space()) {
    case Space::kShared: v = shared(); break;
    case Space::kParam: v = parameter(); break;
    case Space::kLocal: v = local(); break;
    case Space::kConst: v = constant(); break;
    case Space::kGlobal: v = b_.CreateNot(b_.CreateOr(b_.CreateOr(shared(), local()), b_.CreateOr(constant(), parameter()))); break;
    default: refuse(in, "the space has no window on this device");
  }
  write(in.operands[0], v);
}

// The copy happens at once, so groups are complete when they are committed.
void FunctionEmitter::emit_cp_async(const Inst& in) {
  if (!in.has(Mod::kAsync) || in.has(Mod::kBulk) || in.has(Mod::kTensor)) refuse(in, "bulk copies are not implemented in this tier");
  if (in.has(Mod::kMbarrier)) return emit_mbarrier(in);
  if (in.has(Mod::kCommitGroup) || in.has(Mod::kWaitGroup) || in.has(Mod::kWaitAll)) return;
  if (in.op != Op::kCp || in.operands.size() < 3 || in.operands[2].kind != Operand::Kind::kInteger) {
    refuse(in, "this form of asynchronous copy is not implemented in this tier");
  }
  const std::uint64_t bytes = in.operands[2].bits;
  Value to = address(in, in.operands[0], Space::kShared, bytes);
  Value from = address(in, in.operands[1], Space::kGlobal, bytes);
  const bool policy = in.has(Mod::kL2CacheHint);  // then the last operand is the policy
  if (in.operands.size() <= (policy ? 4u : 3u)) {
    for (std::uint64_t at = 0; at < bytes; at += 4) {  // here, so that a fault has the line
      auto* word = b_.CreateAlignedLoad(i(32), b_.CreateGEP(i(8), from, k(64, at)), llvm::Align(4));
      word->setAtomic(AtomicOrdering::Unordered);
      b_.CreateAlignedStore(word, b_.CreateGEP(i(8), to, k(64, at)), llvm::Align(4));
    }
    return;
  }
  const Operand& given = in.operands[3];
  Value size = given.kind == Operand::Kind::kRegister && bits_of(f_.registers[given.reg].type) == 1
                   ? b_.CreateSelect(read_pred(given), k(32, 0), k(32, bytes))  // ignore-src
                   : b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, read(given, 32), k(32, bytes));
  call_runtime("pergola_jit_copy_async", b_.getVoidTy(), {to, from, k(32, bytes), size});
}

bool FunctionEmitter::emit_memory(const Inst& in) {
  switch (in.op) {
    case Op::kLd: case Op::kLdu: return emit_load(in), true;
    case Op::kSt: return emit_store(in), true;
    case Op::kMov: return emit_mov(in), true;
    case Op::kCvta: return emit_cvta(in), true;
    case Op::kIsspacep: return emit_isspacep(in), true;
    case Op::kCp: return emit_cp_async(in), true;
    case Op::kMbarrier: return emit_mbarrier(in), true;
    case Op::kFence: case Op::kMembar: return emit_fence(in), true;
    case Op::kPrefetch: case Op::kPrefetchu: case Op::kDiscard: case Op::kApplypriority: return true;  // hints
    case Op::kCreatepolicy: return write(in.operands[0], k(64, 0)), true;
    default: return false;
  }
}

}  // namespace pergola::device::cpu::jit
