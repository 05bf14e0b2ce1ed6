#include "src/device/cpu/place.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/ptx/source_place.h"

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
  return ptx::source_place(module, i);
}

std::string where_with_ptx(const ptx::Module& module, const ptx::Instruction& i) {
  const std::string ptx = fmt::format("{}:{}:{}", module.source_name, i.location.line, i.location.column);
  return i.debug_line == 0 ? ptx : fmt::format("{} ({})", where(module, i), ptx);
}

const ptx::Instruction* instruction_at(const ptx::Module& module, PtxPlace place) {
  std::uint32_t number = std::max(place.number, 1u);
  for (const ptx::Function* function : module.functions()) {
    for (const ptx::Statement& statement : function->body) {
      const ptx::Instruction* in = statement.instruction();
      if (in != nullptr && place.line != 0 && in->location.line == place.line && --number == 0) return in;
    }
  }
  return nullptr;
}

std::string describe_place(const ptx::Module& module, PtxPlace place) {
  if (place.line == 0) return {};
  const ptx::Instruction* in = instruction_at(module, place);
  if (in != nullptr) return fmt::format(" at {} ({})", where(module, *in), spell(*in));
  return fmt::format(" at {}:{}", module.source_name, place.line);
}

bool are_of_one_line(const ptx::Instruction& a, const ptx::Instruction& b) {
  return &a == &b || (a.debug_line == b.debug_line && a.debug_file == b.debug_file && a.debug_line != 0);
}

std::uint32_t access_bytes(const ptx::Instruction& i) {
  switch (i.op) {
    case ptx::Op::kLd:
    case ptx::Op::kLdu:
    case ptx::Op::kSt:
    case ptx::Op::kAtom:
    case ptx::Op::kRed: return ptx::size_bytes(i.type()) * static_cast<std::uint32_t>(i.vector_width());
    case ptx::Op::kCp: {  // cp.async [to], [from], bytes
      const bool copies = i.operands.size() >= 3 && i.operands[2].kind == ptx::Operand::Kind::kInteger;
      return copies ? static_cast<std::uint32_t>(i.operands[2].bits) : 0;
    }
    default: return 0;
  }
}

}  // namespace pergola::device::cpu
