// Statements, declarations and instructions of a function's body.
#include <unordered_set>

#include "src/ptx/label_scopes.h"
#include "src/ptx/parser_impl.h"

namespace pergola::ptx {

// ---- Registers in scope

bool RegisterScopes::add(std::vector<Entry>& entries, std::string_view name, RegisterId first, std::uint32_t count,
                         bool single) {
  if (!entries.empty() && entries.back().depth == marks_.size()) return false;
  entries.push_back(Entry{sequence_++, marks_.size(), first, count});
  undo_.push_back(Undo{single, std::string(name)});
  return true;
}

void RegisterScopes::close() {
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  for (; undo_.size() > mark; undo_.pop_back()) {
    Table& table = undo_.back().single ? singles_ : ranges_;
    const auto it = table.find(undo_.back().name);
    it->second.pop_back();
    if (it->second.empty()) table.erase(it);
  }
}

RegisterId RegisterScopes::find(std::string_view name) const {
  RegisterId best = kNoRegister;
  std::uint64_t best_sequence = 0;
  if (const auto it = singles_.find(name); it != singles_.end()) {
    best = it->second.back().first;
    best_sequence = it->second.back().sequence;
  }
  // %r12 is element 12 of %r<N>, or element 2 of %r1<N>.
  std::uint64_t index = 0, scale = 1;
  for (std::size_t digits = 1; digits < name.size() && digits <= 10; ++digits, scale *= 10) {
    const char c = name[name.size() - digits];
    if (c < '0' || c > '9') break;
    index += static_cast<std::uint64_t>(c - '0') * scale;
    if (c == '0' && digits > 1) continue;  // no leading zero
    const auto it = ranges_.find(name.substr(0, name.size() - digits));
    if (it == ranges_.end()) continue;
    for (auto entry = it->second.rbegin(); entry != it->second.rend(); ++entry) {
      if (index >= entry->count) continue;
      if (best == kNoRegister || entry->sequence > best_sequence) {
        best = entry->first + static_cast<RegisterId>(index);
        best_sequence = entry->sequence;
      }
      break;
    }
  }
  return best;
}

// ---- Statements

bool Parser::parse_body(Function& function) {
  next();
  function.has_body = true;
  scopes_.open();
  debug_file_ = debug_line_ = caller_file_ = caller_line_ = 0;
  inlined_at_.clear();
  open_scopes_ = 0;
  while (true) {
    if (peek().kind == Token::Kind::kEnd) return fail("'}' at the end of the function");
    if (at("}") && open_scopes_ == 0) {
      next();
      tell_labels_apart(function);
      return true;
    }
    if (!parse_statement()) return false;
  }
}

bool Parser::parse_statement() {
  const Location location = peek().location();
  if (at("{")) {
    if (open_scopes_ == kMaxScopeDepth) return fail("less deeply nested scopes");
    next();
    ++open_scopes_;
    scopes_.open();
    element_sizes_.open();
    push_node(ScopeBegin{}, location);
    return true;
  }
  if (at("}")) {
    next();
    --open_scopes_;
    scopes_.close();
    element_sizes_.close();
    push_node(ScopeEnd{}, location);
    return true;
  }
  if (accept(";")) return true;
  if (peek().kind == Token::Kind::kDotted) return parse_body_directive();
  if (peek().kind == Token::Kind::kIdentifier && at(":", 1)) return parse_labelled();
  return parse_instruction();
}

bool Parser::parse_body_directive() {
  const Location location = peek().location();
  const std::string_view name = word(peek()).substr(1);
  if (name == "reg") return parse_registers();
  if (name == "loc") return parse_loc();
  if (const auto space = declared_space(name)) {
    std::vector<Variable> variables;
    const Token& token = peek();
    if (!parse_variables(*space, Linkage::kNone, location, variables)) return false;
    if (variables.empty()) return fail_at(token, "a variable without named fields inside a function");
    for (Variable& variable : variables) push_node(std::move(variable), location);
    return true;
  }
  for (const std::string_view labelled : {"branchtargets", "calltargets", "callprototype"})
    if (name == labelled) return fail("a label, whose this is, right before it");
  Verbatim verbatim;
  if (name == "section" ? !parse_section(verbatim.text) : !parse_verbatim(verbatim.text)) return false;
  push_node(std::move(verbatim), location);
  return true;
}

// name:  or  name: .branchtargets / .calltargets / .callprototype ... ;
bool Parser::parse_labelled() {
  const Location location = peek().location();
  std::string name(word(next()));
  next();
  if (at_dotted("branchtargets")) {
    next();
    BranchTargets targets{std::move(name), {}};
    if (!parse_name_list(targets.labels)) return false;
    push_node(std::move(targets), location);
    return true;
  }
  if (at_dotted("calltargets")) {
    next();
    CallTargets targets{std::move(name), {}};
    if (!parse_name_list(targets.functions)) return false;
    push_node(std::move(targets), location);
    return true;
  }
  if (at_dotted("callprototype")) {
    next();
    return parse_prototype(std::move(name), location);
  }
  push_node(Label{std::move(name)}, location);
  return true;
}

bool Parser::parse_name_list(std::vector<std::string>& names) {
  do {
    std::string name;
    if (!expect_identifier("a name", name)) return false;
    names.push_back(std::move(name));
  } while (accept(","));
  return expect(";", "',' or ';' after the name");
}

bool Parser::parse_prototype(std::string name, Location location) {
  CallPrototype prototype;
  prototype.name = std::move(name);
  if (at("(") && !parse_parameters(prototype.results, nullptr)) return false;
  std::string placeholder;
  if (!expect_identifier("'_' in the prototype", placeholder)) return false;
  if (at("(") && !parse_parameters(prototype.parameters, nullptr)) return false;
  while (peek().kind == Token::Kind::kDotted) {
    const std::size_t first = position_;
    next();
    if (peek().kind == Token::Kind::kInteger) next();
    if (word(tokens_[first]) == ".noreturn" && position_ == first + 1) {
      prototype.noreturn = true;
    } else {
      prototype.directives.push_back(slice(first, position_));
    }
  }
  if (!expect(";", "';' after the prototype")) return false;
  push_node(std::move(prototype), location);
  return true;
}

// ---- Registers

bool Parser::add_registers(const Token& place, const Register& pattern, std::uint32_t count, bool parameterized,
                           RegisterId& first) {
  if (count > registers_left_) return fail_at(place, "fewer registers, in proportion to the text's length");
  registers_left_ -= count;
  std::vector<Register>& registers = function_->registers;
  first = static_cast<RegisterId>(registers.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    registers.push_back(pattern);
    if (parameterized) registers.back().name += std::to_string(i);
  }
  const bool fresh =
      parameterized ? scopes_.declare_range(pattern.name, first, count) : scopes_.declare(pattern.name, first);
  return fresh || fail_at(place, "a name that this scope gives no register yet");
}

// .reg [.v4] .b32 %r<10>, %a;
bool Parser::parse_registers() {
  const Location location = peek().location();
  next();
  Type type = Type::kNone;
  std::uint8_t vector = 1;
  while (peek().kind == Token::Kind::kDotted) {
    const std::string_view name = word(peek()).substr(1);
    if (name == "v2" || name == "v4") {
      vector = static_cast<std::uint8_t>(name[1] - '0');
    } else if (const auto found = parse_type(name); found && type == Type::kNone) {
      type = *found;
    } else {
      return fail("a register's type");
    }
    next();
  }
  if (type == Type::kNone) return fail("a register's type");
  do {
    if (!parse_register_declarator(type, vector, location)) return false;
  } while (accept(","));
  return expect(";", "',' or ';' after the register");
}

bool Parser::parse_register_declarator(Type type, std::uint8_t vector, Location location) {
  const Token& place = peek();
  std::string name;
  if (!expect_identifier("a register's name", name)) return false;
  RegisterDecl declaration;
  if (accept("<")) {
    const Token& token = peek();
    if (token.kind != Token::Kind::kInteger) return fail("a number of registers");
    Constant count;
    if (!parse_literal(count)) return false;
    if (count.bits > 0xffffffffu || count.bits > registers_left_) {
      return fail_at(token, "fewer registers, in proportion to the text's length");
    }
    // None would leave nothing that knows the declared type.
    if (count.bits == 0) return fail_at(token, "at least one register");
    declaration.count = static_cast<std::uint32_t>(count.bits);
    declaration.parameterized = true;
    declaration.prefix = name;
    if (!expect(">", "'>' after the number of registers")) return false;
  }
  const Register pattern{std::move(name), type, vector};
  if (!add_registers(place, pattern, declaration.count, declaration.parameterized, declaration.first)) return false;
  push_node(std::move(declaration), location);
  return true;
}

// .loc file line column [, function_name label [+ n], inlined_at file line column]
bool Parser::parse_loc() {
  const Location location = peek().location();
  next();
  LocDirective loc;
  if (!expect_u32("a file's index", loc.file) || !expect_u32("a line", loc.line) ||
      !expect_u32("a column", loc.column)) {
    return false;
  }
  caller_file_ = caller_line_ = 0;
  const std::size_t first = position_;
  while (accept(",")) {
    const std::string_view what = word(peek());
    if (what == "function_name") {
      next();
      std::string label;
      if (!expect_identifier("a label", label)) return false;
      std::uint32_t offset = 0;
      if (accept("+") && !expect_u32("an offset", offset)) return false;
    } else if (what == "inlined_at") {
      next();
      std::uint32_t column = 0;
      for (std::uint32_t* number : {&caller_file_, &caller_line_, &column})
        if (!expect_u32("a file, a line and a column", *number)) return false;
    } else {
      return fail("function_name or inlined_at");
    }
  }
  if (caller_file_ != 0) inlined_at_[{loc.file, loc.line}] = {caller_file_, caller_line_};
  // What a file's function calls of the same file is inlined twice: the caller in another file is asked for.
  constexpr int kMostSteps = 8;
  for (int step = 0; step < kMostSteps && caller_file_ == loc.file; ++step) {
    const auto outer = inlined_at_.find({caller_file_, caller_line_});
    if (outer == inlined_at_.end()) break;
    std::tie(caller_file_, caller_line_) = outer->second;
  }
  loc.rest = slice(first, position_);
  debug_file_ = loc.file;
  debug_line_ = loc.line;
  push_node(std::move(loc), location);
  return true;
}

// ---- Instructions

bool Parser::parse_instruction() {
  Instruction instruction;
  instruction.location = peek().location();
  instruction.debug_file = debug_file_;
  instruction.debug_line = debug_line_;
  instruction.caller_file = caller_file_;
  instruction.caller_line = caller_line_;
  const Location location = instruction.location;
  if (accept("@")) {
    instruction.guard.negated = accept("!");
    if (peek().kind != Token::Kind::kIdentifier) return fail("a predicate register");
    instruction.guard.predicate = scopes_.find(word(peek()));
    if (!instruction.guard.present()) return fail("a declared predicate register");
    next();
  }
  const std::size_t first = position_;
  if (peek().kind != Token::Kind::kIdentifier || word(peek())[0] == '%') return fail("an instruction");
  if (parse_opcode(instruction)) {
    if (!parse_operands(instruction)) return false;
  } else if (!parse_opaque(instruction, first)) {
    return false;
  }
  push_node(std::move(instruction), location);
  return true;
}

// False where the root, a modifier or a selector is not known; the instruction is opaque then.
bool Parser::parse_opcode(Instruction& instruction) {
  const auto op = parse_op(word(next()));
  if (!op) return false;
  for (; peek().kind == Token::Kind::kDotted; next()) {
    const auto mod = parse_mod(word(peek()).substr(1));
    if (!mod) return false;
    instruction.mods.push_back(*mod);
  }
  instruction.op = *op;
  return video_lanes(*op) == 0 || !has_selector();
}

// An operand of a SIMD video instruction has a mask or a selector: %r1.b3210, %r2.h10.
bool Parser::has_selector() const {
  for (std::size_t at = position_; tokens_[at].kind != Token::Kind::kEnd && word(tokens_[at]) != ";"; ++at) {
    if (tokens_[at].kind == Token::Kind::kDotted) return true;
  }
  return false;
}

bool Parser::parse_opaque(Instruction& instruction, std::size_t first_token) {
  position_ = first_token;
  instruction.op = Op::kOpaque;
  instruction.mods.clear();
  int braces = 0;
  std::unordered_set<RegisterId> known;
  while (!at(";")) {
    const Token& token = peek();
    if (token.kind == Token::Kind::kEnd || token.kind == Token::Kind::kBad) return fail("';' after the instruction");
    if (at("{")) ++braces;
    if (at("}") && --braces < 0) return fail("';' after the instruction");
    if (token.kind == Token::Kind::kIdentifier && position_ != first_token) {
      const RegisterId id = scopes_.find(word(token));
      if (id != kNoRegister && known.insert(id).second) instruction.text_registers.push_back(id);
    }
    next();
  }
  instruction.text = slice(first_token, position_);
  next();
  return true;
}

bool Parser::parse_operands(Instruction& instruction) {
  op_ = instruction.op;
  if (accept(";")) return true;
  if (instruction.op == Op::kCall) return parse_call_operands(instruction);
  do {
    Operand operand;
    const bool target = (instruction.op == Op::kBra && instruction.operands.empty()) ||
                        (instruction.op == Op::kBrx && instruction.operands.size() == 1);
    if (target) {
      operand.kind = Operand::Kind::kLabel;
      if (!expect_identifier("a label", operand.name)) return false;
    } else if (!parse_operand(operand, 0)) {
      return false;
    }
    instruction.operands.push_back(std::move(operand));
  } while (accept(","));
  return expect(";", "',' or ';' after the operand");
}

// call [(results),] function [, (arguments) [, prototype or targets]];
bool Parser::parse_call_operands(Instruction& instruction) {
  bool function_seen = false;
  do {
    Operand operand;
    if (at("(")) {
      if (!parse_list(operand, Operand::Kind::kTuple, ")", 0)) return false;
    } else if (!function_seen) {
      const Token& name = peek();
      if (name.kind != Token::Kind::kIdentifier) return fail("a function to call");
      if (!parse_name_operand(operand)) return false;
      if (operand.kind == Operand::Kind::kAddress) return fail_at(name, "a function to call");
      function_seen = true;
    } else {
      operand.kind = Operand::Kind::kLabel;
      if (!expect_identifier("a prototype or a list of targets", operand.name)) return false;
    }
    instruction.operands.push_back(std::move(operand));
  } while (accept(","));
  if (!function_seen) return fail("a function to call");
  return expect(";", "',' or ';' after the operand");
}

}  // namespace pergola::ptx
