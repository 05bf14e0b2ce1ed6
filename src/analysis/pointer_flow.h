// The dataflow behind pointer_modes: what every register of a kernel and of the functions it calls may point at.
//
// A function is analysed once for each chain of calls that leads to it (an *instance*), so that what two callers pass
// does not mix; recursion, and programs beyond kMaxInstances, share one instance a function. An instance has a Value
// for every definition of a register and objects for its stack and call parameters (pointer_memory.h). A worklist of
// (instance, statement) is drained to the least fixpoint; users of a definition and readers of an object are queued
// again when it grows.
//
// It runs twice: the second run knows from the first which registers hold pointers at all, and so that the bare
// integer a pointer is joined with is a null (Value::assume_not_null).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/analysis/pointer_function.h"
#include "src/analysis/pointer_memory.h"

namespace pergola::analysis {

class PointerFlow {
 public:
  using InstanceId = std::uint32_t;

  // A place in the kernel's parameters: 8 bytes at `offset` of parameter `parameter`; kAnyOffset: any 8 of them.
  struct ParameterPlace {
    std::uint32_t parameter = 0;
    std::int64_t offset = 0;
    auto operator<=>(const ParameterPlace&) const = default;
  };
  struct Site {  // a statement of an instance
    InstanceId instance = 0;
    std::uint32_t statement = 0;
    auto operator<=>(const Site&) const = default;
  };
  struct Call {
    std::vector<const ptx::Function*> targets;  // with a body in this module
    std::vector<const ptx::Function*> externs;  // without one
    std::string unknown;                        // why there may be other targets; empty where there are none
    const ptx::Operand* results = nullptr;
    const ptx::Operand* arguments = nullptr;
  };

  PointerFlow(const ptx::Module& module, const ptx::Function& entry) : module_(module), entry_(entry) {}

  // Errors are those of build_cfg(). Runs once.
  Status run();

  std::size_t instance_count() const { return instances_.size(); }
  const FunctionFacts& facts(InstanceId id) const { return *instances_[id].facts; }
  // What an operand may hold where `site` reads it; for an address, what it may point at.
  Value value(Site site, const ptx::Operand& operand) const;
  Call call(Site site) const;
  // The instance of `target` that the call at `site` enters; kNowhere where none was made.
  InstanceId callee(Site site, const ptx::Function& target) const;
  const PointerMemory& memory() const { return memory_; }
  const ParameterPlace& parameter_place(std::uint32_t index) const { return places_[index]; }
  const ptx::Variable& variable(std::uint32_t index) const { return *variables_[index]; }
  // Where the address that an unknown contribution stands for came from; the instance is kNowhere where it is lost.
  Site origin(std::uint32_t index) const { return origins_[index]; }
  static constexpr std::uint32_t kNowhere = ~0u;

  // What a declared function is known to do: nothing at all, or nothing but with what its arguments from
  // `first_pointer` on point at.
  struct Extern {
    enum class Kind : std::uint8_t { kUnknown, kPure, kWrites, kReads, kPrintf, kAllocates } kind = Kind::kUnknown;
    std::size_t first_pointer = 0;
  };
  static Extern classify(const ptx::Function& function);
  // What an argument of a call holds; for a .param variable everything in it, joined.
  Value argument(Site site, const ptx::Operand& operand) const;
  // The tracked object that an operand of a call names; kNoStatement where it names none.
  std::uint32_t object_of(Site site, const ptx::Operand& operand) const;

 private:
  struct Instance {
    const FunctionFacts* facts = nullptr;
    std::set<const ptx::Function*> chain;  // the functions above it and itself
    bool is_shared = false;
    std::uint32_t first_object = 0;        // its objects are numbered from here
    std::vector<Value> values;             // by definition
    std::vector<bool> is_pointer;          // of the first run, by definition
    std::vector<bool> queued;              // by statement
    std::map<std::pair<std::uint32_t, const ptx::Function*>, InstanceId> callees;
  };
  static constexpr std::size_t kMaxInstances = 1024;
  static constexpr std::size_t kMaxDefinitions = std::size_t{1} << 20;  // of all instances that are not shared

  // pointer_flow.cc
  Result<InstanceId> make_instance(const ptx::Function& function, const Instance* caller);
  Result<const FunctionFacts*> facts_of(const ptx::Function& function);
  Status drain();
  bool settle_undefined();
  void restart();
  void enqueue(Site site);
  void enqueue_users(InstanceId instance, DefinitionId id);
  void enqueue_readers(std::uint32_t object);
  void define(Site site, DefinitionId id, const Value& value);
  void assign(Site site, const ptx::Operand& operand, const Value& value);
  void escape(const Value& value);
  Value symbol(Site site, const std::string& name, std::int64_t offset) const;
  Value load(Site site, const Value& address, ptx::Space space, std::int64_t offset, ptx::Type type);
  Value load_parameter(std::uint32_t object, std::int64_t offset, ptx::Type type, std::uint32_t bytes) const;
  Value load_field(std::uint32_t parameter, std::int64_t offset, ptx::Type type, std::uint32_t bytes) const;
  void store(const Value& address, ptx::Space space, std::int64_t offset, std::uint32_t bytes, const Value& value);
  void store_object(std::uint32_t object, std::int64_t offset, std::uint32_t bytes, const Value& value);
  std::uint32_t place(ParameterPlace place) const;
  std::uint32_t origin_of(Site site) const;

  // pointer_transfer.cc
  Status evaluate(Site site);
  void evaluate_opaque(Site site, const ptx::Instruction& instruction);
  void evaluate_load(Site site, const ptx::Instruction& instruction);
  void evaluate_store(Site site, const ptx::Instruction& instruction);
  void evaluate_atomic(Site site, const ptx::Instruction& instruction);
  void evaluate_move(Site site, const ptx::Instruction& instruction);
  Value convert(Site site, const ptx::Instruction& instruction) const;
  Value product(Site site, const ptx::Instruction& instruction) const;
  Value sum(Site site, const ptx::Instruction& instruction, bool subtracts) const;
  Value arithmetic(Site site, const ptx::Instruction& instruction) const;
  Value mixed(Site site, const ptx::Instruction& instruction, Value::Mix kind) const;

  // pointer_calls.cc
  Status evaluate_call(Site site);
  Status enter(Site site, const Call& call, const ptx::Function& target);
  void call_unknown(Site site, const Call& call);
  void call_extern(Site site, const Call& call, const ptx::Function& target);
  void set_result(Site site, const ptx::Operand& operand, const Value& value);

  const ptx::Module& module_;
  const ptx::Function& entry_;
  std::map<const ptx::Function*, std::unique_ptr<FunctionFacts>> facts_;
  std::map<const ptx::Function*, InstanceId> shared_;
  std::deque<Instance> instances_;  // references stay good
  std::size_t definition_count_ = 0;
  std::vector<std::uint64_t> parameter_begin_;  // bytes into the parameter buffer
  PointerMemory memory_;
  mutable std::vector<std::set<Site>> readers_;                           // by object
  mutable std::vector<ParameterPlace> places_;                            // interned
  mutable std::map<ParameterPlace, std::uint32_t> place_index_;
  mutable std::vector<Site> origins_;                                     // interned
  mutable std::map<Site, std::uint32_t> origin_index_;
  std::vector<const ptx::Variable*> variables_;
  std::map<std::string, std::uint32_t, std::less<>> variable_index_;
  std::map<std::string, std::uint32_t, std::less<>> module_local_;        // module-scope .local variables: objects
  std::vector<const ptx::Function*> functions_;
  std::map<std::string, std::uint32_t, std::less<>> function_index_;
  std::map<InstanceId, std::set<Site>> result_users_;                     // calls that take a .reg result
  std::deque<Site> work_;
};

}  // namespace pergola::analysis
