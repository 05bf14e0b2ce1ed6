// The recursive-descent parser behind parser.h, one class over four files:
//
//   parser.cc           module level: directives, functions' headers
//   parser_body.cc      statements and instructions of a body
//   parser_operand.cc   operands and constant expressions
//   parser_variable.cc  variables, parameters, initialisers
//
// Errors: a parse function returns false after fail(); the first failure is the one reported, and nothing goes on
// after it. Bounds: nesting is limited by the kMax constants below, and what a text may make the parser allocate is
// linear in its length (`%r<4000000000>` is refused).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/ptx/lexer.h"
#include "src/ptx/module.h"

namespace pergola::ptx {

// Registers in scope: name -> id, with shadowing. Parameterised declarations are found by prefix.
class RegisterScopes {
 public:
  void open() { marks_.push_back(undo_.size()); }
  void close();
  // False where the name is declared in this scope already.
  bool declare(std::string_view name, RegisterId id) { return add(singles_[std::string(name)], name, id, 1, true); }
  bool declare_range(std::string_view prefix, RegisterId first, std::uint32_t count) {
    return add(ranges_[std::string(prefix)], prefix, first, count, false);
  }
  // The innermost, latest declaration of `name`; kNoRegister where there is none.
  RegisterId find(std::string_view name) const;

 private:
  struct Entry {
    std::uint64_t sequence;  // later declarations hide earlier ones
    std::size_t depth;       // of scopes; entries of one name are at growing depths
    RegisterId first;
    std::uint32_t count;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Table = std::unordered_map<std::string, std::vector<Entry>, Hash, std::equal_to<>>;
  struct Undo {
    bool single;
    std::string name;
  };
  bool add(std::vector<Entry>& entries, std::string_view name, RegisterId first, std::uint32_t count, bool single);

  Table singles_, ranges_;
  std::vector<Undo> undo_;
  std::vector<std::size_t> marks_;
  std::uint64_t sequence_ = 0;
};

// The bytes of an element of each variable in scope, for name[index], with shadowing.
class ElementSizes {
 public:
  void open() { marks_.push_back(undo_.size()); }
  void close();
  void declare(const std::string& name, std::uint32_t bytes);  // outside of every scope: of the module
  std::optional<std::uint32_t> find(std::string_view name) const;

 private:
  std::unordered_map<std::string, std::uint32_t> bytes_;
  std::vector<std::pair<std::string, std::optional<std::uint32_t>>> undo_;  // what a name was before; none: nothing
  std::vector<std::size_t> marks_;
};

// The value of a constant expression (ISA 4.5).
struct Constant {
  enum class Kind : std::uint8_t { kSigned, kUnsigned, kF32, kF64 };
  Kind kind = Kind::kSigned;
  std::uint64_t bits = 0;  // the integer's, or the IEEE pattern's

  bool is_integer() const { return kind == Kind::kSigned || kind == Kind::kUnsigned; }
  double as_double() const;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view source_name);
  Result<Module> run();

 private:
  static constexpr int kMaxScopeDepth = 256;
  static constexpr int kMaxOperandDepth = 8;
  static constexpr int kMaxExpressionDepth = 64;
  static constexpr int kMaxInitializerDepth = 16;

  // Tokens.
  const Token& peek(std::size_t ahead = 0) const;
  const Token& next();
  std::string_view word(const Token& token) const { return text_.substr(token.offset, token.length); }
  bool at(std::string_view punctuation, std::size_t ahead = 0) const;
  bool at_dotted(std::string_view word, std::size_t ahead = 0) const;
  bool accept(std::string_view punctuation);
  bool expect(std::string_view punctuation, std::string_view what);
  bool expect_identifier(std::string_view what, std::string& name);
  bool expect_u32(std::string_view what, std::uint32_t& value);
  bool fail(std::string_view expected) { return fail_at(peek(), expected); }
  bool fail_at(const Token& token, std::string_view expected);
  std::string slice(std::size_t first_token, std::size_t past_token) const;

  // Module level (parser.cc).
  bool parse_header();
  bool parse_version();
  bool parse_target();
  bool parse_item();
  bool parse_file();
  bool parse_verbatim(std::string& text);
  bool parse_section(std::string& text);
  Linkage parse_linkage();
  bool parse_function(Linkage linkage);
  bool parse_attribute(std::string& text);
  bool parse_parameters(std::vector<Variable>& list, Function* function);
  bool parse_function_directives(Function& function);
  bool parse_function_directive(Function& function, std::string_view name);
  bool parse_three(std::optional<std::array<std::uint32_t, 3>>& value);
  bool parse_one(std::optional<std::uint32_t>& value);

  // Bodies (parser_body.cc).
  bool parse_body(Function& function);
  bool parse_statement();
  bool parse_body_directive();
  bool parse_labelled();
  bool parse_name_list(std::vector<std::string>& names);
  bool parse_prototype(std::string name, Location location);
  bool parse_registers();
  bool parse_register_declarator(Type type, std::uint8_t vector, Location location);
  // `place` is where a failure is reported.
  bool add_registers(const Token& place, const Register& pattern, std::uint32_t count, bool parameterized,
                     RegisterId& first);
  bool parse_loc();
  bool parse_instruction();
  bool parse_opcode(Instruction& instruction);
  bool has_selector() const;
  bool parse_opaque(Instruction& instruction, std::size_t first_token);
  bool parse_operands(Instruction& instruction);
  bool parse_call_operands(Instruction& instruction);
  template <typename Node>
  void push_node(Node node, Location location) {
    function_->body.push_back(Statement{std::move(node), location});
  }

  // Operands (parser_operand.cc).
  bool parse_operand(Operand& operand, int depth);
  bool parse_single_operand(Operand& operand, int depth);
  bool parse_name_operand(Operand& operand);
  bool parse_component(std::int8_t& component);
  bool parse_address(Operand& operand, int depth);
  bool parse_list(Operand& operand, Operand::Kind kind, std::string_view close, int depth);
  bool parse_offset(std::int64_t& offset);
  bool parse_index(Operand& operand);
  bool parse_constant(Constant& value);
  bool parse_binary(Constant& value, int level, int depth);
  bool parse_unary(Constant& value, int depth);
  bool parse_primary(Constant& value, int depth);
  bool parse_literal(Constant& value);
  bool apply(const Token& op, Constant& left, const Constant& right);
  bool at_constant() const;

  // Variables (parser_variable.cc).
  bool parse_variables(Space space, Linkage linkage, Location location, std::vector<Variable>& variables);
  bool parse_qualifiers(Variable& variable);
  bool parse_pointer_qualifiers(Variable& variable);
  bool parse_align(std::uint32_t& bytes);
  bool parse_declarator(Variable& variable);
  bool parse_initializer(Variable& variable);
  bool parse_initializer_level(Variable& variable, std::size_t level, std::size_t base, int depth);
  bool parse_initializer_value(Variable& variable);
  bool parse_symbol_initializer(Initializer& value);
  bool pad_initializers(Variable& variable, std::size_t count);
  std::uint64_t encode(const Constant& value, Type type) const;

  std::string_view text_;
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  Module module_;
  bool failed_ = false;
  Error error_;

  ElementSizes element_sizes_;

  // Of the function being parsed.
  Function* function_ = nullptr;
  RegisterScopes scopes_;
  int open_scopes_ = 0;
  Op op_ = Op::kOpaque;  // of the instruction being parsed
  std::uint32_t debug_file_ = 0, debug_line_ = 0, caller_file_ = 0, caller_line_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> inlined_at_;  // file, line

  // Budgets that bound memory by the length of the text.
  std::uint64_t registers_left_;
  std::uint64_t initializers_left_;
};

// Space of a variable's directive ("global"), empty where the word is none.
std::optional<Space> declared_space(std::string_view word);

}  // namespace pergola::ptx
