// Which names in the body of an entry mean its parameters: a variable of the body hides one of the same name as long as
// its scope is open. For passes that put parameters elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/ptx/module.h"
#include "src/ptx/signature.h"

namespace pergola::transform {

// Thread-compatible.
class ParameterNames {
 public:
  explicit ParameterNames(const ptx::KernelSignature& signature);

  // Told of every statement of the body in order, before it is asked about it.
  void pass(const ptx::Statement& statement);
  // The parameter's offset in the launch's; null where the name is none of its parameters' here.
  const std::uint32_t* offset(const std::string& name) const;
  bool is_in(const ptx::Operand& operand) const;
  bool is_in(const ptx::Instruction& instruction) const;
  // Of an instruction that is not understood: whether it mentions one, or .param at all.
  bool is_in_text(std::string_view text) const;

 private:
  std::unordered_map<std::string, std::uint32_t> offsets_;
  std::vector<std::vector<std::string>> hidden_{1};  // by open scope, the variables of the body
};

}  // namespace pergola::transform
