#include "src/device/cuda/ptx_scan.h"

#include <algorithm>
#include <charconv>

namespace pergola::device::cuda {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::optional<std::uint32_t> immediate(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  } else if (text.size() > 1 && text[0] == '0') {
    return std::nullopt;  // octal: nobody writes it
  }
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<ScannedOperand> operands_of(std::string_view text) {
  std::vector<ScannedOperand> operands;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view whole = text.substr(begin, comma - begin);
    operands.push_back({whole, trimmed(whole), {}});
    begin = comma + 1;
  }
  return operands;
}

std::string rewrite_instructions(std::string_view ptx, std::string_view mnemonic,
                                 const std::function<void(std::span<ScannedOperand>)>& edit) {
  std::string out;
  out.reserve(ptx.size());
  std::size_t done = 0;  // what is before it has been copied
  for (std::size_t at = ptx.find(mnemonic); at != std::string_view::npos; at = ptx.find(mnemonic, at + 1)) {
    const std::size_t end = ptx.find(';', at);
    if (end == std::string_view::npos) break;
    std::vector<ScannedOperand> operands = operands_of(ptx.substr(at + mnemonic.size(), end - at - mnemonic.size()));
    edit(operands);
    for (const ScannedOperand& operand : operands) {
      const auto begin = static_cast<std::size_t>(operand.whole.data() - ptx.data());
      // Behind a comment with the mnemonic in it the same operands are met twice.
      if (operand.replacement.empty() || begin < done) continue;
      out.append(ptx.substr(done, begin - done)).append(" ").append(operand.replacement);
      done = begin + operand.whole.size();
    }
  }
  return out.append(ptx.substr(done));
}

}  // namespace pergola::device::cuda
