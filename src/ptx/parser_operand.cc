// Operands (ISA 6) and constant expressions (ISA 4.5), which are folded.
#include <bit>
#include <charconv>

#include "src/ptx/parser_impl.h"

namespace pergola::ptx {
namespace {

constexpr std::int64_t kWarpSize = 32;

// "%envreg7" -> 7, for names of a root and a number; -1 where it is none.
int numbered(std::string_view name, std::string_view root, int limit) {
  if (!name.starts_with(root) || name.size() == root.size() || name.size() > root.size() + 2) return -1;
  int value = 0;
  for (const char c : name.substr(root.size())) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  const bool leading_zero = name.size() == root.size() + 2 && name[root.size()] == '0';
  return value < limit && !leading_zero ? value : -1;
}

}  // namespace

// ---- Operands

// operand [ | operand ]
bool Parser::parse_operand(Operand& operand, int depth) {
  if (!parse_single_operand(operand, depth)) return false;
  if (!at("|")) return true;
  next();
  Operand pair;
  pair.kind = Operand::Kind::kPair;
  pair.elements.push_back(std::move(operand));
  pair.elements.emplace_back();
  if (!parse_single_operand(pair.elements[1], depth + 1)) return false;
  operand = std::move(pair);
  return true;
}

bool Parser::at_constant() const {
  switch (peek().kind) {
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
    case Token::Kind::kF32:
    case Token::Kind::kF64: return true;
    case Token::Kind::kDotted: return word(peek())[1] >= '0' && word(peek())[1] <= '9';  // .5
    case Token::Kind::kIdentifier: return word(peek()) == "WARP_SZ";
    case Token::Kind::kPunctuation: return at("-") || at("+") || at("~") || at("(") || at("!");
    default: return false;
  }
}

bool Parser::parse_single_operand(Operand& operand, int depth) {
  if (depth > kMaxOperandDepth) return fail("less deeply nested operands");
  if (at("{")) return parse_list(operand, Operand::Kind::kVector, "}", depth);
  if (at("[")) return parse_address(operand, depth);
  if (at("!") && peek(1).kind == Token::Kind::kIdentifier && word(peek(1)) != "WARP_SZ") {
    next();
    const Token& name = peek();
    if (!parse_name_operand(operand)) return false;
    if (operand.kind == Operand::Kind::kAddress) return fail_at(name, "a predicate after '!'");
    operand.negated = true;
    return true;
  }
  if (at_constant()) {
    Constant value;
    if (!parse_constant(value)) return false;
    operand.kind = value.is_integer()                    ? Operand::Kind::kInteger
                   : value.kind == Constant::Kind::kF32 ? Operand::Kind::kF32
                                                         : Operand::Kind::kF64;
    operand.bits = value.bits;
    return true;
  }
  if (peek().kind != Token::Kind::kIdentifier) return fail("an operand");
  return parse_name_operand(operand);
}

// Registers hide special registers, which hide variables and functions.
bool Parser::parse_name_operand(Operand& operand) {
  const std::string_view name = word(next());
  if (name == "_") {
    operand.kind = Operand::Kind::kSink;
    return true;
  }
  if (const RegisterId id = scopes_.find(name); id != kNoRegister) {
    operand.kind = Operand::Kind::kRegister;
    operand.reg = id;
    return parse_component(operand.component);
  }
  if (name[0] != '%' || element_sizes_.find(name)) {
    operand.kind = Operand::Kind::kSymbol;
    operand.name = std::string(name);
    return at("[") ? parse_index(operand) : parse_offset(operand.offset);
  }
  operand.kind = Operand::Kind::kSpecial;
  if (const int envreg = numbered(name, "%envreg", 32); envreg >= 0) {
    operand.special = Special::kEnvreg;
    operand.component = static_cast<std::int8_t>(envreg);
    return true;
  }
  if (const int pm = numbered(name, "%pm", 8); pm >= 0) {
    operand.special = Special::kPm;
    operand.component = static_cast<std::int8_t>(pm);
    return true;
  }
  const auto special = parse_special(name);
  if (special && *special != Special::kEnvreg && *special != Special::kPm) {
    operand.special = *special;
  } else {
    operand.special = Special::kOther;
    operand.name = std::string(name);
  }
  return parse_component(operand.component);
}

bool Parser::parse_component(std::int8_t& component) {
  if (peek().kind != Token::Kind::kDotted) return true;
  const std::string_view name = word(peek()).substr(1);
  const std::size_t xyzw = std::string_view("xyzw").find(name);
  const std::size_t rgba = std::string_view("rgba").find(name);
  if (name.size() != 1 || (xyzw == std::string_view::npos && rgba == std::string_view::npos)) {
    return fail("a component .x, .y, .z or .w");
  }
  component = static_cast<std::int8_t>(xyzw == std::string_view::npos ? rgba : xyzw);
  next();
  return true;
}

// [ + n | - n ] after a name
bool Parser::parse_offset(std::int64_t& offset) {
  if (!at("+") && !at("-")) return true;
  if (at("+")) next();
  const Token& token = peek();
  Constant value;
  if (!parse_constant(value)) return false;
  if (!value.is_integer()) return fail_at(token, "an integer offset");
  offset = static_cast<std::int64_t>(value.bits);
  return true;
}

// name[index]: mov takes its address, the others access it (ISA 6.4.2).
bool Parser::parse_index(Operand& operand) {
  const std::optional<std::uint32_t> element_bytes = element_sizes_.find(operand.name);
  if (!element_bytes) return fail("an array declared before it is indexed");
  next();
  const Token& token = peek();
  Constant index;
  if (!parse_constant(index)) return false;
  if (!index.is_integer()) return fail_at(token, "an integer index");
  const auto offset = static_cast<std::int64_t>(index.bits * *element_bytes);
  if (op_ == Op::kMov || op_ == Op::kCvta) {
    operand.offset = offset;
  } else {
    operand = Operand::make_address(Operand::make_symbol(operand.name), offset);
  }
  return expect("]", "']' after the index");
}

// [ base [+ offset] {, part} ]
bool Parser::parse_address(Operand& operand, int depth) {
  next();
  operand.kind = Operand::Kind::kAddress;
  Operand base;
  if (!parse_single_operand(base, depth + 1)) return false;
  if (base.kind == Operand::Kind::kSymbol) {
    operand.offset = base.offset;
    base.offset = 0;
  } else if (base.kind == Operand::Kind::kRegister && !parse_offset(operand.offset)) {
    return false;
  }
  operand.elements.push_back(std::move(base));
  while (accept(",")) {
    Operand part;
    if (!parse_operand(part, depth + 1)) return false;
    operand.elements.push_back(std::move(part));
  }
  return expect("]", "',' or ']' in the address");
}

bool Parser::parse_list(Operand& operand, Operand::Kind kind, std::string_view close, int depth) {
  next();
  operand.kind = kind;
  if (accept(close)) return true;
  do {
    Operand element;
    if (!parse_operand(element, depth + 1)) return false;
    operand.elements.push_back(std::move(element));
  } while (accept(","));
  return expect(close, kind == Operand::Kind::kTuple ? "',' or ')'" : "',' or '}'");
}

// ---- Constant expressions

double Constant::as_double() const {
  switch (kind) {
    case Kind::kSigned: return static_cast<double>(static_cast<std::int64_t>(bits));
    case Kind::kUnsigned: return static_cast<double>(bits);
    case Kind::kF32: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case Kind::kF64: return std::bit_cast<double>(bits);
  }
  return 0;
}

namespace {

struct Level {
  std::string_view operators[4];
};
// C's precedence, loosest first.
constexpr Level kLevels[] = {{{"||"}},       {{"&&"}},                 {{"|"}},        {{"^"}},      {{"&"}},
                             {{"==", "!="}}, {{"<", "<=", ">", ">="}}, {{"<<", ">>"}}, {{"+", "-"}}, {{"*", "/", "%"}}};

Constant make_double(double value) { return Constant{Constant::Kind::kF64, std::bit_cast<std::uint64_t>(value)}; }
Constant make_bool(bool value) { return Constant{Constant::Kind::kSigned, value ? 1u : 0u}; }

void negate(Constant& value) {
  switch (value.kind) {
    case Constant::Kind::kSigned:
    case Constant::Kind::kUnsigned: value.bits = std::uint64_t{0} - value.bits; break;
    case Constant::Kind::kF32: value.bits ^= 0x80000000u; break;
    case Constant::Kind::kF64: value.bits ^= std::uint64_t{1} << 63; break;
  }
}

}  // namespace

bool Parser::parse_constant(Constant& value) { return parse_binary(value, -1, 0); }

// level -1 is the conditional operator.
bool Parser::parse_binary(Constant& value, int level, int depth) {
  if (depth > kMaxExpressionDepth) return fail("a less deeply nested expression");
  if (level == std::ssize(kLevels)) return parse_unary(value, depth);
  if (!parse_binary(value, level + 1, depth)) return false;
  if (level < 0) {
    const Token& question = peek();
    if (!accept("?")) return true;
    if (!value.is_integer()) return fail_at(question, "an integer before '?'");
    Constant yes, no;
    if (!parse_binary(yes, -1, depth + 1) || !expect(":", "':' in the expression") ||
        !parse_binary(no, -1, depth + 1)) {
      return false;
    }
    value = value.bits != 0 ? yes : no;
    return true;
  }
  while (true) {
    const Token& op = peek();
    bool found = false;
    for (const std::string_view each : kLevels[level].operators) found |= !each.empty() && at(each);
    if (!found) return true;
    next();
    Constant right;
    if (!parse_binary(right, level + 1, depth) || !apply(op, value, right)) return false;
  }
}

bool Parser::apply(const Token& op, Constant& left, const Constant& right) {
  const std::string_view name = word(op);
  if (!left.is_integer() || !right.is_integer()) {
    const double a = left.as_double(), b = right.as_double();
    if (name == "+") return left = make_double(a + b), true;
    if (name == "-") return left = make_double(a - b), true;
    if (name == "*") return left = make_double(a * b), true;
    if (name == "/") return left = make_double(a / b), true;
    return fail_at(op, "an operator for floating point");
  }
  const std::uint64_t a = left.bits, b = right.bits;
  const bool is_unsigned = left.kind == Constant::Kind::kUnsigned || right.kind == Constant::Kind::kUnsigned;
  const auto sa = static_cast<std::int64_t>(a), sb = static_cast<std::int64_t>(b);
  if (name == "||") return left = make_bool(a != 0 || b != 0), true;
  if (name == "&&") return left = make_bool(a != 0 && b != 0), true;
  if (name == "==") return left = make_bool(a == b), true;
  if (name == "!=") return left = make_bool(a != b), true;
  if (name == "<") return left = make_bool(is_unsigned ? a < b : sa < sb), true;
  if (name == "<=") return left = make_bool(is_unsigned ? a <= b : sa <= sb), true;
  if (name == ">") return left = make_bool(is_unsigned ? a > b : sa > sb), true;
  if (name == ">=") return left = make_bool(is_unsigned ? a >= b : sa >= sb), true;
  if (name == "<<") {
    left.bits = b > 63 ? 0 : a << b;
    return true;
  }
  if (name == ">>") {
    const std::uint64_t shift = b > 63 ? 63 : b;
    left.bits = left.kind == Constant::Kind::kSigned ? static_cast<std::uint64_t>(sa >> shift)
                                                     : (b > 63 ? 0 : a >> shift);
    return true;
  }
  left.kind = is_unsigned ? Constant::Kind::kUnsigned : Constant::Kind::kSigned;
  if (name == "|") return left.bits = a | b, true;
  if (name == "^") return left.bits = a ^ b, true;
  if (name == "&") return left.bits = a & b, true;
  if (name == "+") return left.bits = a + b, true;
  if (name == "-") return left.bits = a - b, true;
  if (name == "*") return left.bits = a * b, true;
  if (b == 0) return fail_at(op, "a divisor other than zero");
  if (is_unsigned) {
    left.bits = name == "/" ? a / b : a % b;
  } else if (sb == -1) {  // INT64_MIN / -1 overflows
    left.bits = name == "/" ? std::uint64_t{0} - a : 0;
  } else {
    left.bits = static_cast<std::uint64_t>(name == "/" ? sa / sb : sa % sb);
  }
  return true;
}

bool Parser::parse_unary(Constant& value, int depth) {
  if (depth > kMaxExpressionDepth) return fail("a less deeply nested expression");
  const Token& op = peek();
  if (accept("-")) {
    if (!parse_unary(value, depth + 1)) return false;
    negate(value);
    return true;
  }
  if (accept("+")) return parse_unary(value, depth + 1);
  if (accept("~") || accept("!")) {
    const bool invert = word(op) == "~";
    if (!parse_unary(value, depth + 1)) return false;
    if (!value.is_integer()) return fail_at(op, "an operator for floating point");
    if (invert) {
      value.bits = ~value.bits;
    } else {
      value = make_bool(value.bits == 0);
    }
    return true;
  }
  return parse_primary(value, depth);
}

bool Parser::parse_primary(Constant& value, int depth) {
  if (at("(")) {
    // (.s64) and (.u64) are casts; anything else in parentheses is an expression.
    next();
    if (at_dotted("s64") || at_dotted("u64")) {
      const bool to_signed = at_dotted("s64");
      next();
      if (!expect(")", "')' after the cast") || !parse_unary(value, depth + 1)) return false;
      if (!value.is_integer()) return fail("an integer to cast");
      value.kind = to_signed ? Constant::Kind::kSigned : Constant::Kind::kUnsigned;
      return true;
    }
    return parse_binary(value, -1, depth + 1) && expect(")", "')' in the expression");
  }
  if (peek().kind == Token::Kind::kIdentifier && word(peek()) == "WARP_SZ") {
    next();
    value = Constant{Constant::Kind::kSigned, static_cast<std::uint64_t>(kWarpSize)};
    return true;
  }
  return parse_literal(value);
}

bool Parser::parse_literal(Constant& value) {
  const Token& token = peek();
  std::string_view digits = word(token);
  if (token.kind == Token::Kind::kF32 || token.kind == Token::Kind::kF64) {
    value.kind = token.kind == Token::Kind::kF32 ? Constant::Kind::kF32 : Constant::Kind::kF64;
    std::from_chars(digits.data() + 2, digits.data() + digits.size(), value.bits, 16);
    next();
    return true;
  }
  if (token.kind == Token::Kind::kFloat || token.kind == Token::Kind::kDotted) {
    double number = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
      return fail("a number that a double can hold");
    }
    value = make_double(number);
    next();
    return true;
  }
  if (token.kind != Token::Kind::kInteger) return fail("a constant");
  const bool suffix = digits.back() == 'U' || digits.back() == 'u';
  if (suffix) digits.remove_suffix(1);
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char marker = static_cast<char>(digits[1] | 0x20);
    base = marker == 'x' ? 16 : marker == 'b' ? 2 : 8;
    digits.remove_prefix(base == 8 ? 1 : 2);
  }
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value.bits, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    return fail("an integer of 64 bits");
  }
  const bool is_unsigned = suffix || value.bits > 0x7fffffffffffffffu;
  value.kind = is_unsigned ? Constant::Kind::kUnsigned : Constant::Kind::kSigned;
  next();
  return true;
}

}  // namespace pergola::ptx
