// What can be read off PTX text without parsing it: whether it is PTX, its mangled kernels, its missing functions.
#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "src/source/source.h"

namespace pergola::source {
namespace {

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

// Where `text` goes on after white space and comments, from `at`.
std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (is_space(text[at])) {
      ++at;
    } else if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      const std::size_t end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? text.size() : end + 2;
    } else {
      break;
    }
  }
  return at;
}

std::string_view name_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_name(text[end])) ++end;
  return text.substr(at, end - at);
}

// The next occurrence of `directive` from `at` that is a whole word.
std::size_t find_directive(std::string_view text, std::string_view directive, std::size_t at) {
  for (at = text.find(directive, at); at != std::string_view::npos; at = text.find(directive, at + 1)) {
    const std::size_t end = at + directive.size();
    if (end < text.size() && is_space(text[end]) && (at == 0 || !is_name(text[at - 1]))) return at;
  }
  return std::string_view::npos;
}

// "void scale<float>(float*, int)" -> "scale<float>": the parameter list is the last balanced parenthesis, and a
// template's kernel, always void, carries its result type.
std::string plain_name(std::string demangled) {
  if (!demangled.empty() && demangled.back() == ')') {
    int depth = 0;
    for (std::size_t at = demangled.size(); at-- > 0;) {
      if (demangled[at] == ')') ++depth;
      if (demangled[at] == '(' && --depth == 0) {
        demangled.resize(at);
        break;
      }
    }
  }
  if (demangled.rfind("void ", 0) == 0) demangled.erase(0, 5);
  return demangled;
}

}  // namespace

bool is_ptx(std::string_view text) {
  const std::size_t at = skip_space(text, 0);
  constexpr std::string_view kVersion = ".version";
  return text.substr(at, kVersion.size()) == kVersion && at + kVersion.size() < text.size() &&
         is_space(text[at + kVersion.size()]);
}

std::vector<KernelAlias> kernel_aliases(std::string_view ptx) {
  constexpr std::string_view kEntry = ".entry";
  std::vector<KernelAlias> aliases;
  for (std::size_t at = find_directive(ptx, kEntry, 0); at != std::string_view::npos;
       at = find_directive(ptx, kEntry, at + 1)) {
    const std::string name(name_at(ptx, skip_space(ptx, at + kEntry.size())));
    if (name.rfind("_Z", 0) != 0) continue;
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                           &std::free);
    if (status != 0 || text == nullptr) continue;
    aliases.push_back({plain_name(text.get()), name});
  }
  return aliases;
}

std::vector<std::string> unresolved_math(std::string_view ptx) {
  constexpr std::string_view kPrefix = "__pergola_", kExtern = ".extern";
  std::vector<std::string> names;
  for (std::size_t at = find_directive(ptx, kExtern, 0); at != std::string_view::npos;
       at = find_directive(ptx, kExtern, at + 1)) {
    const std::string_view declaration = ptx.substr(at, std::min(ptx.find(';', at), ptx.size()) - at);
    if (declaration.find(".func") == std::string_view::npos) continue;
    const std::size_t name = declaration.find(kPrefix);
    if (name != std::string_view::npos && !is_name(declaration[name - 1]))
      names.emplace_back(name_at(declaration, name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace pergola::source
