#include "src/analysis/pointer_flow.h"

#include <algorithm>

#include "src/ptx/signature.h"

namespace pergola::analysis {
namespace {

using Kind = Base::Kind;
using ptx::Operand;
using ptx::Space;

// A number this large in the text may be an address that somebody compiled in.
constexpr std::int64_t kLargestNumber = std::int64_t{1} << 40;

}  // namespace

Status PointerFlow::run() {
  origins_.push_back({kNowhere, kNowhere});
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module_, entry_));
  for (const ptx::Parameter& parameter : signature.parameters) parameter_begin_.push_back(parameter.offset_bytes);
  for (const ptx::Item& item : module_.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) {
      if (variable->space == Space::kLocal) {
        module_local_.try_emplace(variable->name, 0);
      } else if (variable_index_.try_emplace(variable->name, variables_.size()).second) {
        variables_.push_back(variable);
      }
    } else if (const auto* function = std::get_if<ptx::Function>(&item.node)) {
      if (function_index_.try_emplace(function->name, functions_.size()).second) functions_.push_back(function);
    }
  }
  PERGOLA_ASSIGN(const InstanceId root, make_instance(entry_, nullptr));
  for (auto& [name, object] : module_local_) object = memory_.add_object();
  readers_.resize(memory_.object_count());
  for (const std::uint32_t statement : facts(root).statements) enqueue({root, statement});
  PERGOLA_TRY(drain());
  restart();
  return drain();
}

Status PointerFlow::drain() {
  do {
    while (!work_.empty()) {
      const Site site = work_.front();
      work_.pop_front();
      instances_[site.instance].queued[site.statement] = false;
      PERGOLA_TRY(evaluate(site));
    }
  } while (settle_undefined());
  return {};
}

// What is still bottom depends on a register or a stack cell that nobody wrote: a number, of which the rest is made.
bool PointerFlow::settle_undefined() {
  bool changed = false;
  for (InstanceId id = 0; id < instances_.size(); ++id) {
    for (DefinitionId definition = 0; definition < instances_[id].values.size(); ++definition) {
      if (!instances_[id].values[definition].is_bottom()) continue;
      define({id, 0}, definition, Value::null());
      changed = true;
    }
  }
  return changed;
}

void PointerFlow::restart() {
  memory_.clear();
  for (InstanceId id = 0; id < instances_.size(); ++id) {
    Instance& instance = instances_[id];
    for (std::size_t i = 0; i < instance.values.size(); ++i) {
      instance.is_pointer[i] = instance.values[i].has_exact();
      instance.values[i] = Value();
    }
    for (const std::uint32_t statement : instance.facts->statements) enqueue({id, statement});
  }
}

Result<const FunctionFacts*> PointerFlow::facts_of(const ptx::Function& function) {
  auto& slot = facts_[&function];
  if (slot == nullptr) {
    PERGOLA_ASSIGN(FunctionFacts made, FunctionFacts::of(function));
    slot = std::make_unique<FunctionFacts>(std::move(made));
  }
  return static_cast<const FunctionFacts*>(slot.get());
}

Result<PointerFlow::InstanceId> PointerFlow::make_instance(const ptx::Function& function, const Instance* caller) {
  PERGOLA_ASSIGN(const FunctionFacts* facts, facts_of(function));
  const std::size_t definitions = facts->definitions->definitions().size();
  const bool shares =
      caller != nullptr && (caller->is_shared || caller->chain.contains(&function) ||
                            instances_.size() >= kMaxInstances || definition_count_ + definitions > kMaxDefinitions);
  if (shares) {
    const auto found = shared_.find(&function);
    if (found != shared_.end()) return found->second;
  }
  const auto id = static_cast<InstanceId>(instances_.size());
  if (shares) shared_[&function] = id;
  definition_count_ += definitions;
  Instance instance;
  instance.facts = facts;
  instance.is_shared = shares;
  if (caller != nullptr) instance.chain = caller->chain;
  instance.chain.insert(&function);
  instance.first_object = static_cast<std::uint32_t>(memory_.object_count());
  for (std::size_t i = 0; i < facts->objects.size(); ++i) memory_.add_object();
  readers_.resize(memory_.object_count());
  instance.values.resize(definitions);
  instance.is_pointer.resize(definitions, false);
  instance.queued.resize(function.body.size(), false);
  instances_.push_back(std::move(instance));
  return id;
}

void PointerFlow::enqueue(Site site) {
  std::vector<bool>& queued = instances_[site.instance].queued;
  if (queued[site.statement]) return;
  queued[site.statement] = true;
  work_.push_back(site);
}

void PointerFlow::enqueue_users(InstanceId instance, DefinitionId id) {
  for (const std::uint32_t user : facts(instance).definitions->users(id)) enqueue({instance, user});
}

void PointerFlow::enqueue_readers(std::uint32_t object) {
  for (const Site reader : readers_[object]) enqueue(reader);
}

std::uint32_t PointerFlow::place(ParameterPlace place) const {
  const auto [it, is_new] = place_index_.try_emplace(place, places_.size());
  if (is_new) places_.push_back(place);
  return it->second;
}

std::uint32_t PointerFlow::origin_of(Site site) const {
  const auto [it, is_new] = origin_index_.try_emplace(site, origins_.size());
  if (is_new) origins_.push_back(site);
  return it->second;
}

void PointerFlow::define(Site site, DefinitionId id, const Value& value) {
  Instance& instance = instances_[site.instance];
  const ptx::RegisterId reg = instance.facts->definitions->definitions()[id].reg;
  const ptx::Type type = instance.facts->function->registers[reg].type;
  bool changed = false;
  if (type == ptx::Type::kPred) {
    changed = instance.values[id].merge(Value::integer());
  } else {
    changed = instance.values[id].merge(ptx::size_bytes(type) <= 4 ? truncate(value) : value);
  }
  if (!changed) return;
  enqueue_users(site.instance, id);
  const auto& results = instance.facts->result_register;
  if (std::find(results.begin(), results.end(), reg) == results.end()) return;
  for (const Site caller : result_users_[site.instance]) enqueue(caller);
}

void PointerFlow::assign(Site site, const Operand& operand, const Value& value) {
  if (operand.kind == Operand::Kind::kRegister) {
    const DefinitionId id = facts(site.instance).definitions->definition(site.statement, operand.reg);
    if (id != kNoStatement) define(site, id, value);
    return;
  }
  for (const Operand& element : operand.elements) assign(site, element, value);
}

Value PointerFlow::symbol(Site site, const std::string& name, std::int64_t offset) const {
  const Instance& instance = instances_[site.instance];
  const std::uint32_t object = instance.facts->find_object(name, site.statement);
  if (object == FunctionFacts::kSharedName) return Value::exact({Kind::kShared, 0});
  if (object == FunctionFacts::kOtherName) return Value::loaded(8, origin_of(site));
  if (object != kNoStatement) return Value::exact({Kind::kObject, instance.first_object + object}, offset);
  if (const auto local = module_local_.find(name); local != module_local_.end()) {
    return Value::exact({Kind::kObject, local->second}, offset);
  }
  if (const auto found = variable_index_.find(name); found != variable_index_.end()) {
    if (variables_[found->second]->space == Space::kShared) return Value::exact({Kind::kShared, 0});
    return Value::exact({Kind::kVariable, found->second});
  }
  if (const auto found = function_index_.find(name); found != function_index_.end()) {
    return Value::exact({Kind::kFunction, found->second});
  }
  return Value::loaded(8, origin_of(site));
}

Value PointerFlow::value(Site site, const Operand& operand) const {
  const Instance& instance = instances_[site.instance];
  switch (operand.kind) {
    case Operand::Kind::kRegister: {
      const auto reaching = instance.facts->definitions->reaching(site.statement, operand.reg);
      if (reaching.empty()) return Value::null();  // undefined
      Value joined;
      bool is_pointer = false;
      for (const DefinitionId id : reaching) {
        joined.merge(instance.values[id]);
        is_pointer |= instance.is_pointer[id];
      }
      if (is_pointer || joined.has_exact()) joined.assume_not_null();
      return joined;
    }
    case Operand::Kind::kInteger: {
      if (operand.bits == 0) return Value::null();
      const auto number = static_cast<std::int64_t>(operand.bits);
      const bool is_small = number < kLargestNumber && number > -kLargestNumber;
      return is_small ? Value::integer() : Value::loaded(8, origin_of(site));
    }
    // %envreg is the driver's: half of the address of its own workspace, in what cooperative groups compile to.
    case Operand::Kind::kSpecial:
      return operand.special == ptx::Special::kEnvreg ? Value::piece({Kind::kFresh, 0}) : Value::integer();
    case Operand::Kind::kSymbol: return symbol(site, operand.name, operand.offset);
    case Operand::Kind::kAddress: {
      if (operand.elements.empty()) return Value::integer();
      return add(value(site, operand.elements[0]), Value::integer(), static_cast<std::uint64_t>(operand.offset));
    }
    case Operand::Kind::kVector:
    case Operand::Kind::kPair:
    case Operand::Kind::kTuple: {
      std::vector<Value> elements;
      for (const Operand& element : operand.elements) elements.push_back(value(site, element));
      return mix(elements, Value::Mix::kOther);
    }
    default: return Value::integer();
  }
}

void PointerFlow::escape(const Value& value) {
  for (const std::uint32_t object : memory_.escape(value)) enqueue_readers(object);
}

// What the kernel's own parameters hold. They lie in one buffer: `ld.param.u64 %rd1, [a+8]` is the one after a.
Value PointerFlow::load_parameter(std::uint32_t object, std::int64_t offset, ptx::Type type,
                                  std::uint32_t bytes) const {
  const FunctionFacts& root = facts(0);
  const auto& places = root.parameter_object;
  const auto named = static_cast<std::uint32_t>(std::find(places.begin(), places.end(), object) - places.begin());
  if (offset == kAnyOffset) {
    Value result = load_field(named, kAnyOffset, type, bytes);
    if (root.objects[object].is_scalar) result.merge(Value::loaded(bytes, 0));  // it need not stay in there
    return result;
  }
  const auto begin = static_cast<std::int64_t>(parameter_begin_[named] + static_cast<std::uint64_t>(offset));
  std::vector<Value> fields;
  for (std::uint32_t i = 0; i < parameter_begin_.size(); ++i) {
    const auto first = static_cast<std::int64_t>(parameter_begin_[i]);
    const auto size = static_cast<std::int64_t>(root.objects[places[i]].size_bytes);
    if (begin > first - std::int64_t{bytes} && begin < first + size) {
      fields.push_back(load_field(i, begin - first, type, bytes));
    }
  }
  if (fields.empty()) return Value::loaded(bytes, 0);
  return fields.size() == 1 ? fields[0] : pack(fields, std::max(64u, bytes * 8));
}

// What `bytes` at `offset` of a parameter hold: the only place where kParameter bases come from.
Value PointerFlow::load_field(std::uint32_t parameter, std::int64_t offset, ptx::Type type,
                              std::uint32_t bytes) const {
  const LocalObject& info = facts(0).objects[facts(0).parameter_object[parameter]];
  const auto size = static_cast<std::int64_t>(info.size_bytes);
  const auto base = [&](std::int64_t at) { return Base{Kind::kParameter, place({parameter, at})}; };
  if (info.is_scalar) {
    if (info.size_bytes < 8 || ptx::is_float(info.type)) return Value::loaded(4, 0);
    const bool is_whole = bytes == 8 && (offset == 0 || offset == kAnyOffset);
    return is_whole ? Value::exact(base(0)) : Value::piece(base(0));
  }
  if (offset == kAnyOffset) return bytes >= 8 ? Value::exact(base(kAnyOffset)) : Value::piece(base(kAnyOffset));
  if (offset < 0) return Value::piece(base(0));  // its first bytes
  const std::int64_t first = offset - offset % 8;
  if (bytes == 8 && offset == first) return ptx::is_float(type) ? Value::piece(base(first)) : Value::exact(base(first));
  if (bytes <= 4) return Value::piece(base(first));
  const Value both[] = {Value::exact(base(first)), Value::exact(base(first + 8 < size ? first + 8 : first))};
  return mix(both, Value::Mix::kOther);
}

Value PointerFlow::load(Site site, const Value& address, Space space, std::int64_t offset, ptx::Type type) {
  if (address.is_bottom()) return {};
  const std::uint32_t bytes = std::max(1u, ptx::size_bytes(type));
  const bool may_be_object = space == Space::kNone || space == Space::kLocal || space == Space::kParam;
  Value result;
  bool elsewhere = address.targets().empty();
  for (const Contribution& target : address.targets()) {
    if (target.base.kind != Kind::kObject || !may_be_object) {
      elsewhere = true;
      continue;
    }
    const std::uint32_t object = target.base.index;
    const bool whole = target.is_only_exact() && target.offset != kAnyOffset && offset != kAnyOffset;
    const std::int64_t at =
        whole
            ? static_cast<std::int64_t>(static_cast<std::uint64_t>(target.offset) + static_cast<std::uint64_t>(offset))
            : kAnyOffset;
    readers_[object].insert(site);
    const auto& formals = facts(0).parameter_object;
    if (std::find(formals.begin(), formals.end(), object) != formals.end()) {
      result.merge(load_parameter(object, at, type, bytes));
    }
    result.merge(memory_.load(object, at, bytes));
  }
  if (elsewhere) result.merge(Value::loaded(bytes, origin_of(site)));
  return result;
}

void PointerFlow::store_object(std::uint32_t object, std::int64_t offset, std::uint32_t bytes, const Value& value) {
  if (memory_.store(object, offset, bytes, value)) enqueue_readers(object);
  if (memory_.has_escaped(object)) escape(value);
}

void PointerFlow::store(const Value& address, Space space, std::int64_t offset, std::uint32_t bytes,
                        const Value& value) {
  if (address.is_bottom() || value.is_bottom()) return;
  const bool may_be_object = space == Space::kNone || space == Space::kLocal || space == Space::kParam;
  bool elsewhere = address.targets().empty();
  for (const Contribution& target : address.targets()) {
    if (target.base.kind != Kind::kObject || !may_be_object) {
      elsewhere = true;
      continue;
    }
    const bool whole = target.is_only_exact() && target.offset != kAnyOffset && offset != kAnyOffset;
    store_object(target.base.index,
                 whole ? static_cast<std::int64_t>(static_cast<std::uint64_t>(target.offset) +
                                                   static_cast<std::uint64_t>(offset))
                       : kAnyOffset,
                 bytes, value);
  }
  if (!elsewhere) return;
  escape(value);
  if (!may_be_object) return;
  // Local memory at an address nobody knows: any local object, where the address itself came from one that is lost.
  if (address.is_top() || space == Space::kLocal) escape(Value::top(0));
  if (memory_.store_wild(bytes, value)) {
    for (std::uint32_t object = 0; object < readers_.size(); ++object) {
      if (memory_.has_escaped(object)) enqueue_readers(object);
    }
  }
}

}  // namespace pergola::analysis
