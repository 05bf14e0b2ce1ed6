#include "src/device/cpu/stand.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/plural.h"

namespace pergola::device::cpu {
namespace {

constexpr std::size_t kNamed = 4, kMostLines = 16;  // warps of a line; lines

}  // namespace

std::string describe_stands(std::span<const Stand> stands) {
  struct Line {
    const Stand* first;
    std::size_t warps;
    std::string named;
  };
  std::vector<Line> lines;
  for (const Stand& stand : stands) {
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& other) {
      return other.first->place == stand.place && other.first->waits == stand.waits;
    });
    if (line == lines.end()) line = lines.insert(lines.end(), {&stand, 0, {}});
    if (++line->warps > kNamed) continue;
    line->named += fmt::format("{}block ({},{},{}) warp {} lanes {:#x}", line->warps == 1 ? "" : ", ", stand.block.x,
                               stand.block.y, stand.block.z, stand.warp, stand.lanes);
  }
  std::string text;
  for (std::size_t n = 0; n < lines.size() && n < kMostLines; ++n) {
    const Line& line = lines[n];
    text += fmt::format("\n  {}{}{}: {}", line.first->place, line.first->place.empty() ? "" : " ", line.first->waits, line.named);
    if (line.warps > kNamed) text += fmt::format(" and {} more", line.warps - kNamed);
  }
  if (lines.size() > kMostLines) text += "\n  and " + plural(lines.size() - kMostLines, "more place");
  return text;
}

std::string describe_barrier(std::uint32_t id, std::uint32_t arrived, std::uint32_t expected) {
  return fmt::format("barrier {}, where {} of {} threads have arrived", id, arrived, expected);
}

}  // namespace pergola::device::cpu
