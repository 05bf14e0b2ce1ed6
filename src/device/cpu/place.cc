#include "src/device/cpu/place.h"

#include <fmt/format.h>

namespace pergola::device::cpu {

std::string spell(const ptx::Instruction& i) {
  if (i.op == ptx::Op::kOpaque) return i.text.substr(0, i.text.find_first_of(" \t\n"));
  std::string text(ptx::spelling(i.op));
  for (ptx::Mod mod : i.mods) {
    text += '.';
    text += ptx::spelling(mod);
  }
  return text;
}

std::string where(const ptx::Module& module, const ptx::Instruction& i) {
  if (i.debug_line != 0)
    for (const auto& [index, path] : module.files)
      if (index == i.debug_file) return fmt::format("{}:{}", path, i.debug_line);
  return fmt::format("{}:{}", module.source_name, i.location.line);
}

std::string place_of_line(const ptx::Module& module, std::uint32_t line) {
  if (line == 0) return {};
  for (const ptx::Function* function : module.functions()) {
    for (const ptx::Statement& statement : function->body) {
      const ptx::Instruction* in = statement.instruction();
      if (in != nullptr && in->location.line == line) return fmt::format(" at {} ({})", where(module, *in), spell(*in));
    }
  }
  return fmt::format(" at {}:{}", module.source_name, line);
}

}  // namespace pergola::device::cpu
