// Parses a piece of text as the body of a function of its own and moves it over, register by register.
#include "src/transform/body_editor.h"

#include <algorithm>
#include <cctype>

#include "src/ptx/parser.h"

namespace pergola::transform {
namespace {

using ptx::Operand;
using ptx::RegisterId;

// What each register of the parsed piece is in the function.
struct Mapping {
  std::vector<Operand> of;

  void apply(Operand& operand) const {
    for (Operand& element : operand.elements) apply(element);
    if (operand.kind != Operand::Kind::kRegister) return;
    const bool negated = operand.negated;
    Operand replaced = of[operand.reg];
    replaced.negated = replaced.negated != negated;
    operand = std::move(replaced);
  }

  Status apply(ptx::Guard& guard) const {
    if (!guard.present()) return {};
    const Operand& replaced = of[guard.predicate];
    if (replaced.kind != Operand::Kind::kRegister)
      return PERGOLA_ERROR(kInternal, "A piece of PTX is guarded by what is no register.");
    guard = {replaced.reg, guard.negated != replaced.negated};
    return {};
  }
};

std::string with_number(std::string_view text, unsigned number) {
  std::string out;
  for (const char c : text) {
    if (c == '#')
      out += std::to_string(number);
    else
      out += c;
  }
  return out;
}

}  // namespace

RegisterId BodyEditor::declare(const std::string& name, ptx::Type type) {
  if (const auto found = place_.find(name); found != place_.end()) return declared_[found->second].second;
  const auto id = static_cast<RegisterId>(function_.registers.size());
  function_.registers.push_back({name, type, 1});
  place_.emplace(name, declared_.size());
  declared_.emplace_back(name, id);
  return id;
}

Statements BodyEditor::declarations() const {
  Statements out;
  for (const auto& [name, id] : declared_) out.push_back({ptx::RegisterDecl{id, 1, false, {}}, {}});
  return out;
}

// Which declared registers the text names: a body may have thousands of others.
std::vector<std::size_t> BodyEditor::named_in(std::string_view text) const {
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
  };
  std::vector<std::size_t> named;
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at) + 1, text.end(), is_of_name);
    const auto found = place_.find(std::string(text.begin() + static_cast<std::ptrdiff_t>(at), end));
    if (found != place_.end() && std::find(named.begin(), named.end(), found->second) == named.end())
      named.push_back(found->second);
  }
  return named;
}

Result<Statements> BodyEditor::statements(std::string_view text, std::span<const Argument> arguments,
                                          ptx::Location location) {
  std::string module = ".version 8.0\n.target sm_90\n.address_size 64\n.func piece()\n{\n";
  Mapping mapping;
  for (const std::size_t place : named_in(text)) {
    const auto& [name, id] = declared_[place];
    module += fmt::format(".reg .{} {};\n", ptx::spelling(function_.registers[id].type), name);
    mapping.of.push_back(Operand::make_register(id));
  }
  for (const Argument& argument : arguments) {
    module += fmt::format(".reg .{} {};\n", ptx::spelling(argument.type), argument.name);
    mapping.of.push_back(argument.operand);
  }
  const std::size_t given = mapping.of.size();
  module += with_number(text, pieces_++) + "\n}\n";
  auto parsed = ptx::parse(module, "<pass>");
  if (!parsed) return PERGOLA_ERROR(kInternal, "A pass wrote what is no PTX: {}\n{}", parsed.message(), text);
  ptx::Function& piece = std::get<ptx::Function>(parsed->items.at(0).node);

  const auto base = static_cast<RegisterId>(function_.registers.size() - given);
  for (std::size_t n = given; n < piece.registers.size(); ++n) {
    function_.registers.push_back(piece.registers[n]);
    mapping.of.push_back(Operand::make_register(base + static_cast<RegisterId>(n)));
  }
  const bool scoped = piece.registers.size() > given;
  Statements out;
  if (scoped) out.push_back({ptx::ScopeBegin{}, location});
  for (ptx::Statement& statement : piece.body) {
    statement.location = location;
    if (auto* declaration = std::get_if<ptx::RegisterDecl>(&statement.node)) {
      if (declaration->first < given) continue;
      declaration->first += base;
    } else if (ptx::Instruction* instruction = statement.instruction()) {
      if (instruction->op == ptx::Op::kOpaque)
        return PERGOLA_ERROR(kInternal, "A pass wrote PTX that is not understood: {}", instruction->text);
      instruction->location = location;
      PERGOLA_TRY(mapping.apply(instruction->guard));
      for (Operand& operand : instruction->operands) mapping.apply(operand);
    }
    out.push_back(std::move(statement));
  }
  if (scoped) out.push_back({ptx::ScopeEnd{}, location});
  return out;
}

}  // namespace pergola::transform
