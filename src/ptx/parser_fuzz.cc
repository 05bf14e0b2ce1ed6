// Any bytes: the parser answers or refuses; what it accepts prints and parses back equal; what reads a module never
// crashes on one.
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"
#include "src/ptx/signature.h"
#include "src/ptx/verifier.h"

namespace {

void read_everything(const pergola::ptx::Module& module) {
  using namespace pergola::ptx;
  (void)verify(module).ok();
  for (const Function* function : module.functions()) {
    if (function->is_entry) (void)signature(module, *function).ok();
    for (const Statement& statement : function->body) {
      const Instruction* instruction = statement.instruction();
      if (instruction == nullptr) continue;
      for (std::size_t i = 0; i < instruction->operands.size(); ++i) {
        (void)role(*instruction, i);
        (void)operand_type(*instruction, i);
      }
      for_each_register(*instruction, [&](RegisterId id, bool) { PERGOLA_CHECK(id < function->registers.size()); });
      (void)memory_effect(*instruction);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto module = pergola::ptx::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!module.ok()) {
    PERGOLA_CHECK(module.code() == pergola::Code::kParseError);
    return 0;
  }
  const auto again = pergola::ptx::parse(pergola::ptx::print(*module));
  PERGOLA_CHECK(again.ok());
  PERGOLA_CHECK(*module == *again);
  read_everything(*module);
  return 0;
}
