// What the verifier's files share: the rules of operands, apart from the names and scopes of a body.
#pragma once

#include <optional>
#include <string>

#include "src/ptx/module.h"

namespace pergola::ptx {

// What is wrong with the operands of `instruction`, as "expected X, found Y"; empty where nothing is. Every RegisterId
// in it must already be known to index `function.registers`. Opaque instructions are not judged.
std::optional<std::string> check_operands(const Instruction& instruction, const Function& function);

}  // namespace pergola::ptx
