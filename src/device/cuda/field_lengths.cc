#include "src/device/cuda/field_lengths.h"

#include "src/device/cuda/ptx_scan.h"

namespace pergola::device::cuda {

std::string with_field_lengths_in_range(std::string_view ptx) {
  constexpr std::string_view kMnemonic = "bfi.b32";
  std::string out;
  out.reserve(ptx.size());
  std::size_t done = 0;
  for (std::size_t at = ptx.find(kMnemonic); at != std::string_view::npos; at = ptx.find(kMnemonic, at + 1)) {
    const std::size_t end = ptx.find(';', at);
    if (end == std::string_view::npos) break;
    const std::string_view whole = ptx.substr(at, end - at);
    const std::size_t last = whole.rfind(',');
    if (last == std::string_view::npos || last == 0) continue;
    const std::size_t before = whole.rfind(',', last - 1);
    if (before == std::string_view::npos) continue;
    const auto position = immediate(trimmed(whole.substr(before + 1, last - before - 1)));
    const auto length = immediate(trimmed(whole.substr(last + 1)));
    if (!position || !length) continue;
    const std::uint32_t from = *position & 0xff, bits = *length & 0xff;  // 8 bits each, as the ISA says
    if (from >= 32 || bits <= 32 - from) continue;
    out.append(ptx.substr(done, at + last + 1 - done)).append(" ").append(std::to_string(32 - from));
    done = end;
  }
  return out.append(ptx.substr(done));
}

}  // namespace pergola::device::cuda
