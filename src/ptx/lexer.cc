#include "src/ptx/lexer.h"

#include <fmt/format.h>

namespace pergola::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4 + 1);
    while (true) {
      const bool comments_closed = skip_blank();
      Token token;
      token.offset = static_cast<std::uint32_t>(position_);
      token.line = line_;
      token.column = static_cast<std::uint32_t>(position_ - line_start_ + 1);
      if (!comments_closed) {
        token.kind = Token::Kind::kBad;
        token.length = static_cast<std::uint32_t>(text_.size() - position_);
        tokens.push_back(token);
        position_ = text_.size();
        continue;
      }
      if (position_ >= text_.size()) {
        tokens.push_back(token);
        return tokens;
      }
      token.kind = scan();
      token.length = static_cast<std::uint32_t>(position_ - token.offset);
      tokens.push_back(token);
    }
  }

 private:
  char at(std::size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  void advance(std::size_t count) {
    for (; count > 0 && position_ < text_.size(); --count, ++position_) {
      if (text_[position_] == '\n') {
        ++line_;
        line_start_ = position_ + 1;
      }
    }
  }

  // False at a comment that is never closed; position_ then stands on it.
  bool skip_blank() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f') {
        advance(1);
      } else if (c == '/' && at(1) == '/') {
        const std::size_t end = text_.find('\n', position_);
        position_ = end == std::string_view::npos ? text_.size() : end;
      } else if (c == '/' && at(1) == '*') {
        const std::size_t end = text_.find("*/", position_ + 2);
        if (end == std::string_view::npos) return false;
        advance(end + 2 - position_);
      } else {
        break;
      }
    }
    return true;
  }

  Token::Kind scan() {
    const char c = at();
    if (is_letter(c) || c == '_' || c == '$' || (c == '%' && is_word(at(1)))) {
      ++position_;
      while (is_word(at())) ++position_;
      return Token::Kind::kIdentifier;
    }
    if (c == '.' && (is_letter(at(1)) || is_digit(at(1)) || at(1) == '_')) return scan_dotted();
    if (is_digit(c)) return scan_number();
    if (c == '"') return scan_string();
    return scan_punctuation();
  }

  Token::Kind scan_dotted() {
    ++position_;
    while (true) {
      while (is_word(at())) ++position_;
      if (at() != ':' || at(1) != ':' || !is_word(at(2))) return Token::Kind::kDotted;
      position_ += 2;
    }
  }

  Token::Kind scan_number() {
    const char marker = static_cast<char>(at(1) | 0x20);
    if (at() == '0' && (marker == 'f' || marker == 'd') && at(1) != '\0') {
      const std::size_t digits = marker == 'f' ? 8 : 16;
      position_ += 2;
      std::size_t count = 0;
      for (; is_hex(at()); ++count) ++position_;
      if (count != digits || is_word(at())) return bad_word();
      return marker == 'f' ? Token::Kind::kF32 : Token::Kind::kF64;
    }
    if (at() == '0' && (marker == 'x' || marker == 'b')) {
      position_ += 2;
      const std::size_t start = position_;
      while (marker == 'x' ? is_hex(at()) : (at() == '0' || at() == '1')) ++position_;
      if (position_ == start) return bad_word();
      return end_integer();
    }
    while (is_digit(at())) ++position_;
    const bool exponent_next = at() == 'e' || at() == 'E';
    if (at() == '.' || exponent_next) return scan_decimal_float();
    return end_integer();
  }

  Token::Kind end_integer() {
    if (at() == 'U' || at() == 'u') ++position_;
    return is_word(at()) ? bad_word() : Token::Kind::kInteger;
  }

  Token::Kind scan_decimal_float() {
    if (at() == '.') {
      ++position_;
      while (is_digit(at())) ++position_;
    }
    if (at() == 'e' || at() == 'E') {
      ++position_;
      if (at() == '+' || at() == '-') ++position_;
      if (!is_digit(at())) return bad_word();
      while (is_digit(at())) ++position_;
    }
    return is_word(at()) ? bad_word() : Token::Kind::kFloat;
  }

  Token::Kind bad_word() {
    while (is_word(at())) ++position_;
    return Token::Kind::kBad;
  }

  Token::Kind scan_string() {
    ++position_;
    while (position_ < text_.size() && at() != '"' && at() != '\n') {
      position_ += at() == '\\' && at(1) != '\0' && at(1) != '\n' ? 2 : 1;
    }
    if (position_ >= text_.size() || at() != '"') return Token::Kind::kBad;
    ++position_;
    return Token::Kind::kString;
  }

  Token::Kind scan_punctuation() {
    const char c = at();
    if (std::string_view(",;:{}[]()<>+-!~*/%&^|?=@").find(c) == std::string_view::npos) {
      ++position_;
      return Token::Kind::kBad;
    }
    const char d = at(1);
    const bool doubled = (d == c && (c == '<' || c == '>' || c == '&' || c == '|' || c == '=')) ||
                         (d == '=' && (c == '<' || c == '>' || c == '!'));
    position_ += doubled ? 2 : 1;
    return Token::Kind::kPunctuation;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

std::string describe(std::string_view text, const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "end of file";
  const std::string_view word = text.substr(token.offset, token.length);
  if (token.kind == Token::Kind::kBad) {
    if (word.starts_with("/*")) return "a comment without its end";
    if (word.starts_with('"')) return "a string without its end";
    if (!is_word(word[0])) return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(word[0]));
    return fmt::format("malformed number '{}'", word.substr(0, 40));
  }
  if (word.size() > 40) return fmt::format("'{}...'", word.substr(0, 40));
  return fmt::format("'{}'", word);
}

}  // namespace pergola::ptx
