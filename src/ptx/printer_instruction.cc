// Instructions and operands as text.
#include <fmt/format.h>

#include <iterator>

#include "src/ptx/printer.h"
#include "src/ptx/printer_impl.h"

namespace pergola::ptx {
namespace {

void append_register(std::string& out, RegisterId id, const Function& function) {
  // A pass's mistake is shown, not hidden; the verifier names it.
  out += id < function.registers.size() ? function.registers[id].name : fmt::format("%invalid_{}", id);
}

void append_operand(std::string& out, const Operand& operand, const Function& function);

template <typename Operands>
void append_list(std::string& out, const Operands& elements, std::string_view separator,
                 const Function& function) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i != 0) out += separator;
    append_operand(out, elements[i], function);
  }
}

void append_component(std::string& out, int component) {
  if (component >= 0 && component < 4) {
    out += '.';
    out += "xyzw"[component];
  }
}

void append_special(std::string& out, const Operand& operand) {
  if (operand.special == Special::kEnvreg || operand.special == Special::kPm) {
    fmt::format_to(std::back_inserter(out), "{}{}", spelling(operand.special), operand.component);
    return;
  }
  out += operand.special == Special::kOther ? std::string_view(operand.name) : spelling(operand.special);
  append_component(out, operand.component);
}

void append_address(std::string& out, const Operand& operand, const Function& function) {
  out += '[';
  for (std::size_t i = 0; i < operand.elements.size(); ++i) {
    if (i != 0) out += ", ";
    append_operand(out, operand.elements[i], function);
    if (i == 0) append_offset(out, operand.offset);
  }
  out += ']';
}

void append_operand(std::string& out, const Operand& operand, const Function& function) {
  if (operand.negated) out += '!';
  switch (operand.kind) {
    case Operand::Kind::kSink: out += '_'; break;
    case Operand::Kind::kRegister:
      append_register(out, operand.reg, function);
      append_component(out, operand.component);
      break;
    case Operand::Kind::kSpecial: append_special(out, operand); break;
    case Operand::Kind::kInteger:
      fmt::format_to(std::back_inserter(out), "{}", static_cast<std::int64_t>(operand.bits));
      break;
    case Operand::Kind::kF32:
      fmt::format_to(std::back_inserter(out), "0f{:08X}", static_cast<std::uint32_t>(operand.bits));
      break;
    case Operand::Kind::kF64: fmt::format_to(std::back_inserter(out), "0d{:016X}", operand.bits); break;
    case Operand::Kind::kSymbol:
      out += operand.name;
      append_offset(out, operand.offset);
      break;
    case Operand::Kind::kLabel: out += operand.name; break;
    case Operand::Kind::kAddress: append_address(out, operand, function); break;
    case Operand::Kind::kVector:
      out += '{';
      append_list(out, operand.elements, ", ", function);
      out += '}';
      break;
    case Operand::Kind::kPair: append_list(out, operand.elements, "|", function); break;
    case Operand::Kind::kTuple:
      out += '(';
      append_list(out, operand.elements, ", ", function);
      out += ')';
      break;
  }
}

}  // namespace

void append_instruction(std::string& out, const Instruction& instruction, const Function& function) {
  if (instruction.guard.present()) {
    out += instruction.guard.negated ? "@!" : "@";
    append_register(out, instruction.guard.predicate, function);
    out += ' ';
  }
  if (instruction.op == Op::kOpaque) {
    out += instruction.text;
    out += ';';
    return;
  }
  out += spelling(instruction.op);
  for (const Mod mod : instruction.mods) {
    out += '.';
    out += spelling(mod);
  }
  if (!instruction.operands.empty()) {
    out += ' ';
    append_list(out, instruction.operands, ", ", function);
  }
  out += ';';
}

std::string print(const Instruction& instruction, const Function& function) {
  std::string out;
  append_instruction(out, instruction, function);
  return out;
}

}  // namespace pergola::ptx
