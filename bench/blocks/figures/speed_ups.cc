#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "bench/blocks/figures/schedule_results.h"

namespace pergola::bench::blocks {
namespace {

constexpr double kLeft = 40, kTop = 34, kHeight = 260, kBar = 7, kGap = 12;
constexpr const char* kColours[] = {"#bbbbbb", "#9ecae1", "#6baed6", "#fdae6b", "#fd8d3c", "#d94801"};

}  // namespace

void draw_speed_ups(const std::string& path, const std::vector<std::string>& modes,
                    const std::vector<ProgramResults>& programs) {
  double most = 1;
  for (const ProgramResults& program : programs) {
    for (std::size_t mode = 0; mode < modes.size(); ++mode) most = std::max(most, program.speed_up(mode));
  }
  most = std::ceil(most * 2) / 2;
  const std::size_t bars = modes.size() - 1;
  const double group = static_cast<double>(bars) * kBar + kGap;
  const double width = kLeft + group * static_cast<double>(programs.size()) + 10;
  const auto y = [&](double value) { return kTop + kHeight * (1 - value / most); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, kTop + kHeight + 30);
  for (double at = 0; at <= most; at += 0.5) {
    svg += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.1f}</text>\n",
        kLeft, width - 5, y(at), y(at), at == 1 ? "black" : "#e0e0e0", kLeft - 4, y(at) + 3, at);
  }
  double legend = kLeft;
  for (std::size_t mode = 1; mode < modes.size(); ++mode) {
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"10\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" y=\"19\">{}</text>\n",
        legend, kColours[(mode - 1) % std::size(kColours)], legend + 14, modes[mode]);
    legend += 90;
  }
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const double left = kLeft + kGap / 2 + group * static_cast<double>(p);
    for (std::size_t mode = 1; mode < modes.size(); ++mode) {
      const double value = programs[p].speed_up(mode);
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{} {}: {:.2f}</title>"
          "</rect>\n",
          left + static_cast<double>(mode - 1) * kBar, y(value), kBar - 1, kTop + kHeight - y(value),
          kColours[(mode - 1) % std::size(kColours)], programs[p].name, modes[mode], value);
    }
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\" font-size=\"9\">{}</text>\n",
                       left + static_cast<double>(bars) * kBar / 2, kTop + kHeight + 14, programs[p].name);
  }
  std::ofstream file(path);
  file << svg << "</svg>\n";
  if (!file.flush()) throw std::runtime_error("The picture '" + path + "' cannot be written.");
}

}  // namespace pergola::bench::blocks
