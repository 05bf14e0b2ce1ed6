// call (ISA 9.7.12.5): direct, indirect through a function's address, and functions the device provides.
#include "src/base/plural.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"

namespace pergola::device::cpu::interp {
namespace {

using ptx::Mod;
using ptx::Op;
using ptx::Type;
using OperandKind = ptx::Operand::Kind;

const CallSite& site_of(const Thread& t, const Inst& i) { return *t.function->calls[i.imm]; }

void call_direct(Machine& m, Thread& t, const Inst& i) {
  const CallSite& site = site_of(t, i);
  m.enter(t, *site.target, &site, i);
}

void call_indirect(Machine& m, Thread& t, const Inst& i) {
  const CallSite& site = site_of(t, i);
  const std::uint64_t address = cell(t, site.address);
  const FunctionCode* target = m.module().function_at(address);
  if (target == nullptr)
    m.fault(t, i, fmt::format("calls {:#x}, which is not the address of a function of its module", address));
  else if (target->parameters.size() != site.arguments.size() || target->results.size() != site.results.size())
    m.fault(t, i, fmt::format("calls '{}' through a pointer with {} and {}, but it has {} and {}",
                              target->source->name, plural(site.arguments.size(), "argument"),
                              plural(site.results.size(), "result"),
                              target->parameters.size(), target->results.size()));
  else
    m.enter(t, *target, &site, i);
}

void call_builtin(Machine& m, Thread& t, const Inst& i) {
  const CallSite& site = site_of(t, i);
  site.builtin(m, t, i, site);
}

Result<CallSite::Value> value_of(Decoder& d, const ptx::Instruction& i, const ptx::Operand& o, bool result) {
  CallSite::Value value;
  if (o.kind == OperandKind::kSymbol) {
    const Decoder::Symbol symbol = d.lookup(o.name);
    if (symbol.kind == Decoder::Symbol::Kind::kFrame) {
      value.in_frame = true;
      value.offset = static_cast<std::uint32_t>(symbol.value);
      value.size = static_cast<std::uint32_t>(symbol.size);
      return value;
    }
  }
  if (o.kind == OperandKind::kSink && result) {
    value.cell = d.write_cell(o);
    return value;
  }
  value.cell = result ? d.write_cell(o) : d.read(o, Type::kB64);
  if (value.cell == kNoCell) return d.unsupported(i, "an argument is not understood");
  return value;
}

// The tuples before and after the function's operand: results and arguments.
struct Parts {
  const ptx::Operand* results = nullptr;
  const ptx::Operand* function = nullptr;
  const ptx::Operand* arguments = nullptr;
};
Parts parts_of(const ptx::Instruction& i) {
  Parts parts;
  for (const ptx::Operand& o : i.operands) {
    if (o.kind == OperandKind::kTuple)
      (parts.function == nullptr ? parts.results : parts.arguments) = &o;
    else if (parts.function == nullptr)
      parts.function = &o;
  }
  return parts;
}

}  // namespace

Decoded decode_call(Decoder& d, const ptx::Instruction& i) {
  if (i.op != Op::kCall) return false;
  ModReader mods(i);
  mods.take(Mod::kUni);
  const Parts parts = parts_of(i);
  if (!mods.empty() || parts.function == nullptr) return d.unsupported(i);
  auto site = std::make_unique<CallSite>();
  LaneFn fn = call_direct;
  if (parts.function->kind == OperandKind::kRegister) {
    site->address = d.read(*parts.function, Type::kB64);
    fn = call_indirect;
    d.code().calls_indirectly = true;
  } else {
    const Decoder::Symbol symbol = d.lookup(parts.function->name);
    if (symbol.kind == Decoder::Symbol::Kind::kFunction) {
      site->target = d.image().functions[symbol.value].get();
    } else if (const auto builtin = find_builtin(parts.function->name)) {
      site->builtin = builtin->run;
      site->native = builtin->native;
      site->signature = builtin->signature;
      fn = call_builtin;
    } else {
      return d.unsupported(i, fmt::format("the function '{}' has no body here, and the device does not provide it",
                                          parts.function->name));
    }
  }
  if (parts.results != nullptr)
    for (const ptx::Operand& o : parts.results->elements) {
      PERGOLA_ASSIGN(CallSite::Value value, value_of(d, i, o, true));
      site->results.push_back(value);
    }
  if (parts.arguments != nullptr)
    for (const ptx::Operand& o : parts.arguments->elements) {
      PERGOLA_ASSIGN(CallSite::Value value, value_of(d, i, o, false));
      site->arguments.push_back(value);
    }
  if (site->builtin != nullptr && site->arguments.size() + 1 < site->signature.size())
    return d.unsupported(i, "the device's function of this name has other arguments");
  Inst& inst = d.emit(fn, Kind::kControl);
  inst.imm = d.code().calls.size();
  d.code().calls.push_back(std::move(site));
  return true;
}

}  // namespace pergola::device::cpu::interp
