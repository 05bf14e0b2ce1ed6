#include "src/transform/inline_body.h"

#include <set>
#include <string>

#include "src/ptx/printer.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;

class Inliner {
 public:
  Inliner(ptx::Function& into, const ptx::Function& body, std::string_view prefix)
      : into_(into), body_(body), prefix_(prefix), base_(static_cast<ptx::RegisterId>(into.registers.size())) {
    for (const ptx::Statement& statement : body.body)
      if (const auto* variable = std::get_if<ptx::Variable>(&statement.node);
          variable != nullptr && variable->space == ptx::Space::kLocal)
        locals_.insert(variable->name);
  }

  Result<Statements> run() {
    if (!body_.parameters.empty() || !body_.results.empty() || body_.is_entry)
      return PERGOLA_ERROR(kInvalidArgument,
                           "'{}' takes parameters or gives results, so it cannot be put where it is called.",
                           body_.name);
    into_.registers.insert(into_.registers.end(), body_.registers.begin(), body_.registers.end());
    Statements out{{ptx::ScopeBegin{}, {}}};
    for (ptx::Statement statement : body_.body) {
      PERGOLA_TRY(rename(statement));
      out.push_back(std::move(statement));
    }
    out.push_back({ptx::Label{end()}, {}});
    out.push_back({ptx::ScopeEnd{}, {}});
    return out;
  }

 private:
  std::string end() const { return prefix_ + "$returned"; }

  Status rename(ptx::Statement& statement) const {
    if (auto* label = std::get_if<ptx::Label>(&statement.node)) label->name = prefix_ + label->name;
    if (auto* declared = std::get_if<ptx::RegisterDecl>(&statement.node)) declared->first += base_;
    if (auto* variable = std::get_if<ptx::Variable>(&statement.node);
        variable != nullptr && locals_.contains(variable->name))
      variable->name = prefix_ + variable->name;
    if (auto* calls = std::get_if<ptx::CallTargets>(&statement.node)) calls->name = prefix_ + calls->name;
    if (auto* prototype = std::get_if<ptx::CallPrototype>(&statement.node)) prototype->name = prefix_ + prototype->name;
    if (auto* targets = std::get_if<ptx::BranchTargets>(&statement.node)) {
      targets->name = prefix_ + targets->name;
      for (std::string& label : targets->labels) label = prefix_ + label;
    }
    Instruction* in = statement.instruction();
    if (in == nullptr) return {};
    if (in->op == Op::kOpaque || in->op == Op::kExit)
      return PERGOLA_ERROR(kInvalidArgument, "'{}' cannot be put where it is called: `{}` {}.", body_.name,
                           ptx::print(*in, body_), in->op == Op::kExit ? "ends the thread" : "is not understood");
    if (in->guard.present()) in->guard.predicate += base_;
    for (Operand& operand : in->operands) rename(operand);
    if (in->op != Op::kRet) return {};
    in->op = Op::kBra;
    in->mods.clear();
    in->operands.push_back(Operand::make_label(end()));
    return {};
  }

  void rename(Operand& operand) const {
    if (operand.kind == Operand::Kind::kRegister) operand.reg += base_;
    if (operand.kind == Operand::Kind::kLabel) operand.name = prefix_ + operand.name;
    if (operand.kind == Operand::Kind::kSymbol && locals_.contains(operand.name)) operand.name = prefix_ + operand.name;
    for (Operand& element : operand.elements) rename(element);
  }

  ptx::Function& into_;
  const ptx::Function& body_;
  const std::string prefix_;
  const ptx::RegisterId base_;
  std::set<std::string> locals_;
};

}  // namespace

Result<Statements> inline_body(ptx::Function& into, const ptx::Function& body, std::string_view prefix) {
  return Inliner(into, body, prefix).run();
}

}  // namespace pergola::transform
