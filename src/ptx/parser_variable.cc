// Variables, parameters and initialisers (ISA 5.1 to 5.4).
#include <bit>

#include "src/ptx/parser_impl.h"

namespace pergola::ptx {

std::optional<Space> declared_space(std::string_view word) {
  for (const Space space :
       {Space::kReg, Space::kConst, Space::kGlobal, Space::kLocal, Space::kParam, Space::kShared, Space::kTex}) {
    if (word == spelling(space)) return space;
  }
  return std::nullopt;
}

// .space qualifiers name [= value] {, name [= value]} ;
// `variables` stays empty at a sampler with named fields, whose '=' comes next.
bool Parser::parse_variables(Space space, Linkage linkage, Location location, std::vector<Variable>& variables) {
  next();
  Variable common;
  common.space = space;
  common.linkage = linkage;
  common.location = location;
  if (!parse_qualifiers(common)) return false;
  do {
    Variable variable = common;
    if (!parse_declarator(variable)) return false;
    if (at("=")) {
      if (class_of(variable.type) == TypeClass::kOpaque) {
        variables.clear();
        return true;
      }
      if (space == Space::kShared) return fail("';', as variables in .shared have no initial value");
      next();
      if (!parse_initializer(variable)) return false;
    }
    variables.push_back(std::move(variable));
  } while (accept(","));
  return expect(";", "',', '=' or ';' after the variable");
}

// .align N, .attribute(...), .v4, .type, .ptr [.space] [.align N]: in any order, as compilers differ.
bool Parser::parse_qualifiers(Variable& variable) {
  while (peek().kind == Token::Kind::kDotted) {
    const std::string_view name = word(peek()).substr(1);
    if (name == "align") {
      if (!parse_align(variable.align_bytes)) return false;
    } else if (name == "attribute") {
      std::string text;
      if (!parse_attribute(text)) return false;
      variable.attributes.push_back(text.substr(1));
    } else if (name == "v2" || name == "v4" || name == "v8") {
      variable.vector = static_cast<std::uint8_t>(name[1] - '0');
      next();
    } else if (name == "ptr") {
      if (!parse_pointer_qualifiers(variable)) return false;
    } else if (const auto type = parse_type(name); type && variable.type == Type::kNone) {
      variable.type = *type;
      next();
    } else {
      return fail("a variable's type, alignment or name");
    }
  }
  return variable.type != Type::kNone || fail("a variable's type");
}

bool Parser::parse_pointer_qualifiers(Variable& variable) {
  next();
  variable.is_pointer = true;
  if (peek().kind == Token::Kind::kDotted) {
    if (const auto space = declared_space(word(peek()).substr(1))) {
      variable.pointer_space = *space;
      next();
    }
  }
  return !at_dotted("align") || parse_align(variable.pointer_align_bytes);
}

bool Parser::parse_align(std::uint32_t& bytes) {
  next();
  const Token& token = peek();
  if (!expect_u32("an alignment in bytes", bytes)) return false;
  return std::has_single_bit(bytes) || fail_at(token, "an alignment that is a power of two");
}

// ---- Variables in scope

void ElementSizes::declare(const std::string& name, std::uint32_t bytes) {
  if (!marks_.empty()) undo_.emplace_back(name, find(name));
  bytes_[name] = bytes;
}

void ElementSizes::close() {
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  for (; undo_.size() > mark; undo_.pop_back()) {
    auto& [name, before] = undo_.back();
    if (before) {
      bytes_[name] = *before;
    } else {
      bytes_.erase(name);
    }
  }
}

std::optional<std::uint32_t> ElementSizes::find(std::string_view name) const {
  const auto found = bytes_.find(std::string(name));
  return found == bytes_.end() ? std::nullopt : std::optional(found->second);
}

// name {[extent]}
bool Parser::parse_declarator(Variable& variable) {
  if (!expect_identifier("a variable's name", variable.name)) return false;
  while (accept("[")) {
    std::uint64_t extent = 0;
    if (!at("]")) {
      const Token& token = peek();
      Constant value;
      if (!parse_constant(value)) return false;
      if (!value.is_integer() || static_cast<std::int64_t>(value.bits) < 0) return fail_at(token, "an array's extent");
      extent = value.bits;
    }
    variable.extents.push_back(extent);
    if (variable.extents.size() > kMaxInitializerDepth) return fail("an array of fewer dimensions");
    if (!expect("]", "']' after the extent")) return false;
  }
  element_sizes_.declare(variable.name, size_bytes(variable.type) * variable.vector);
  return true;
}

// ---- Initialisers

namespace {

// Whether `variable` has so many elements.
bool holds(const Variable& variable, std::uint64_t values) {
  std::uint64_t left = (values + variable.vector - 1) / variable.vector;  // each extent takes its share
  for (auto extent = variable.extents.rbegin(); extent != variable.extents.rend() && left > 1; ++extent) {
    if (*extent == 0) return false;
    left = (left + *extent - 1) / *extent;
  }
  return left <= 1;
}

}  // namespace

bool Parser::parse_initializer(Variable& variable) {
  if (at("{")) {
    if (!parse_initializer_level(variable, 0, 0, 0)) return false;
  } else if (!parse_initializer_value(variable)) {
    return false;
  }
  // An unsized first extent is as long as what fills it.
  if (!variable.extents.empty() && variable.extents[0] == 0 && !variable.initializers.empty()) {
    std::uint64_t row = variable.vector;
    for (std::size_t i = 1; i < variable.extents.size(); ++i) row *= variable.extents[i];
    if (row != 0) variable.extents[0] = (variable.initializers.size() + row - 1) / row;
  }
  if (!holds(variable, variable.initializers.size())) return fail("no more values than the variable has elements");
  return true;
}

// { value, { value, ... }, ... } at array dimension `level`, whose first element is number `base`.
bool Parser::parse_initializer_level(Variable& variable, std::size_t level, std::size_t base, int depth) {
  if (depth > kMaxInitializerDepth) return fail("less deeply nested braces");
  next();
  std::uint64_t stride = variable.vector;  // elements in one inner brace
  for (std::size_t i = level + 1; i < variable.extents.size(); ++i) {
    if (variable.extents[i] != 0 && stride > initializers_left_ / variable.extents[i]) {
      stride = initializers_left_ + 1;
      break;
    }
    stride *= variable.extents[i];
  }
  std::uint64_t inner = 0;
  while (!at("}")) {
    if (at("{")) {
      const std::uint64_t start = base + inner * stride;
      if (!pad_initializers(variable, start) || !parse_initializer_level(variable, level + 1, start, depth + 1)) {
        return false;
      }
    } else if (!parse_initializer_value(variable)) {
      return false;
    }
    ++inner;
    if (!accept(",")) break;
  }
  return expect("}", "',' or '}' in the initialiser");
}

bool Parser::pad_initializers(Variable& variable, std::size_t count) {
  if (count < variable.initializers.size()) return fail("no more values than the row before holds");
  const std::size_t missing = count - variable.initializers.size();
  if (missing > initializers_left_) return fail("a smaller array");
  initializers_left_ -= missing;
  variable.initializers.resize(count);
  return true;
}

bool Parser::parse_initializer_value(Variable& variable) {
  if (initializers_left_ == 0) return fail("a smaller array");
  --initializers_left_;
  Initializer value;
  const bool mask = peek().kind == Token::Kind::kInteger && at("(", 1);
  const bool name = peek().kind == Token::Kind::kIdentifier && word(peek()) != "WARP_SZ";
  if (mask || name) {
    if (!parse_symbol_initializer(value)) return false;
  } else {
    const Token& token = peek();
    Constant constant;
    if (!parse_constant(constant)) return false;
    if (class_of(variable.type) == TypeClass::kPredicate) return fail_at(token, "no initialiser of a predicate");
    value.bits = encode(constant, variable.type);
  }
  variable.initializers.push_back(std::move(value));
  return true;
}

// name[+n], generic(name)[+n], 0xFF00(name[+n]), 0xFF00(generic(name)[+n])
bool Parser::parse_symbol_initializer(Initializer& value) {
  bool masked = false;
  if (peek().kind == Token::Kind::kInteger) {
    Constant mask;
    if (!parse_literal(mask)) return false;
    value.mask = mask.bits;
    masked = true;
    next();
  }
  value.kind = Initializer::Kind::kSymbol;
  if (!expect_identifier("a symbol", value.symbol)) return false;
  if (value.symbol == "generic" && accept("(")) {
    value.kind = Initializer::Kind::kGenericSymbol;
    std::int64_t inside = 0;
    if (!expect_identifier("a symbol", value.symbol) || !parse_offset(inside) || !expect(")", "')' after the symbol") ||
        !parse_offset(value.offset)) {
      return false;
    }
    value.offset =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(value.offset) + static_cast<std::uint64_t>(inside));
  } else if (!parse_offset(value.offset)) {
    return false;
  }
  return !masked || expect(")", "')' after the symbol");
}

// The constant in the format of the variable's element.
std::uint64_t Parser::encode(const Constant& value, Type type) const {
  std::uint64_t bits = value.bits;
  if (type == Type::kF32) {
    if (value.kind != Constant::Kind::kF32) bits = std::bit_cast<std::uint32_t>(static_cast<float>(value.as_double()));
  } else if (type == Type::kF64) {
    if (value.kind != Constant::Kind::kF64) bits = std::bit_cast<std::uint64_t>(value.as_double());
  }
  const std::uint32_t bytes = size_bytes(type);
  if (bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  return bits;
}

}  // namespace pergola::ptx
