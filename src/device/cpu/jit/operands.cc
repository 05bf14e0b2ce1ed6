// Reading and writing operands: registers of any width, immediates, special registers, symbols and vectors.
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/thread_context.h"
#include "src/device/cpu/reserved_shared.h"

namespace pergola::device::cpu::jit {

using ptx::Operand;
using ptx::Special;
using ptx::Type;
using Value = llvm::Value*;

Value FunctionEmitter::to_bits(Value v) {
  if (v->getType()->isPointerTy()) return b_.CreatePtrToInt(v, i(64));
  if (!v->getType()->isFloatingPointTy()) return v;
  return b_.CreateBitCast(v, i(v->getType()->getPrimitiveSizeInBits()));
}

Value FunctionEmitter::resize(Value v, unsigned bits, bool sign) {
  return sign ? b_.CreateSExtOrTrunc(v, i(bits)) : b_.CreateZExtOrTrunc(v, i(bits));
}

llvm::AllocaInst* FunctionEmitter::slot(ptx::RegisterId reg, int component) const {
  const auto vector = components_.find(reg);
  return vector == components_.end() ? registers_[reg] : vector->second[static_cast<std::size_t>(std::max(component, 0))];
}

llvm::Type* FunctionEmitter::register_type(ptx::RegisterId reg, int component) {
  if (!is_value_[reg]) return slot(reg, component)->getAllocatedType();
  const unsigned width = bits_of(f_.registers[reg].type);
  return prefers_float_[reg] ? float_type(width) : i(width);
}

Value FunctionEmitter::read_register(ptx::RegisterId reg, int component) {
  if (is_value_[reg]) return values_[reg];
  llvm::AllocaInst* from = slot(reg, component);
  return b_.CreateLoad(from->getAllocatedType(), from);
}

Value FunctionEmitter::read(const Operand& o, unsigned bits, bool sign) {
  switch (o.kind) {
    case Operand::Kind::kRegister: {
      Value v = resize(to_bits(read_register(o.reg, o.component)), bits, sign);
      return o.negated ? b_.CreateNot(v) : v;
    }
    case Operand::Kind::kInteger: case Operand::Kind::kF32: {
      if (bits <= 64) return k(bits, bits == 64 ? o.bits : o.bits & ((std::uint64_t{1} << bits) - 1));
      return b_.CreateSExt(k(64, o.bits), i(bits));
    }
    case Operand::Kind::kF64: {
      if (bits == 32) return to_bits(read_float(o, Type::kF32));
      return resize(k(64, o.bits), bits);
    }
    case Operand::Kind::kSpecial: return resize(special(o, nullptr), bits);
    case Operand::Kind::kSymbol: case Operand::Kind::kLabel:
      return resize(symbol_address(o.name, o.offset, nullptr), bits);
    case Operand::Kind::kVector: {
      const unsigned part = bits / static_cast<unsigned>(std::max<std::size_t>(o.elements.size(), 1));
      Value all = k(bits, 0);
      for (std::size_t n = 0; n < o.elements.size(); ++n) {
        if (o.elements[n].kind == Operand::Kind::kSink) continue;
        Value element = b_.CreateZExt(read(o.elements[n], part), i(bits));
        all = b_.CreateOr(all, b_.CreateShl(element, k(bits, n * part)));
      }
      return all;
    }
    default: break;
  }
  refuse_operand("it reads an operand of a kind that this tier does not know");
}

Value FunctionEmitter::read_float(const Operand& o, Type type, bool ftz) {
  const unsigned bits = bits_of(type);
  if (bits == 16) {
    Value pattern = read(o, 16);
    return half_to_float(ftz ? flush_half(pattern, type) : pattern, type);
  }
  if (ftz) return flush(read_float(o, type));
  if (o.kind == Operand::Kind::kF64 && bits == 32) {  // a decimal literal
    return llvm::ConstantFP::get(b_.getFloatTy(), static_cast<double>(static_cast<float>(std::bit_cast<double>(o.bits))));
  }
  if (o.kind == Operand::Kind::kF32 && bits == 64) {
    return llvm::ConstantFP::get(b_.getDoubleTy(),
                                 std::bit_cast<float>(static_cast<std::uint32_t>(o.bits)));
  }
  if (o.kind == Operand::Kind::kRegister) {
    if (register_type(o.reg, o.component) == float_type(bits)) return read_register(o.reg, o.component);
  }
  return b_.CreateBitCast(read(o, bits), float_type(bits));
}

void FunctionEmitter::write_register(ptx::RegisterId reg, Value v, bool sign, int component) {
  auto* type = register_type(reg, component);
  if (v->getType() != type) {
    v = resize(to_bits(v), type->getPrimitiveSizeInBits(), sign);
    if (type->isFloatingPointTy()) v = b_.CreateBitCast(v, type);
  }
  if (is_value_[reg]) {
    values_[reg] = v;
  } else {
    b_.CreateStore(v, slot(reg, component));
  }
}

void FunctionEmitter::write(const Operand& o, Value v, bool sign) {
  if (o.kind == Operand::Kind::kSink) return;
  if (o.kind == Operand::Kind::kRegister) return write_register(o.reg, v, sign, o.component);
  if (o.kind == Operand::Kind::kVector) {
    Value bits = to_bits(v);
    const unsigned width = bits->getType()->getIntegerBitWidth();
    const unsigned part = width / static_cast<unsigned>(std::max<std::size_t>(o.elements.size(), 1));
    for (std::size_t n = 0; n < o.elements.size(); ++n) {
      write(o.elements[n], b_.CreateTrunc(b_.CreateLShr(bits, k(width, n * part)), i(part)));
    }
    return;
  }
  refuse_operand("it writes an operand of a kind that this tier does not know");
}

void FunctionEmitter::write_float(const Operand& o, Value v, Type type) {
  write(o, bits_of(type) == 16 ? float_to_half(v, type) : canonical(v));
}

Value FunctionEmitter::field(Value base, std::size_t offset, llvm::Type* type, const char* name, bool constant) {
  auto* load = b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(i(8), base, offset), name);
  if (constant && base == block_ && block_ != nullptr) {
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(m_.context(), {}));
  }
  return load;
}

Value FunctionEmitter::call_runtime(const std::string& name, llvm::Type* result, llvm::ArrayRef<Value> arguments,
                                    bool pure) {
  std::vector<llvm::Type*> types;
  for (Value argument : arguments) types.push_back(argument->getType());
  return b_.CreateCall(m_.runtime(name, result, types, pure), arguments);
}

Value FunctionEmitter::special(const Operand& o, const Inst*) {
  const auto component = static_cast<std::size_t>(std::max<int>(o.component, 0));
  const auto of_thread = [&](std::size_t offset) {
    return field(thread_, offset, i(32), "thread", false);
  };
  const auto of_block = [&](std::size_t offset, unsigned bits = 32) { return field(block_, offset, i(bits), "block"); };
  const auto vector = [&](std::size_t offset) -> Value {
    return component == 3 ? k(32, 0) : of_block(offset + 4 * component);
  };
  const auto lane = [&] { return b_.CreateAnd(of_thread(offsetof(ThreadContext, linear)), k(32, 31)); };
  const auto lane_bit = [&] { return b_.CreateShl(k(32, 1), lane()); };
  switch (o.special) {
    case Special::kTid:
      if (component == 3) return k(32, 0);
      return of_thread(offsetof(ThreadContext, tid) + 4 * component);
    case Special::kNtid: return vector(offsetof(BlockContext, ntid));
    case Special::kCtaid: return vector(offsetof(BlockContext, ctaid));
    case Special::kNctaid: return vector(offsetof(BlockContext, nctaid));
    case Special::kLaneid: return lane();
    case Special::kWarpid: return b_.CreateLShr(of_thread(offsetof(ThreadContext, linear)), k(32, 5));
    case Special::kNwarpid: {
      Value threads = b_.CreateMul(b_.CreateMul(of_block(offsetof(BlockContext, ntid)),
                                                of_block(offsetof(BlockContext, ntid) + 4)),
                                   of_block(offsetof(BlockContext, ntid) + 8));
      return b_.CreateLShr(b_.CreateAdd(threads, k(32, 31)), k(32, 5));
    }
    case Special::kSmid: return of_block(offsetof(BlockContext, smid));
    case Special::kNsmid: return of_block(offsetof(BlockContext, nsmid));
    case Special::kGridid: return of_block(offsetof(BlockContext, gridid), 64);
    case Special::kLanemaskEq: return lane_bit();
    case Special::kLanemaskLt: return b_.CreateSub(lane_bit(), k(32, 1));
    case Special::kLanemaskLe: {
      Value bit = lane_bit();
      return b_.CreateOr(bit, b_.CreateSub(bit, k(32, 1)));
    }
    case Special::kLanemaskGe: return b_.CreateNeg(lane_bit());
    case Special::kLanemaskGt: {
      Value bit = lane_bit();
      return b_.CreateNot(b_.CreateOr(bit, b_.CreateSub(bit, k(32, 1))));
    }
    case Special::kClock: return b_.CreateTrunc(call_runtime("pergola_jit_clock", i(64), {}), i(32));
    case Special::kClockHi:
      return b_.CreateTrunc(b_.CreateLShr(call_runtime("pergola_jit_clock", i(64), {}), k(64, 32)), i(32));
    case Special::kClock64: return call_runtime("pergola_jit_clock", i(64), {});
    case Special::kGlobaltimer: return call_runtime("pergola_jit_globaltimer", i(64), {});
    case Special::kGlobaltimerLo: return b_.CreateTrunc(call_runtime("pergola_jit_globaltimer", i(64), {}), i(32));
    case Special::kGlobaltimerHi:
      return b_.CreateTrunc(b_.CreateLShr(call_runtime("pergola_jit_globaltimer", i(64), {}), k(64, 32)), i(32));
    case Special::kTotalSmemSize: case Special::kAggrSmemSize: return of_block(offsetof(BlockContext, shared_bytes));
    case Special::kDynamicSmemSize: return of_block(offsetof(BlockContext, dynamic_shared_bytes));
    case Special::kReservedSmemOffset: return k(32, 0);
    case Special::kIsExplicitCluster: return k(1, 0);
    // Without clusters each block is a cluster of one (ISA 10, %clusterid).
    case Special::kClusterid: return vector(offsetof(BlockContext, ctaid));
    case Special::kNclusterid: return vector(offsetof(BlockContext, nctaid));
    case Special::kClusterCtaid: case Special::kClusterCtarank: return k(32, 0);
    case Special::kClusterNctaid: case Special::kClusterNctarank: return k(32, 1);
    case Special::kCurrentGraphExec: return k(64, 0);
    case Special::kEnvreg:
      if (component == 1) return b_.CreateTrunc(b_.CreateLShr(of_block(offsetof(BlockContext, grid_workspace), 64), k(64, 32)), i(32));
      if (component == 2) return b_.CreateTrunc(of_block(offsetof(BlockContext, grid_workspace), 64), i(32));
      break;
    case Special::kOther:
      if (names_reserved_shared(o)) return b_.CreateTrunc(symbol_address(o.name, 0, nullptr), i(32));
      break;
    case Special::kPm: break;
  }
  refuse_operand(fmt::format("this tier has no special register {}", o.name.empty() ? ptx::spelling(o.special) : o.name));
}

// The address of a variable in its own space, or of a function, as an integer of 64 bits.
Value FunctionEmitter::symbol_address(const std::string& name, std::int64_t offset, const Inst*) {
  if (const Place* place = find_place(name)) {
    Value address = b_.CreatePtrToInt(place->pointer, i(64));
    if (place->space == ptx::Space::kLocal) {
      Value base = field(thread_, offsetof(ThreadContext, local_base), i(64), "local_base", false);
      address = b_.CreateSub(address, base);
    }
    return b_.CreateAdd(address, k(64, static_cast<std::uint64_t>(offset)));
  }
  for (const std::string& key : {f_.name + "/" + name, name}) {
    for (const SharedLayout::Slot& slot : m_.shared().slots) {
      if (slot.name == key) return k(64, slot.offset_bytes + static_cast<std::uint64_t>(offset));
    }
    if (const GlobalPlacement* placement = m_.global(key)) {
      return b_.CreateAdd(m_.address_of(*placement), k(64, static_cast<std::uint64_t>(offset)));
    }
  }
  const ptx::Function* function = m_.source().find_function(name);
  if (function != nullptr && function->has_body && !function->is_entry) {
    return b_.CreatePtrToInt(m_.function_for(*function), i(64));
  }
  refuse_operand(fmt::format("'{}' has no address on this device", name));
}

}  // namespace pergola::device::cpu::jit
