// Writes PTX into a function's body: passes say what they add as text, with names in place of registers.
//
//   editor.declare("%pergola_slot", Type::kB32)                      a register of the whole body
//   editor.statements("add.u32 %out, %pergola_slot, 4;", {{"%out", Type::kU32, operand}})
//
// Text may name declared registers, arguments, and registers that it declares itself; those live in a scope of their
// own.
// `#` in a label stands for a number that no other piece of this body has: labels of scopes are flat for analyses.
// The statements are returned, not inserted: a pass builds the new body from the old one in order.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/module.h"

namespace pergola::transform {

using Statements = std::vector<ptx::Statement>;

class BodyEditor {
 public:
  struct Argument {
    std::string_view name;  // "%in", as the text has it
    ptx::Type type;
    ptx::Operand operand;  // what stands for it: a register, a constant, a special register; no vector
  };

  // `function` must outlive the editor; registers are added to it.
  explicit BodyEditor(ptx::Function& function) : function_(function) {}

  // The register of that name, made at the first call. Names start with "%pergola_", which no compiler writes.
  ptx::RegisterId declare(const std::string& name, ptx::Type type);
  // Declarations of all that declare() made, for the head of the body.
  Statements declarations() const;

  // `location` is given to each instruction. kInternal where the text is no PTX: a pass's own mistake.
  Result<Statements> statements(std::string_view text, std::span<const Argument> arguments = {},
                                ptx::Location location = {});

 private:
  std::vector<std::size_t> named_in(std::string_view text) const;

  ptx::Function& function_;
  std::vector<std::pair<std::string, ptx::RegisterId>> declared_;  // in order
  std::unordered_map<std::string, std::size_t> place_;             // of a name in declared_
  unsigned pieces_ = 0;
};

}  // namespace pergola::transform
