#include "src/ptx/parser.h"

#include "src/ptx/parser_impl.h"

namespace pergola::ptx {

Result<Module> parse(std::string_view text, std::string_view source_name) {
  if (text.size() >= std::size_t{1} << 31) {
    return PERGOLA_ERROR(kParseError, "{}:1:1: expected less than 2 GiB of PTX, found {} bytes", source_name,
                         text.size());
  }
  return Parser(text, source_name).run();
}

Parser::Parser(std::string_view text, std::string_view source_name)
    : text_(text),
      tokens_(tokenize(text)),
      registers_left_(65536 + text.size()),
      initializers_left_(65536 + text.size()) {
  module_.source_name = std::string(source_name);
}

Result<Module> Parser::run() {
  bool good = parse_header();
  while (good && peek().kind != Token::Kind::kEnd) good = parse_item();
  if (!good) return error_;
  return std::move(module_);
}

// ---- Tokens

const Token& Parser::peek(std::size_t ahead) const {
  const std::size_t index = position_ + ahead;
  return index < tokens_.size() ? tokens_[index] : tokens_.back();
}

const Token& Parser::next() {
  const Token& token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Parser::at(std::string_view punctuation, std::size_t ahead) const {
  const Token& token = peek(ahead);
  return token.kind == Token::Kind::kPunctuation && word(token) == punctuation;
}

bool Parser::at_dotted(std::string_view name, std::size_t ahead) const {
  const Token& token = peek(ahead);
  return token.kind == Token::Kind::kDotted && word(token).substr(1) == name;
}

bool Parser::accept(std::string_view punctuation) {
  if (!at(punctuation)) return false;
  next();
  return true;
}

bool Parser::expect(std::string_view punctuation, std::string_view what) {
  return accept(punctuation) || fail(what);
}

bool Parser::expect_identifier(std::string_view what, std::string& name) {
  if (peek().kind != Token::Kind::kIdentifier) return fail(what);
  name = std::string(word(next()));
  return true;
}

bool Parser::expect_u32(std::string_view what, std::uint32_t& value) {
  const Token& token = peek();
  Constant constant;
  if (token.kind != Token::Kind::kInteger && !at("(")) return fail(what);
  if (!parse_constant(constant)) return false;
  if (!constant.is_integer() || constant.bits > 0xffffffffu) return fail_at(token, what);
  value = static_cast<std::uint32_t>(constant.bits);
  return true;
}

bool Parser::fail_at(const Token& token, std::string_view expected) {
  if (failed_) return false;
  failed_ = true;
  error_ = PERGOLA_ERROR(kParseError, "{}:{}:{}: expected {}, found {}", module_.source_name, token.line, token.column,
                         expected, describe(text_, token));
  return false;
}

std::string Parser::slice(std::size_t first_token, std::size_t past_token) const {
  if (past_token <= first_token) return "";
  const std::uint32_t begin = tokens_[first_token].offset;
  return std::string(text_.substr(begin, tokens_[past_token - 1].end() - begin));
}

// ---- Module level

bool Parser::parse_header() {
  if (!at_dotted("version")) return fail(".version, which begins every PTX module");
  if (!parse_version()) return false;
  if (!at_dotted("target")) return fail(".target after .version");
  if (!parse_target()) return false;
  if (!at_dotted("address_size")) return true;
  next();
  const Token& size = peek();
  if (!expect_u32("32 or 64", module_.address_size)) return false;
  if (module_.address_size != 32 && module_.address_size != 64) return fail_at(size, "32 or 64");
  return true;
}

bool Parser::parse_version() {
  next();
  const Token& token = peek();
  const std::string_view text = word(token);
  const std::size_t dot = text.find('.');
  if (token.kind != Token::Kind::kFloat || dot == std::string_view::npos || dot == 0 || dot + 1 == text.size() ||
      text.size() > 8 || text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return fail("a version such as 8.3");
  }
  const auto number = [](std::string_view digits) {
    std::uint32_t value = 0;
    for (const char c : digits) value = value * 10 + static_cast<std::uint32_t>(c - '0');
    return value;
  };
  module_.version_major = number(text.substr(0, dot));
  module_.version_minor = number(text.substr(dot + 1));
  next();
  return true;
}

bool Parser::parse_target() {
  next();
  do {
    std::string target;
    if (!expect_identifier("a target such as sm_90", target)) return false;
    module_.targets.push_back(std::move(target));
  } while (accept(","));
  return true;
}

Linkage Parser::parse_linkage() {
  if (at_dotted("extern")) return next(), Linkage::kExtern;
  if (at_dotted("visible")) return next(), Linkage::kVisible;
  if (at_dotted("weak")) return next(), Linkage::kWeak;
  if (at_dotted("common")) return next(), Linkage::kCommon;
  return Linkage::kNone;
}

bool Parser::parse_item() {
  const std::size_t first = position_;
  const Location location = peek().location();
  const Linkage linkage = parse_linkage();
  if (at_dotted("entry") || at_dotted("func")) return parse_function(linkage);
  const Token& token = peek();
  if (token.kind != Token::Kind::kDotted) return fail("a module directive, variable or function");
  const std::string_view name = word(token).substr(1);
  const auto space = declared_space(name);
  if (space && *space != Space::kReg && *space != Space::kParam && *space != Space::kLocal) {
    std::vector<Variable> variables;
    if (!parse_variables(*space, linkage, location, variables)) return false;
    if (variables.empty()) {  // a sampler with named fields
      while (!at(";") && peek().kind != Token::Kind::kEnd) next();
      if (!expect(";", "';' after the variable")) return false;
      module_.items.push_back(Item{Verbatim{slice(first, position_)}});
      return true;
    }
    for (Variable& variable : variables) module_.items.push_back(Item{std::move(variable)});
    return true;
  }
  if (linkage != Linkage::kNone || space) return fail("a variable or function that a module may declare");
  if (name == "version" || name == "target" || name == "address_size") return fail("this directive once, at the top");
  if (name == "file") return parse_file();
  if (name != "section" && name != "pragma" && name != "alias" && name != "loc") return fail("a directive of modules");
  Verbatim verbatim;
  if (name == "section" ? !parse_section(verbatim.text) : !parse_verbatim(verbatim.text)) return false;
  module_.items.push_back(Item{std::move(verbatim)});
  return true;
}

namespace {

// A string's bytes: compilers write what is not ASCII as octal digits.
std::string unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      bytes += text[at];
      continue;
    }
    const auto is_octal = [&](std::size_t n) { return n < text.size() && text[n] >= '0' && text[n] <= '7'; };
    if (!is_octal(++at)) {
      bytes += text[at];
      continue;
    }
    unsigned value = static_cast<unsigned>(text[at] - '0');
    for (int more = 0; more < 2 && is_octal(at + 1); ++more)
      value = 8 * value + static_cast<unsigned>(text[++at] - '0');
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace

// .file index "path" [, timestamp, size]
bool Parser::parse_file() {
  const std::size_t first = position_;
  next();
  std::uint32_t index = 0;
  if (!expect_u32("a file's index", index)) return false;
  const Token& path = peek();
  if (path.kind != Token::Kind::kString) return fail("a file's path in quotes");
  next();
  while (accept(",")) {
    if (peek().kind != Token::Kind::kInteger) return fail("a file's time or size");
    next();
  }
  module_.files.emplace_back(index, unescaped(text_.substr(path.offset + 1, path.length - 2)));
  module_.items.push_back(Item{Verbatim{slice(first, position_)}});
  return true;
}

// Any other directive, up to and with its ';'.
bool Parser::parse_verbatim(std::string& text) {
  const std::size_t first = position_;
  while (!at(";")) {
    const Token::Kind kind = peek().kind;
    if (kind == Token::Kind::kEnd || kind == Token::Kind::kBad || at("{") || at("}")) {
      return fail("';' after the directive");
    }
    next();
  }
  next();
  text = slice(first, position_);
  return true;
}

// .section name { ... }
bool Parser::parse_section(std::string& text) {
  const std::size_t first = position_;
  next();
  while (!at("{")) {
    const Token::Kind kind = peek().kind;
    if (kind != Token::Kind::kDotted && kind != Token::Kind::kIdentifier && kind != Token::Kind::kString && !at(",")) {
      return fail("'{' after the section's name");
    }
    next();
  }
  while (!at("}")) {
    if (peek().kind == Token::Kind::kEnd) return fail("'}' after the section");
    next();
  }
  next();
  text = slice(first, position_);
  return true;
}

// ---- Functions

bool Parser::parse_function(Linkage linkage) {
  Function function;
  function.location = peek().location();
  function.linkage = linkage;
  function.is_entry = at_dotted("entry");
  function_ = &function;
  scopes_ = RegisterScopes();
  scopes_.open();
  element_sizes_.open();
  next();
  while (at_dotted("attribute")) {
    std::string attribute;
    if (!parse_attribute(attribute)) return false;
    function.directives.push_back(std::move(attribute));
  }
  if (at("(") && !function.is_entry && !parse_parameters(function.results, &function)) return false;
  if (!expect_identifier("a function's name", function.name)) return false;
  if (at("(") && !parse_parameters(function.parameters, &function)) return false;
  if (!parse_function_directives(function)) return false;
  if (at("{")) {
    if (!parse_body(function)) return false;
  } else if (!expect(";", "'{' or ';' after the function's header")) {
    return false;
  }
  function_ = nullptr;
  element_sizes_.close();
  module_.items.push_back(Item{std::move(function)});
  return true;
}

// .attribute(...): kept with the dot.
bool Parser::parse_attribute(std::string& text) {
  const std::size_t first = position_;
  next();
  if (!expect("(", "'(' after .attribute")) return false;
  int depth = 1;
  while (depth > 0) {
    const Token::Kind kind = peek().kind;
    if (kind == Token::Kind::kEnd || kind == Token::Kind::kBad || at(";") || at("{")) {
      return fail("')' after the attribute");
    }
    if (at("(")) ++depth;
    if (at(")")) --depth;
    next();
  }
  text = slice(first, position_);
  return true;
}

// ( .param .u64 a, .reg .u32 b ); registers become the function's where one is given.
bool Parser::parse_parameters(std::vector<Variable>& list, Function* function) {
  next();
  if (accept(")")) return true;
  do {
    const Token& token = peek();
    const Location location = token.location();
    const auto space = token.kind == Token::Kind::kDotted ? declared_space(word(token).substr(1)) : std::nullopt;
    if (!space || (*space != Space::kParam && *space != Space::kReg)) return fail(".param or .reg");
    next();
    Variable variable;
    variable.space = *space;
    variable.location = location;
    if (!parse_qualifiers(variable) || !parse_declarator(variable)) return false;
    if (*space == Space::kReg && function != nullptr) {
      RegisterId id = 0;
      const Register pattern{variable.name, variable.type, variable.vector};
      if (!add_registers(token, pattern, 1, false, id)) return false;
    }
    list.push_back(std::move(variable));
  } while (accept(","));
  return expect(")", "',' or ')' after a parameter");
}

bool Parser::parse_function_directives(Function& function) {
  while (peek().kind == Token::Kind::kDotted) {
    if (!parse_function_directive(function, word(peek()).substr(1))) return false;
  }
  return true;
}

bool Parser::parse_function_directive(Function& function, std::string_view name) {
  if (name == "maxntid") return next(), parse_three(function.max_threads);
  if (name == "reqntid") return next(), parse_three(function.required_threads);
  if (name == "reqnctapercluster") return next(), parse_three(function.required_cluster);
  if (name == "minnctapersm") return next(), parse_one(function.min_blocks_per_sm);
  if (name == "maxnreg") return next(), parse_one(function.max_registers);
  if (name == "maxclusterrank") return next(), parse_one(function.max_cluster_rank);
  if (name == "noreturn") {
    next();
    function.noreturn = true;
    return true;
  }
  std::string text;
  if (name == "attribute") {
    // Attributes first: they are printed before the name.
    if (!parse_attribute(text)) return false;
    auto place = function.directives.begin();
    while (place != function.directives.end() && place->starts_with(".attribute")) ++place;
    function.directives.insert(place, std::move(text));
    return true;
  }
  if (name == "pragma") {
    if (!parse_verbatim(text)) return false;
  } else {
    const std::size_t first = position_;
    next();
    while (peek().kind == Token::Kind::kInteger || peek().kind == Token::Kind::kIdentifier || at(",")) next();
    text = slice(first, position_);
  }
  function.directives.push_back(std::move(text));
  return true;
}

bool Parser::parse_three(std::optional<std::array<std::uint32_t, 3>>& value) {
  std::array<std::uint32_t, 3> numbers = {1, 1, 1};
  std::size_t count = 0;
  do {
    if (count == 3) return fail("at most three numbers");
    if (!expect_u32("a number of threads or blocks", numbers[count++])) return false;
  } while (accept(","));
  value = numbers;
  return true;
}

bool Parser::parse_one(std::optional<std::uint32_t>& value) {
  std::uint32_t number = 0;
  if (!expect_u32("a number", number)) return false;
  value = number;
  return true;
}

}  // namespace pergola::ptx
