#include "src/session/signature.h"

#include <algorithm>

#include "src/base/plural.h"
#include "src/session/arguments.h"

namespace pergola::session {
namespace {

struct TypeWord {
  std::string_view text;
  ElementType type;
};
// GrCUDA's names. The first of a type is the one that is printed.
constexpr TypeWord kTypeWords[] = {
    {"bool", ElementType::kBool},  {"sint8", ElementType::kI8},   {"char", ElementType::kI8},
    {"uint8", ElementType::kU8},   {"char8", ElementType::kU8},   {"sint16", ElementType::kI16},
    {"uint16", ElementType::kU16}, {"char16", ElementType::kU16}, {"sint32", ElementType::kI32},
    {"wchar", ElementType::kI32},  {"uint32", ElementType::kU32}, {"char32", ElementType::kU32},
    {"sint64", ElementType::kI64}, {"sll64", ElementType::kI64},  {"uint64", ElementType::kU64},
    {"ull64", ElementType::kU64},  {"half", ElementType::kF16},   {"float", ElementType::kF32},
    {"double", ElementType::kF64},
};
// Names of other languages, for the mend.
constexpr std::pair<std::string_view, std::string_view> kForeign[] = {
    {"short", "sint16"},   {"int", "sint32"},   {"long", "sint64"},        {"unsigned", "uint32"}, {"size_t", "uint64"},
    {"int8", "sint8"},     {"int16", "sint16"}, {"int32", "sint32"},       {"int64", "sint64"},    {"float32", "float"},
    {"float64", "double"}, {"float16", "half"}, {"string", "pointer char"}};

constexpr std::string_view kTypeList =
    "bool, char, sint8, uint8, sint16, uint16, sint32, uint32, sint64, uint64, half, float, double or pointer";

std::optional<ElementType> type_of(std::string_view word) {
  for (const TypeWord& known : kTypeWords)
    if (known.text == word) return known.type;
  return std::nullopt;
}

std::string_view name_of(ElementType type) {
  for (const TypeWord& known : kTypeWords)
    if (known.type == type) return known.text;
  return "bytes";
}

std::optional<Direction> direction_of(std::string_view word) {
  if (word == "in" || word == "input" || word == "const") return Direction::kIn;
  if (word == "out" || word == "output") return Direction::kOut;
  if (word == "inout") return Direction::kInOut;
  return std::nullopt;
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
bool is_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// What stands at a place, for a message: "'word'", "'\x80'", "the end".
std::string shown(std::string_view token) {
  if (token.empty()) return "the end";
  const auto c = static_cast<unsigned char>(token[0]);
  if (token.size() == 1 && (c < 0x20 || c >= 0x7f)) return fmt::format("a byte {:#x}", c);
  constexpr std::size_t kMost = 40;
  return token.size() <= kMost ? fmt::format("'{}'", token) : fmt::format("'{}...'", token.substr(0, kMost));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Signature> run() {
    Signature signature;
    const std::size_t open = text_.find('(');
    if (open != std::string_view::npos) PERGOLA_TRY(read_name(open, signature));
    if (peek() == ")" || (open == std::string_view::npos && peek().empty())) return end(open, std::move(signature));
    while (true) {
      PERGOLA_ASSIGN(DeclaredParameter parameter, read_parameter());
      const auto same = std::ranges::find_if(signature.parameters, [&](const DeclaredParameter& other) {
        return !parameter.name.empty() && other.name == parameter.name;
      });
      if (same != signature.parameters.end())
        return wrong(at_, fmt::format("two parameters before here are called '{}'.", parameter.name));
      signature.parameters.push_back(std::move(parameter));
      if (peek() != ",") break;
      next();
    }
    return end(open, std::move(signature));
  }

 private:
  // A word, a single other character, or "" at the end. at_ is where it begins.
  std::string_view peek() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, std::max<std::size_t>(end - at_, at_ < text_.size() ? 1 : 0));
  }
  std::string_view next() {
    const std::string_view token = peek();
    at_ += token.size();
    return token;
  }

  Error wrong(std::size_t at, const std::string& what) const {
    const std::string_view before = text_.substr(0, at);
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto lines = 1 + std::count(before.begin(), before.end(), '\n');
    const std::string line = lines == 1 ? "" : fmt::format("line {}, ", lines);
    return PERGOLA_ERROR(kParseError, "The signature is wrong at {}column {}: {}", line, at - line_begin + 1, what);
  }

  // "cxx ns::kernel<float, 3>(": what stands ahead of the first parenthesis.
  Status read_name(std::size_t open, Signature& signature) {
    std::string_view name = trimmed(text_.substr(0, open));
    while (name.starts_with("cxx") && name.size() > 3 && is_space(name[3])) name = trimmed(name.substr(3));
    const auto wrong_character = std::find_if(name.begin(), name.end(), [](char c) {
      return !is_word(c) && !is_space(c) && std::string_view(":<>,*&").find(c) == std::string_view::npos;
    });
    if (wrong_character != name.end()) {
      const auto at = static_cast<std::size_t>(&*wrong_character - text_.data());
      return wrong(
          at, fmt::format("{} is in no kernel's name, which should stand ahead of '('.", shown(text_.substr(at, 1))));
    }
    if (name == "cxx") return wrong(0, "after 'cxx' the kernel's name should stand.");
    signature.kernel = name;
    at_ = open + 1;
    return {};
  }

  Result<Signature> end(std::size_t open, Signature signature) {
    if (open != std::string_view::npos) {
      if (peek() != ")") return wrong(at_, fmt::format("',' or ')' should stand here, not {}.", shown(peek())));
      next();
      if (peek() == ":") {
        next();
        if (peek() != "void")
          return wrong(at_, fmt::format("a kernel returns nothing: 'void' should stand here, not {}.", shown(peek())));
        next();
      }
    }
    if (peek().empty()) return signature;
    return wrong(at_, fmt::format("{} should stand here, not {}.", open == std::string_view::npos ? "','" : "nothing",
                                  shown(peek())));
  }

  Result<DeclaredParameter> read_parameter() {
    DeclaredParameter parameter;
    peek();
    const std::size_t first = at_;
    const std::string_view word = next();
    if (!word.empty() && is_letter(word[0]) && peek() == ":") {
      next();
      parameter.name = word;
    } else {
      at_ = first;
    }
    peek();
    const std::size_t begin = at_;
    const std::optional<Direction> direction = direction_of(peek());
    const bool is_const = peek() == "const";
    if (direction) next();
    if (peek() == "pointer") {
      next();
      parameter.is_pointer = true;
      parameter.direction = direction.value_or(Direction::kNone);
      PERGOLA_TRY(read_element(parameter));
    } else {
      PERGOLA_ASSIGN(parameter.type, read_type());
      if (direction && !is_const)
        return wrong(begin, fmt::format("a number has no direction: leave '{}' out, or write '{} pointer {}'.",
                                        to_string(*direction), to_string(*direction), name_of(*parameter.type)));
    }
    if (peek() == "const") PERGOLA_TRY(read_const_behind(parameter, direction.has_value()));
    return parameter;
  }

  Status read_element(DeclaredParameter& parameter) {
    const std::string_view word = peek();
    if (word.empty() || !is_letter(word[0]) || word == "const") return {};
    if (word == "void") {
      next();
      return {};
    }
    if (word == "pointer")
      return wrong(at_, "a pointer to pointers has no type here: write 'pointer' or 'pointer uint64'.");
    if (direction_of(word)) return wrong(at_, fmt::format("'{}' should stand ahead of 'pointer'.", word));
    PERGOLA_ASSIGN(parameter.type, read_type());
    return {};
  }

  Status read_const_behind(DeclaredParameter& parameter, bool has_direction) {
    if (has_direction) return wrong(at_, "the parameter has two directions: leave one out.");
    next();
    if (parameter.is_pointer) parameter.direction = Direction::kIn;
    return {};
  }

  Result<ElementType> read_type() {
    const std::string_view word = peek();
    if (const auto type = type_of(word)) {
      next();
      return *type;
    }
    for (const auto& [foreign, ours] : kForeign)
      if (foreign == word) return wrong(at_, fmt::format("'{}' is no type of NIDL: write '{}'.", word, ours));
    if (word == "void") return wrong(at_, "no parameter is 'void': leave it out, or write 'pointer'.");
    return wrong(at_, fmt::format("a type should stand here, not {}: {}.", shown(word), kTypeList));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

// How a signature may declare the parameter, for a mend.
std::string suggestion(const ParameterInfo& parameter) {
  std::string list;
  if (memory_fits(parameter)) list = "'pointer'";
  for (const ElementType type : {ElementType::kI8, ElementType::kI16, ElementType::kI32, ElementType::kI64,
                                 ElementType::kF16, ElementType::kF32, ElementType::kF64})
    if (number_fits(parameter, type)) list += fmt::format("{}'{}'", list.empty() ? "" : " or ", name_of(type));
  if (list.empty()) return "no signature has a word for that, so take the kernel without one";
  return "declare it " + list;
}

// One parameter of the kernel, and what the signature says of it.
class Applier {
 public:
  Applier(const KernelInfo& kernel, std::size_t index, const DeclaredParameter& declared)
      : kernel_(kernel), index_(index), declared_(declared), parameter_(kernel.parameters[index]) {}

  Result<ParameterInfo> run() const {
    PERGOLA_TRY(declared_.is_pointer ? check_pointer() : check_number());
    ParameterInfo result = parameter_;
    result.declaration = to_string(declared_);
    result.direction = declared_.direction;
    result.declared_type = declared_.type;
    if (!declared_.is_pointer) {
      result.access = Access::kNone;
      result.reason = "declared a number";
      result.is_sole_base = false;
      const bool is_float = *declared_.type == ElementType::kF16 || *declared_.type == ElementType::kF32 ||
                            *declared_.type == ElementType::kF64;
      if (result.kind == ParameterKind::kBits) result.kind = is_float ? ParameterKind::kFloat : ParameterKind::kInteger;
      return result;
    }
    result.kind = ParameterKind::kPointer;
    if (declared_.direction == Direction::kNone) return result;
    result.access = static_cast<Access>(declared_.direction);
    result.reason = fmt::format("declared '{}'", to_string(declared_.direction));
    if (!parameter_.reason.empty()) result.reason += "; in the PTX " + parameter_.reason;
    return result;
  }

 private:
  Error contradiction(const std::string& otherwise) const {
    return PERGOLA_ERROR(kInvalidArgument, "The signature declares parameter {} ({}) of kernel '{}' as '{}', {}",
                         index_, parameter_.name, kernel_.name, to_string(declared_), otherwise);
  }

  std::string_view direction_as_it_is() const {
    if (parameter_.access == Access::kRead || parameter_.access == Access::kWrite)
      return to_string(static_cast<Direction>(parameter_.access));
    return to_string(Direction::kInOut);
  }

  Status check_pointer() const {
    if (!memory_fits(parameter_))
      return contradiction(
          fmt::format("and in the PTX it is {}: {}.", expectation(parameter_), suggestion(parameter_)));
    if (declared_.direction == Direction::kIn && !parameter_.surely_written.empty())
      return contradiction(fmt::format("and the kernel writes through it, by {}: declare it '{}'.",
                                       parameter_.surely_written, direction_as_it_is()));
    if (declared_.direction == Direction::kOut && !parameter_.surely_read.empty())
      return contradiction(fmt::format("and the kernel reads through it, by {}: declare it '{}'.",
                                       parameter_.surely_read, direction_as_it_is()));
    return check_elements();
  }

  // Of integers, and of bytes, a kernel may make what it wants, and a workspace may be of several types; but where all
  // is floats there are no doubles.
  Status check_elements() const {
    const std::string_view f32 = parameter_.all_f32(), f64 = parameter_.all_f64();
    if (!f64.empty() && declared_.type == ElementType::kF32)
      return contradiction(fmt::format("and the kernel uses doubles there alone, by {}: declare it '{}'.", f64,
                                       with_elements(ElementType::kF64)));
    if (!f32.empty() && declared_.type == ElementType::kF64)
      return contradiction(fmt::format("and the kernel uses floats there alone, by {}: declare it '{}'.", f32,
                                       with_elements(ElementType::kF32)));
    return {};
  }

  std::string with_elements(ElementType type) const {
    DeclaredParameter other = declared_;
    other.type = type;
    return to_string(other);
  }

  Status check_number() const {
    if (!number_fits(parameter_, *declared_.type))
      return contradiction(
          fmt::format("and in the PTX it is {}: {}.", expectation(parameter_), suggestion(parameter_)));
    const bool is_read = !parameter_.surely_read.empty();
    if (!is_read && parameter_.surely_written.empty()) return {};
    return contradiction(
        fmt::format("and the kernel {} through it, by {}: declare it '{} pointer'.", is_read ? "reads" : "writes",
                    is_read ? parameter_.surely_read : parameter_.surely_written, direction_as_it_is()));
  }

  const KernelInfo& kernel_;
  const std::size_t index_;
  const DeclaredParameter& declared_;
  const ParameterInfo& parameter_;
};

}  // namespace

Result<Signature> parse_signature(std::string_view text) {
  return Parser(text).run();
}

std::string to_string(const DeclaredParameter& parameter) {
  std::string text = parameter.name.empty() ? "" : parameter.name + ": ";
  if (parameter.direction != Direction::kNone) text.append(to_string(parameter.direction)).append(" ");
  if (parameter.is_pointer) text += "pointer";
  if (parameter.type) text.append(parameter.is_pointer ? " " : "").append(name_of(*parameter.type));
  return text;
}

std::string to_string(const Signature& signature) {
  std::string text = signature.kernel + "(";
  for (std::size_t i = 0; i < signature.parameters.size(); ++i)
    text += (i == 0 ? "" : ", ") + to_string(signature.parameters[i]);
  return text + ")";
}

// Addresses that are one of several parameters, or a sum of them: of those that are declared numbers none is a base.
static Status apply_to_sums(const KernelInfo& kernel, const Signature& signature, KernelInfo& result) {
  result.sums.clear();
  for (const SummedParameters& sum : kernel.sums) {
    const bool is_written = !sum.surely_written.empty();
    const std::string& how = is_written ? sum.surely_written : sum.surely_read;
    SummedParameters left = sum;
    std::string names;
    for (const std::uint32_t i : sum.parameters)
      names += fmt::format("{}{} ({})", names.empty() ? "" : " and ", i, kernel.parameters[i].name);
    std::erase_if(left.parameters, [&](std::uint32_t i) { return !signature.parameters[i].is_pointer; });
    const auto all_are = [&](Direction direction) {
      return std::ranges::all_of(left.parameters,
                                 [&](std::uint32_t i) { return signature.parameters[i].direction == direction; });
    };
    const auto contradiction = [&](std::string_view as, std::string_view does, const std::string& by,
                                   std::string_view mend) {
      return PERGOLA_ERROR(kInvalidArgument,
                           "The signature declares parameters {} of kernel '{}' {}, and the kernel {} an address made "
                           "of them, by {}: declare {}.",
                           names, kernel.name, as, does, by, mend);
    };
    if (left.parameters.empty()) {
      if (!how.empty() && !sum.has_other_base)
        return contradiction("as numbers", is_written ? "writes to" : "reads from", how, "that which is a pointer so");
      if (!sum.has_other_base) {
        result.universal_access =
            static_cast<Access>(static_cast<int>(result.universal_access) | static_cast<int>(sum.access));
        if (result.universal_reason.empty())
          result.universal_reason = fmt::format("an address made of {}, which are declared numbers", names);
      }
      continue;
    }
    if (is_written && all_are(Direction::kIn))
      return contradiction("without one that is written", "writes to", sum.surely_written,
                           "that which is written 'inout'");
    if (!sum.surely_read.empty() && all_are(Direction::kOut))
      return contradiction("without one that is read", "reads from", sum.surely_read, "that which is read 'inout'");
    if (left.parameters.size() == 1 && !sum.has_other_base)
      result.parameters[left.parameters[0]].is_sole_base = true;
    else if (left.parameters.size() > 1)
      result.sums.push_back(std::move(left));
  }
  return {};
}

Result<KernelInfo> apply_signature(const KernelInfo& kernel, const Signature& signature) {
  const auto& declared = signature.parameters;
  if (declared.size() != kernel.parameters.size()) {
    std::string list;
    for (const ParameterInfo& parameter : kernel.parameters)
      list += fmt::format("{}{} ({})", list.empty() ? ": " : ", ", parameter.name, expectation(parameter));
    return PERGOLA_ERROR(kInvalidArgument, "The signature declares {}; kernel '{}' has {}{}. Declare each{}.",
                         plural(declared.size(), "parameter"), kernel.name, kernel.parameters.size(), list,
                         declared.empty() ? ", or give no signature" : "");
  }
  KernelInfo result = kernel;
  bool has_pointer = false, all_directed = true;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    PERGOLA_ASSIGN(result.parameters[i], Applier(kernel, i, declared[i]).run());
    if (!declared[i].is_pointer) continue;
    has_pointer = true;
    all_directed &= declared[i].direction != Direction::kNone;
  }
  if (has_pointer && all_directed) {
    result.universal_access = kernel.absolute_access;
    result.universal_reason = kernel.absolute_reason;
  }
  PERGOLA_TRY(apply_to_sums(kernel, signature, result));
  return result;
}

}  // namespace pergola::session
