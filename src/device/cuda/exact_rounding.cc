#include "src/device/cuda/exact_rounding.h"

#include <algorithm>
#include <array>

namespace pergola::device::cuda {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '%' || c == '.' || c == ':';
}

// The first byte after the comment or string that starts at `begin`; `begin` where none does.
std::size_t skip_verbatim(std::string_view text, std::size_t begin) {
  if (text.substr(begin, 2) == "//") return std::min(text.find('\n', begin), text.size());
  if (text.substr(begin, 2) == "/*") {
    const std::size_t end = text.find("*/", begin + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  if (text[begin] == '"') {
    const std::size_t end = text.find('"', begin + 1);
    return end == std::string_view::npos ? text.size() : end + 1;
  }
  return begin;
}

bool ends_with_float(std::string_view mnemonic) {
  static constexpr std::array<std::string_view, 7> kTypes{".f16", ".f16x2", ".bf16", ".bf16x2",
                                                          ".f32", ".f32x2", ".f64"};
  return std::any_of(kTypes.begin(), kTypes.end(), [&](std::string_view type) { return mnemonic.ends_with(type); });
}

bool may_be_contracted(std::string_view mnemonic) {
  if (!mnemonic.starts_with("add.") && !mnemonic.starts_with("sub.") && !mnemonic.starts_with("mul.")) return false;
  const std::string_view modifier = mnemonic.substr(3, 3);  // the rounding modifier comes first
  const bool rounded = (modifier == ".rn" || modifier == ".rz" || modifier == ".rm" || modifier == ".rp") &&
                       mnemonic.substr(6, 1) == ".";
  return !rounded && ends_with_float(mnemonic);
}

}  // namespace

std::string with_exact_rounding(std::string_view ptx) {
  std::string out;
  out.reserve(ptx.size() + ptx.size() / 16);
  for (std::size_t at = 0; at < ptx.size();) {
    if (const std::size_t end = skip_verbatim(ptx, at); end != at) {
      out.append(ptx.substr(at, end - at));
      at = end;
      continue;
    }
    if (!is_word(ptx[at])) {
      out.push_back(ptx[at++]);
      continue;
    }
    std::size_t end = at;
    while (end < ptx.size() && is_word(ptx[end])) ++end;
    const std::string_view word = ptx.substr(at, end - at);
    if (may_be_contracted(word)) {
      out.append(word.substr(0, 3)).append(".rn").append(word.substr(3));
    } else {
      out.append(word);
    }
    at = end;
  }
  return out;
}

}  // namespace pergola::device::cuda
