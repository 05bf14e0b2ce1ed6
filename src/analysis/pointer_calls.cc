// Calls in the pointer dataflow: arguments and results are carried between instances, and what is called and not seen
// is assumed to do its worst.
#include <algorithm>

#include "src/analysis/pointer_flow.h"

namespace pergola::analysis {
namespace {

using Kind = Base::Kind;
using ptx::Function;
using ptx::Operand;

}  // namespace

PointerFlow::Extern PointerFlow::classify(const Function& function) {
  const std::string_view name = function.name;
  if (name == "vprintf") return {Extern::Kind::kPrintf};
  if (name == "malloc") return {Extern::Kind::kAllocates};
  if (name == "free") return {Extern::Kind::kPure};
  if (name == "__assertfail") return {Extern::Kind::kReads};
  if (name.starts_with("__pergola_")) return {Extern::Kind::kPure};  // pergola/device/math_functions.def: no pointers
  if (!name.starts_with("__nv_")) return {};
  // libdevice: double modf(double, double*), float remquof(float, float, int*), void sincos(double, double*, double*)
  if (name.starts_with("__nv_remquo")) return {Extern::Kind::kWrites, 2};
  for (const std::string_view writer : {"__nv_sincos", "__nv_modf", "__nv_frexp"}) {
    if (name.starts_with(writer)) return {Extern::Kind::kWrites, 1};
  }
  return {Extern::Kind::kPure};
}

PointerFlow::Call PointerFlow::call(Site site) const {
  const FunctionFacts& function = facts(site.instance);
  const ptx::Instruction& instruction = function.instruction(site.statement);
  Call result;
  const Operand* target = nullptr;
  const Operand* list = nullptr;
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::kTuple) {
      (target == nullptr ? result.results : result.arguments) = &operand;
    } else if (target == nullptr) {
      target = &operand;
    } else {
      list = &operand;
    }
  }
  const auto add = [&](const Function* callee) {
    if (callee != nullptr) callee = module_.find_function(callee->name);
    if (callee == nullptr) return;
    auto& where = callee->has_body ? result.targets : result.externs;
    if (std::find(where.begin(), where.end(), callee) == where.end()) where.push_back(callee);
  };
  if (target == nullptr) {
    result.unknown = "it names no function";
    return result;
  }
  if (target->kind == Operand::Kind::kSymbol) {
    add(module_.find_function(target->name));
    if (result.targets.empty() && result.externs.empty()) result.unknown = "'" + target->name + "' is not declared";
    return result;
  }
  if (list != nullptr) {
    if (const auto found = function.call_targets.find(list->name); found != function.call_targets.end()) {
      for (const std::string& name : found->second->functions) add(module_.find_function(name));
      return result;
    }
  }
  const Value pointer = value(site, *target);
  if (pointer.is_bottom() && pointer.parts().empty()) return result;  // not computed yet; judged in the end
  for (const Contribution& part : pointer.targets()) {
    if (part.base.kind == Kind::kFunction) {
      add(functions_[part.base.index]);
    } else {
      result.unknown = "it goes through a pointer that is not followed";
    }
  }
  if (pointer.targets().empty()) result.unknown = "it goes through a pointer that is not followed";
  return result;
}

PointerFlow::InstanceId PointerFlow::callee(Site site, const Function& target) const {
  const auto& callees = instances_[site.instance].callees;
  const auto found = callees.find({site.statement, &target});
  return found == callees.end() ? kNowhere : found->second;
}

Status PointerFlow::evaluate_call(Site site) {
  const Call call = this->call(site);
  for (const Function* target : call.targets) PERGOLA_TRY(enter(site, call, *target));
  for (const Function* target : call.externs) call_extern(site, call, *target);
  if (!call.unknown.empty()) call_unknown(site, call);
  return {};
}

// The tracked object that an operand of a call names: `param0`, or param0+8 nowhere in what compilers emit.
std::uint32_t PointerFlow::object_of(Site site, const Operand& operand) const {
  if (operand.kind != Operand::Kind::kSymbol) return kNoStatement;
  const Value named = symbol(site, operand.name, operand.offset);
  if (named.parts().size() != 1 || named.parts()[0].base.kind != Kind::kObject) return kNoStatement;
  return named.parts()[0].base.index;
}

Value PointerFlow::argument(Site site, const Operand& operand) const {
  const std::uint32_t object = object_of(site, operand);
  return object == kNoStatement ? value(site, operand) : memory_.content(object);
}

void PointerFlow::set_result(Site site, const Operand& operand, const Value& value) {
  const std::uint32_t object = object_of(site, operand);
  if (object == kNoStatement) return assign(site, operand, value);
  store_object(object, kAnyOffset, 8, value);
}

Status PointerFlow::enter(Site site, const Call& call, const Function& target) {
  Instance& caller = instances_[site.instance];
  const auto key = std::make_pair(site.statement, &target);
  auto known = caller.callees.find(key);
  if (known == caller.callees.end()) {
    const std::size_t before = instances_.size();
    PERGOLA_ASSIGN(const InstanceId made, make_instance(target, &caller));
    known = caller.callees.emplace(key, made).first;
    if (instances_.size() != before) {
      for (const std::uint32_t statement : facts(made).statements) enqueue({made, statement});
    }
  }
  const InstanceId id = known->second;
  const FunctionFacts& callee = facts(id);
  const std::uint32_t first = instances_[id].first_object;

  const std::size_t passed = call.arguments == nullptr ? 0 : call.arguments->elements.size();
  for (std::size_t i = 0; i < std::min(passed, target.parameters.size()); ++i) {
    const Operand& operand = call.arguments->elements[i];
    const std::uint32_t from = object_of(site, operand);
    if (from != kNoStatement) readers_[from].insert(site);
    if (callee.parameter_object[i] != kNoStatement) {
      const std::uint32_t to = first + callee.parameter_object[i];
      if (from == kNoStatement) {
        const auto bytes =
            static_cast<std::uint32_t>(std::clamp<std::uint64_t>(target.parameters[i].size_bytes(), 1, 16));
        store_object(to, 0, bytes, value(site, operand));
      } else if (memory_.copy(from, to)) {
        enqueue_readers(to);
        if (memory_.has_escaped(to)) escape(memory_.content(to));
      }
    } else if (callee.parameter_register[i] != kNoStatement) {
      const DefinitionId formal = callee.definitions->definition(kNoStatement, callee.parameter_register[i]);
      if (formal != kNoStatement) define({id, 0}, formal, argument(site, operand));
    }
  }

  const std::size_t returned = call.results == nullptr ? 0 : call.results->elements.size();
  for (std::size_t i = 0; i < std::min(returned, target.results.size()); ++i) {
    const Operand& operand = call.results->elements[i];
    const std::uint32_t to = object_of(site, operand);
    if (callee.result_object[i] != kNoStatement) {
      const std::uint32_t from = first + callee.result_object[i];
      readers_[from].insert(site);
      if (to == kNoStatement) {
        assign(site, operand, memory_.content(from));
      } else if (memory_.copy(from, to)) {
        enqueue_readers(to);
        if (memory_.has_escaped(to)) escape(memory_.content(to));
      }
    } else if (callee.result_register[i] != kNoStatement) {
      Value joined;
      for (const DefinitionId definition : callee.definitions->all_of(callee.result_register[i])) {
        joined.merge(instances_[id].values[definition]);
      }
      result_users_[id].insert(site);
      set_result(site, operand, joined);
    }
  }
  return {};
}

// Anything may happen to what the arguments point at, and anything may come back.
void PointerFlow::call_unknown(Site site, const Call& call) {
  const Value anything = Value::loaded(8, origin_of(site));
  if (call.arguments != nullptr) {
    for (const Operand& operand : call.arguments->elements) {
      if (const std::uint32_t object = object_of(site, operand); object != kNoStatement) readers_[object].insert(site);
      escape(argument(site, operand));
    }
  }
  store(anything, ptx::Space::kNone, 0, 8, anything);
  if (call.results == nullptr) return;
  for (const Operand& operand : call.results->elements) set_result(site, operand, anything);
}

void PointerFlow::call_extern(Site site, const Call& call, const Function& target) {
  const Extern known = classify(target);
  if (known.kind == Extern::Kind::kUnknown) return call_unknown(site, call);
  std::vector<Value> arguments;
  if (call.arguments != nullptr) {
    for (const Operand& operand : call.arguments->elements) {
      if (const std::uint32_t object = object_of(site, operand); object != kNoStatement) readers_[object].insert(site);
      arguments.push_back(argument(site, operand));
    }
  }
  for (std::size_t i = known.first_pointer; known.kind == Extern::Kind::kWrites && i < arguments.size(); ++i) {
    store(arguments[i], ptx::Space::kNone, kAnyOffset, 8, Value::integer());
  }
  if (call.results == nullptr) return;
  const Value result = known.kind == Extern::Kind::kAllocates ? Value::exact({Kind::kFresh, 0})
                       : known.kind == Extern::Kind::kPrintf  ? Value::integer()
                                                              : mix(arguments, Value::Mix::kFloat);
  for (const Operand& operand : call.results->elements) set_result(site, operand, result);
}

}  // namespace pergola::analysis
