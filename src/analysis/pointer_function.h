// What the pointer analysis needs to know of one function, worked out once however often the function is called:
// which definitions reach which uses, which registers are constants, and what a name means where it stands.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/cfg.h"
#include "src/analysis/reaching.h"
#include "src/ptx/module.h"

namespace pergola::analysis {

// A thing in the function's own memory whose content is tracked: a .local variable, a call's .param, a formal
// parameter or result, or what an alloca makes.
struct LocalObject {
  std::string name;
  std::uint64_t size_bytes = 0;
  ptx::Type type = ptx::Type::kNone;
  bool is_scalar = false;
  bool is_formal = false;  // a parameter or result of the function itself
};

struct FunctionFacts {
  // Refuses what build_cfg() refuses.
  static Result<FunctionFacts> of(const ptx::Function& function);

  const ptx::Function* function = nullptr;
  Cfg cfg;
  std::vector<std::uint32_t> statements;  // reachable instructions, in reverse post-order of their blocks
  std::unique_ptr<ReachingDefinitions> definitions;
  std::vector<std::optional<std::uint64_t>> constants;  // by register: its value where it has one definition
  std::vector<LocalObject> objects;
  // By index of the parameter or result: its object, or its register; each kNoStatement where it is not that.
  std::vector<std::uint32_t> parameter_object, parameter_register, result_object, result_register;
  std::unordered_map<std::uint32_t, std::uint32_t> alloca_object;  // by statement
  std::unordered_map<std::string, const ptx::CallTargets*> call_targets;

  // The tracked object that `name` means at a statement; kNoStatement where the function declares no such name,
  // kSharedName and kOtherName where it declares one that is not tracked.
  static constexpr std::uint32_t kSharedName = kNoStatement - 1, kOtherName = kNoStatement - 2;
  std::uint32_t find_object(std::string_view name, std::uint32_t statement) const;
  const ptx::Instruction& instruction(std::uint32_t statement) const {
    return *function->body[statement].instruction();
  }
  std::optional<std::uint64_t> constant(const ptx::Operand& operand) const;

 private:
  struct Scope {
    std::uint32_t parent = kNoStatement;
    std::unordered_map<std::string, std::uint32_t> objects;  // or kSharedName, kOtherName
  };
  void find_scopes();
  void add_formals();
  void find_constants();
  std::optional<std::uint64_t> fold(const ptx::Instruction& instruction) const;

  std::vector<Scope> scopes_;
  std::vector<std::uint32_t> scope_of_statement_;
};

}  // namespace pergola::analysis
