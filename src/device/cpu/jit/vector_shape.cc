#include "src/device/cpu/jit/vector_shape.h"

#include <llvm/IR/GetElementPtrTypeIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <bit>

#include "src/device/cpu/jit/runtime_calls.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/jit/vector_refusal.h"

namespace pergola::device::cpu::jit {

using llvm::Instruction;

namespace {

constexpr unsigned kAnyAlignment = 63;  // of zero

unsigned width_of(const llvm::Type* type) {
  if (type->isPointerTy()) return 64;
  return type->isIntegerTy() ? type->getIntegerBitWidth() : 0;
}

std::int64_t truncated(std::int64_t value, unsigned bits) {
  if (bits >= 64) return value;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << (64 - bits)) >> (64 - bits);
}

// Votes and their like give every lane of one mask the same.
bool gives_one_result(const llvm::CallInst& call, const Shape& mask) {
  const auto* kind = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(1));
  if (kind == nullptr || !mask.is_uniform()) return false;
  switch (kind->getZExtValue() & 0x7f) {
    case kBallot: case kAny: case kAll: case kUniform: case kRedux: case kActiveMask: case kMatchAll: case kSyncWarp: return true;
    default: return false;
  }
}

// The context pointer that `pointer` counts from, and how far.
const llvm::Value* base_and_offset(const llvm::Value* pointer, std::uint64_t& offset) {
  offset = 0;
  if (llvm::isa<llvm::Constant>(pointer)) return nullptr;  // a variable of the module
  const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(pointer);
  if (gep == nullptr) return pointer;
  llvm::APInt constant(64, 0);
  const auto& layout = llvm::cast<Instruction>(pointer)->getModule()->getDataLayout();
  if (!gep->accumulateConstantOffset(layout, constant)) return nullptr;
  offset = constant.getZExtValue();
  return gep->getPointerOperand();
}

}  // namespace

std::uint64_t VectorShapes::slot_bytes(const llvm::AllocaInst& variable) {
  const auto& layout = variable.getModule()->getDataLayout();
  const std::uint64_t bytes = layout.getTypeAllocSize(variable.getAllocatedType()).getFixedValue();
  const std::uint64_t align = variable.getAlign().value();
  return (std::max<std::uint64_t>(bytes, 1) + align - 1) / align * align;
}

VectorShapes::VectorShapes(llvm::Function& thread, const VectorFlow& flow, const LaneLayout& layout)
    : flow_(flow), layout_(layout), thread_(thread.getArg(0)),
      lane_bits_(static_cast<unsigned>(std::countr_zero(layout.lanes))), divergent_(flow.size()), joins_(flow.size()),
      full_(flow.size()) {
  shapes_[thread_] = Shape::uniform();
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned n = 0; n < flow.size(); ++n) {
      for (const Instruction& in : *flow.block(n)) {
        if (in.getType()->isVoidTy()) continue;
        const Shape before = shapes_.lookup(&in);
        if (before.is_varying()) continue;
        const Shape now = join(before, transfer(in));
        if (now == before) continue;
        shapes_[&in] = now;
        changed = true;
      }
      const auto* branch = llvm::dyn_cast<llvm::BranchInst>(flow.block(n)->getTerminator());
      if (branch == nullptr || !branch->isConditional() || divergent_.test(n)) continue;
      if (!of(branch->getCondition()).is_varying()) continue;
      mark_divergence(n);
      changed = true;
    }
  }
  // Leaves are emitted on edges, by lanes that are on their way nowhere: whatever they compute is per lane.
  for (const llvm::BasicBlock& block : thread) {
    if (!VectorFlow::is_leaf(&block)) continue;
    for (const Instruction& in : block) {
      if (!in.getType()->isVoidTy()) shapes_[&in] = llvm::isa<llvm::PHINode>(in) ? Shape::varying() : transfer(in);
      if (shapes_.lookup(&in).is_unknown()) shapes_[&in] = Shape::varying();
    }
  }
  find_full();
}

Shape VectorShapes::of(const llvm::Value* value) const {
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(value)) {
    return Shape::uniform(number->isZero() ? kAnyAlignment : std::min(number->getValue().countr_zero(), kAnyAlignment));
  }
  if (llvm::isa<llvm::Constant>(value)) return Shape::uniform();
  return shapes_.lookup(value);
}

// A base may be known to end in more zeros than the type has bits, as that of tid << 29 is: then lanes reach its highest
// bits, and beyond.
bool VectorShapes::within(const Shape& s, unsigned bits) const {
  if (!s.is_affine() || s.stride <= 0) return false;
  std::uint64_t span = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(s.stride), layout_.lanes - 1, &span)) return false;
  return std::min(s.aligned, bits) >= static_cast<unsigned>(std::bit_width(span));
}

Shape VectorShapes::join(Shape a, Shape b) const {
  if (a.is_unknown()) return b;
  if (b.is_unknown()) return a;
  const bool linear = (a.is_affine() || a.is_guarded()) && (b.is_affine() || b.is_guarded());
  const unsigned aligned = std::min(a.aligned, b.aligned);
  if (a.is_uniform() && b.is_uniform()) return Shape::uniform(aligned);
  if (!linear || a.stride != b.stride) return Shape::varying();
  return {a.is_guarded() || b.is_guarded() ? Shape::Kind::kGuarded : Shape::Kind::kAffine, a.stride, aligned};
}

// Notes what a branch that lanes take differently means for joins and loops.
void VectorShapes::mark_divergence(unsigned block) {
  divergent_.set(block);
  const VectorFlow::Parting& parting = flow_.parting(block);
  loops_.insert(parting.loops.begin(), parting.loops.end());
  // Every block that two of its ways lead to, up to and with the one where all meet.
  for (unsigned n = 0; n < flow_.size(); ++n) {
    unsigned from = 0;
    for (const llvm::BasicBlock* before : llvm::predecessors(flow_.block(n))) {
      const unsigned m = flow_.index(before);
      if (m >= n) continue;  // a back edge
      const auto out_of = [&](const llvm::Loop* loop) { return loop->contains(before) && !loop->contains(flow_.block(n)); };
      if (m == block || parting.region.test(m) || std::any_of(parting.loops.begin(), parting.loops.end(), out_of)) ++from;
    }
    if (from > 1) joins_.set(n);
  }
}

Shape VectorShapes::of_phi(const llvm::PHINode& phi) const {
  const unsigned block = flow_.index(phi.getParent());
  if (joins_.test(block) && phi.hasConstantOrUndefValue() == false) {
    const llvm::Value* first = phi.getIncomingValue(0);
    for (const llvm::Value* value : phi.incoming_values()) {
      if (value != first) return Shape::varying();
    }
  }
  Shape all;
  for (unsigned n = 0; n < phi.getNumIncomingValues(); ++n) {
    const Shape one = of(phi.getIncomingValue(n));
    all = join(all, one);
    // From a loop that lanes leave in different turns, each takes along the value of its own last turn.
    const auto* value = llvm::dyn_cast<Instruction>(phi.getIncomingValue(n));
    if (value == nullptr) continue;
    for (const llvm::Loop* loop = flow_.loop(flow_.index(phi.getIncomingBlock(n))); loop != nullptr; loop = loop->getParentLoop()) {
      if (!loop->contains(phi.getParent()) && loop->contains(value->getParent()) && loops_.contains(loop)) return Shape::varying();
    }
  }
  return all;
}

ContextField VectorShapes::field(const llvm::LoadInst& load) const {
  std::uint64_t offset = 0;
  const llvm::Value* base = base_and_offset(load.getPointerOperand(), offset);
  if (base == nullptr) return ContextField::kNone;
  if (base == thread_) {
    switch (offset) {
      case offsetof(ThreadContext, tid): return ContextField::kTidX;
      case offsetof(ThreadContext, tid) + 4: return ContextField::kTidY;
      case offsetof(ThreadContext, tid) + 8: return ContextField::kTidZ;
      case offsetof(ThreadContext, linear): return ContextField::kLinear;
      case offsetof(ThreadContext, block): return ContextField::kBlock;
      default: return ContextField::kOfThread;
    }
  }
  const auto* block = llvm::dyn_cast<llvm::LoadInst>(base);
  if (block == nullptr) return ContextField::kNone;
  std::uint64_t of_block = 0;
  if (base_and_offset(block->getPointerOperand(), of_block) != thread_ || of_block != offsetof(ThreadContext, block)) {
    return ContextField::kNone;
  }
  return offset == offsetof(BlockContext, ntid) ? ContextField::kNtidX : ContextField::kOfBlock;
}

Shape VectorShapes::of_load(const llvm::LoadInst& load) const {
  const bool any = layout_.kind == LaneLayout::Kind::kLinear;
  switch (field(load)) {
    case ContextField::kTidX: return any ? Shape::varying() : Shape::affine(1, lane_bits_);
    case ContextField::kTidY: case ContextField::kTidZ: return any ? Shape::varying() : Shape::uniform();
    case ContextField::kLinear: return Shape::affine(1, lane_bits_);
    case ContextField::kNtidX: return Shape::uniform(layout_.kind == LaneLayout::Kind::kRows ? lane_bits_ : 0);
    case ContextField::kBlock: case ContextField::kOfThread: case ContextField::kOfBlock: return Shape::uniform();
    case ContextField::kNone: break;
  }
  const Shape at = of(load.getPointerOperand());
  if (at.is_unknown()) return at;
  const bool weak = !load.isVolatile() && (!load.isAtomic() || load.getOrdering() == llvm::AtomicOrdering::Unordered);
  return at.is_uniform() && weak ? Shape::uniform() : Shape::varying();
}

Shape VectorShapes::sum(Shape a, Shape b, bool subtract) const {
  if (!a.has_base() || !b.has_base()) return Shape::varying();
  const std::int64_t stride = subtract ? a.stride - b.stride : a.stride + b.stride;
  const unsigned aligned = std::min(a.aligned, b.aligned);
  if (a.is_guarded() || b.is_guarded()) return {Shape::Kind::kGuarded, stride, 0};
  return Shape::affine(stride, aligned);
}

Shape VectorShapes::of_address(const llvm::GetElementPtrInst& address) const {
  Shape all = of(address.getPointerOperand());
  const auto& layout = address.getModule()->getDataLayout();
  for (auto at = llvm::gep_type_begin(address); at != llvm::gep_type_end(address); ++at) {
    if (at.isStruct()) continue;
    Shape index = of(at.getOperand());
    if (index.is_unknown()) return index;
    if (width_of(at.getOperand()->getType()) != 64 && !index.is_uniform()) return Shape::varying();
    const std::uint64_t scale = at.getSequentialElementStride(layout).getFixedValue();
    index.stride *= static_cast<std::int64_t>(scale);
    index.aligned = std::min<unsigned>(kAnyAlignment, index.aligned + (scale == 0 ? kAnyAlignment : static_cast<unsigned>(std::countr_zero(scale))));
    all = sum(all, index, false);
  }
  return all;
}

Shape VectorShapes::of_binary(const llvm::BinaryOperator& in) const {
  const Shape a = of(in.getOperand(0)), b = of(in.getOperand(1));
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(in.getOperand(1));
  const unsigned bits = width_of(in.getType());
  const bool both = a.is_uniform() && b.is_uniform();
  if (bits == 0 || bits > 64) return both ? Shape::uniform() : Shape::varying();
  const auto settled = [&](Shape s) {
    s.stride = truncated(s.stride, bits);
    if (s.is_affine() && s.stride == 0) return Shape::uniform(s.aligned);
    return s;
  };
  switch (in.getOpcode()) {
    case Instruction::Add: return settled(sum(a, b, false));
    case Instruction::Sub: return settled(sum(a, b, true));
    case Instruction::Or: {
      if (llvm::cast<llvm::PossiblyDisjointInst>(&in)->isDisjoint()) return settled(sum(a, b, false));
      return both ? Shape::uniform(std::min(a.aligned, b.aligned)) : Shape::varying();
    }
    case Instruction::Mul: case Instruction::Shl: {
      const bool shift = in.getOpcode() == Instruction::Shl;
      if (both) return Shape::uniform(shift ? a.aligned : std::min(kAnyAlignment, a.aligned + b.aligned));
      if (number == nullptr || !a.has_base() || (shift && number->getValue().uge(bits))) return Shape::varying();
      const std::uint64_t factor = shift ? std::uint64_t{1} << number->getZExtValue() : number->getZExtValue();
      Shape s = a;
      s.stride = static_cast<std::int64_t>(static_cast<std::uint64_t>(s.stride) * factor);
      s.aligned = factor == 0 ? kAnyAlignment : std::min(kAnyAlignment, a.aligned + static_cast<unsigned>(std::countr_zero(factor)));
      return settled(s);
    }
    case Instruction::And: {
      if (both) return Shape::uniform(std::max(a.aligned, b.aligned));
      if (number == nullptr || !within(a, bits)) return Shape::varying();
      const std::uint64_t low = a.aligned >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << a.aligned) - 1;
      const std::uint64_t kept = number->getZExtValue() & low;
      if (kept == 0) return Shape::uniform(a.aligned);
      // All bits that the lanes reach are kept: those from the stride's lowest up.
      const auto span = static_cast<std::uint64_t>(a.stride) * (layout_.lanes - 1);
      const auto lowest = static_cast<std::uint64_t>(a.stride & -a.stride);
      const std::uint64_t reached = ((std::uint64_t{1} << std::bit_width(span)) - 1) & ~(lowest - 1);
      return (kept & reached) == reached ? Shape::affine(a.stride, a.aligned) : Shape::varying();
    }
    case Instruction::LShr: case Instruction::AShr: {
      if (both) return Shape::uniform();
      const bool is_signed = in.getOpcode() == Instruction::AShr;
      if (number == nullptr || !within(a, is_signed ? bits - 1 : bits) || number->getValue().uge(bits)) return Shape::varying();
      const auto by = static_cast<unsigned>(number->getZExtValue());
      const auto span = static_cast<std::uint64_t>(a.stride) * (layout_.lanes - 1);
      if (by >= static_cast<unsigned>(std::bit_width(span))) return Shape::uniform();
      const bool whole = (a.stride & ((std::int64_t{1} << by) - 1)) == 0;
      return whole ? Shape::affine(a.stride >> by, a.aligned - by) : Shape::varying();
    }
    default: return both ? Shape::uniform() : Shape::varying();
  }
}

Shape VectorShapes::widen(const llvm::CastInst& cast, Shape a) const {
  if (!a.is_affine()) return a.is_uniform() ? a : Shape::varying();
  if (width_of(cast.getSrcTy()) < 8 || width_of(cast.getDestTy()) > 64) return Shape::varying();
  const unsigned bits = width_of(cast.getSrcTy());
  if (within(a, llvm::isa<llvm::SExtInst>(cast) ? bits - 1 : bits)) return a;
  const bool turns_once = a.stride > 0 && static_cast<std::uint64_t>(a.stride) * (layout_.lanes - 1) < std::uint64_t{1} << (bits - 1);
  return is_low_half(cast) && turns_once ? Shape::affine(a.stride, 0) : Shape{Shape::Kind::kGuarded, a.stride, 0};
}

// Where every lane that counts has a value below half of what the type holds, the base may well be above it: then it stands
// for a negative number, from which the lanes count up to theirs. So such a base is widened with its sign.
bool VectorShapes::is_low_half(const llvm::CastInst& cast) {
  const auto* widening = llvm::dyn_cast<llvm::ZExtInst>(&cast);
  return widening != nullptr && widening->hasNonNeg();
}

// Comparing with a bound that is as aligned as the base: no lane crosses it alone.
Shape VectorShapes::of_compare(const llvm::ICmpInst& compare) const {
  const Shape a = of(compare.getOperand(0)), b = of(compare.getOperand(1));
  if (a.is_uniform() && b.is_uniform()) return Shape::uniform();
  const unsigned bits = width_of(compare.getOperand(0)->getType());
  if (!within(a, compare.isSigned() ? bits - 1 : bits) || !b.is_uniform()) return Shape::varying();
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(compare.getOperand(1));
  const auto span = static_cast<std::uint64_t>(a.stride) * (layout_.lanes - 1);
  const auto reached = static_cast<unsigned>(std::bit_width(span));
  switch (compare.getPredicate()) {
    case llvm::ICmpInst::ICMP_ULT: case llvm::ICmpInst::ICMP_SLT: case llvm::ICmpInst::ICMP_UGE: case llvm::ICmpInst::ICMP_SGE:
      return b.aligned >= reached ? Shape::uniform() : Shape::varying();
    case llvm::ICmpInst::ICMP_UGT: case llvm::ICmpInst::ICMP_SGT: case llvm::ICmpInst::ICMP_ULE: case llvm::ICmpInst::ICMP_SLE:
      return number != nullptr && (number->getValue() + 1).countr_zero() >= reached ? Shape::uniform() : Shape::varying();
    default: return Shape::varying();
  }
}

Shape VectorShapes::transfer(const Instruction& in) const {
  if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(&in)) return of_phi(*phi);
  bool uniform = true;
  for (const llvm::Value* operand : in.operands()) {
    if (llvm::isa<llvm::BasicBlock>(operand) || llvm::isa<llvm::Function>(operand)) continue;
    const Shape s = of(operand);
    if (s.is_unknown()) return s;
    uniform &= s.is_uniform();
  }
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&in)) return of_load(*load);
  if (const auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&in)) {
    return Shape::affine(static_cast<std::int64_t>(slot_bytes(*variable)), static_cast<unsigned>(llvm::Log2(variable->getAlign())));
  }
  if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&in)) return of_address(*address);
  if (const auto* binary = llvm::dyn_cast<llvm::BinaryOperator>(&in)) return of_binary(*binary);
  if (const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(&in)) return of_compare(*compare);
  const Shape first = in.getNumOperands() > 0 ? of(in.getOperand(0)) : Shape::uniform();
  switch (in.getOpcode()) {
    case Instruction::ZExt: case Instruction::SExt: return widen(llvm::cast<llvm::CastInst>(in), first);
    case Instruction::IntToPtr: case Instruction::PtrToInt:
      if (width_of(in.getType()) != width_of(in.getOperand(0)->getType())) return uniform ? Shape::uniform() : Shape::varying();
      return first;
    case Instruction::Freeze: return first;
    case Instruction::Trunc: {
      Shape s = first;
      if (!s.has_base()) return s;
      if (width_of(in.getType()) < 8 || width_of(in.getOperand(0)->getType()) > 64) return uniform ? Shape::uniform() : Shape::varying();
      s.stride = truncated(s.stride, width_of(in.getType()));
      if (s.is_affine() && s.stride == 0) return Shape::uniform(s.aligned);
      return s;
    }
    case Instruction::Select: {
      if (!first.is_uniform()) return Shape::varying();
      return join(of(in.getOperand(1)), of(in.getOperand(2)));
    }
    case Instruction::AtomicRMW: case Instruction::AtomicCmpXchg: return Shape::varying();
    case Instruction::Call: {
      const auto& call = llvm::cast<llvm::CallInst>(in);
      if (call.doesNotAccessMemory()) return uniform ? Shape::uniform() : Shape::varying();
      const llvm::Function* callee = call.getCalledFunction();
      const llvm::StringRef name = callee == nullptr ? llvm::StringRef() : callee->getName();
      if (name == "pergola_jit_clock" || name == "pergola_jit_globaltimer" || name == "pergola_jit_barrier") return Shape::uniform();
      return name == "pergola_jit_collective" && gives_one_result(call, of(call.getArgOperand(2))) ? Shape::uniform() : Shape::varying();
    }
    default: return uniform ? Shape::uniform() : Shape::varying();
  }
}

void VectorShapes::find_full() {
  full_.set();
  for (unsigned n = 0; n < flow_.size(); ++n) {
    if (!divergent_.test(n)) continue;
    for (const unsigned m : flow_.parting(n).region.set_bits()) full_.reset(m);
  }
  for (unsigned n = 0; n < flow_.size(); ++n) {
    for (const llvm::Loop* loop = flow_.loop(n); loop != nullptr; loop = loop->getParentLoop()) {
      if (loops_.contains(loop)) full_.reset(n);
    }
  }
  if (flow_.size() > 1) full_.reset(flow_.last());
}

}  // namespace pergola::device::cpu::jit
