// Calls (PTX ISA 7.1, 9.7.12.5). One convention for all: the thread, then a pointer to the storage of each result and
// of each parameter, so that a call through a register needs only the counts of its prototype.
//
// Functions that are declared and never defined are the run time's: vprintf, malloc, free, __assertfail, what spawns
// tasks, and the math functions of include/pergola/device/math_functions.def.
#include "src/abi/task_inbox.h"
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/math_functions.h"

namespace pergola::device::cpu::jit {

using ptx::Operand;
using Value = llvm::Value*;

bool FunctionEmitter::emit_known_call(const Inst& in, const std::string& name, llvm::ArrayRef<Value> results,
                                      llvm::ArrayRef<Value> parameters) {
  const auto load = [&](std::size_t n, llvm::Type* type) -> Value { return b_.CreateLoad(type, parameters[n]); };
  const auto expect = [&](std::size_t result_count, std::size_t parameter_count) {
    if (results.size() != result_count || parameters.size() != parameter_count) {
      refuse(in, "the function is the run time's, and is declared otherwise there");
    }
  };
  if (name == "vprintf") {
    expect(1, 2);
    b_.CreateStore(call_runtime("pergola_jit_vprintf", i(32), {thread_, load(0, b_.getPtrTy()), load(1, b_.getPtrTy())}),
                   results[0]);
    return true;
  }
  if (name == "malloc") {
    expect(1, 1);
    b_.CreateStore(call_runtime("pergola_jit_malloc", i(64), {thread_, load(0, i(64))}), results[0]);
    return true;
  }
  if (name == "free") {
    expect(0, 1);
    call_runtime("pergola_jit_free", b_.getVoidTy(), {thread_, load(0, i(64))});
    return true;
  }
  if (name == abi::kTaskSpawnFunction) {
    expect(1, 2 + TaskSpawner::kWords);
    llvm::SmallVector<Value, 9> arguments{thread_, load(0, i(64)), load(1, i(32))};
    for (std::size_t n = 0; n < TaskSpawner::kWords; ++n) arguments.push_back(load(2 + n, i(64)));
    b_.CreateStore(call_runtime("pergola_jit_spawn_task", i(32), arguments), results[0]);
    return true;
  }
  if (name == "__assertfail") {
    expect(0, 5);
    call_runtime("pergola_jit_assert_fail", b_.getVoidTy(),
                 {thread_, load(0, b_.getPtrTy()), load(1, b_.getPtrTy()), load(2, i(32)), load(3, b_.getPtrTy())});
    return true;
  }
  if (const MathFunction* function = find_math_function(name)) {
    const std::string_view shape = function->signature;
    expect(1, shape.size() - 1);
    const auto type_of = [&](char c) { return c == 'f' ? b_.getFloatTy() : c == 'd' ? b_.getDoubleTy() : i(32); };
    std::vector<Value> arguments;
    std::vector<llvm::Type*> types;
    for (std::size_t n = 1; n < shape.size(); ++n) {
      types.push_back(type_of(shape[n]));
      arguments.push_back(load(n - 1, types.back()));
    }
    auto* v = b_.CreateCall(m_.runtime(function->name, type_of(shape[0]), types), arguments);
    v->setDoesNotAccessMemory();
    v->setDoesNotThrow();
    b_.CreateStore(to_bits(shape[0] == 'f' ? canonical(v) : v), results[0]);
    return true;
  }
  return false;
}

void FunctionEmitter::emit_call(const Inst& in) {
  std::size_t n = 0;
  const std::vector<Operand>* results = nullptr;
  const std::vector<Operand>* parameters = nullptr;
  if (in.operands.at(0).kind == Operand::Kind::kTuple) results = &in.operands[n++].elements;
  const Operand& callee = in.operands.at(n++);
  if (n < in.operands.size() && in.operands[n].kind == Operand::Kind::kTuple) parameters = &in.operands[n++].elements;

  const ptx::CallPrototype* prototype = nullptr;  // of a call through a register
  for (const ptx::Statement& statement : f_.body) {
    const auto* named_here = std::get_if<ptx::CallPrototype>(&statement.node);
    if (named_here != nullptr && n < in.operands.size() && named_here->name == in.operands[n].name) prototype = named_here;
  }
  const auto storage = [&](const Operand& o, const ptx::Variable* declared) -> Value {
    if (o.kind == Operand::Kind::kSymbol || o.kind == Operand::Kind::kLabel) {
      if (const Place* place = find_place(o.name)) return place->pointer;
    }
    if (declared == nullptr) refuse(in, "a value is passed by register through a call without a prototype");
    const unsigned bits = bits_of(declared->type);
    Value slot = entry_alloca(i(bits), "argument");
    b_.CreateStore(read(o, bits), slot);
    return slot;
  };
  const bool named = callee.kind == Operand::Kind::kSymbol || callee.kind == Operand::Kind::kLabel;
  const ptx::Function* function = named ? m_.source().find_function(callee.name) : nullptr;
  if (named && function == nullptr) refuse(in, "the function is declared nowhere");

  std::vector<Value> result_slots, parameter_slots;
  std::vector<std::pair<Operand, Value>> to_registers;  // a result that is written to a register after the call
  for (std::size_t r = 0; results != nullptr && r < results->size(); ++r) {
    const Operand& o = (*results)[r];
    if (o.kind == Operand::Kind::kRegister || o.kind == Operand::Kind::kSink) {
      const unsigned bits = o.kind == Operand::Kind::kSink ? 0 : bits_of(f_.registers[o.reg].type);
      // As large as the callee writes, also where the result goes nowhere.
      const std::uint64_t bytes = function != nullptr && r < function->results.size() ? function->results[r].size_bytes() : 8;
      Value slot = entry_alloca(i(std::max<unsigned>({bits, 8 * static_cast<unsigned>(bytes), 64})), "result");
      to_registers.emplace_back(o, slot);
      result_slots.push_back(slot);
    } else {
      result_slots.push_back(storage(o, nullptr));
    }
  }
  for (std::size_t p = 0; parameters != nullptr && p < parameters->size(); ++p) {
    const std::vector<ptx::Variable>* signature = function != nullptr    ? &function->parameters
                                                  : prototype != nullptr ? &prototype->parameters
                                                                         : nullptr;
    const ptx::Variable* declared = signature != nullptr && p < signature->size() ? &(*signature)[p] : nullptr;
    parameter_slots.push_back(storage((*parameters)[p], declared));
  }
  if (function != nullptr && !function->has_body) {
    if (!emit_known_call(in, function->name, result_slots, parameter_slots)) {
      refuse(in, "the function is only declared, and the CPU device has none of that name");
    }
  } else {
    std::vector<Value> arguments{thread_};
    arguments.insert(arguments.end(), result_slots.begin(), result_slots.end());
    arguments.insert(arguments.end(), parameter_slots.begin(), parameter_slots.end());
    if (function != nullptr) {
      if (function->is_entry) refuse(in, "a kernel cannot be called");
      if (arguments.size() != 1 + function->results.size() + function->parameters.size()) {
        refuse(in, "the function has another number of parameters");
      }
      b_.CreateCall(m_.function_for(*function), arguments);
    } else {
      std::vector<llvm::Type*> types(arguments.size(), b_.getPtrTy());
      auto* type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
      auto* call = b_.CreateCall(type, b_.CreateIntToPtr(read(callee, 64), b_.getPtrTy()), arguments);
      call->setDoesNotThrow();
    }
  }
  for (const auto& [o, slot] : to_registers) {
    write(o, b_.CreateLoad(llvm::cast<llvm::AllocaInst>(slot)->getAllocatedType(), slot));
  }
}

}  // namespace pergola::device::cpu::jit
