#include "tools/pergola/blocks_svg.h"

#include <fmt/format.h>

#include <algorithm>

namespace pergola::tool {
namespace {

constexpr double kStep = 30, kRadius = 11, kLeft = 24, kTop = 52, kGap = 130;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_markup = c == '<' || c == '>' || c == '&' || c == '"' || static_cast<unsigned char>(c) < ' ';
    out += is_markup ? '_' : c;
  }
  return out;
}

double x_of(std::uint32_t block) {
  return kLeft + kStep * (block + 0.5);
}

void add_row(std::string& svg, std::uint32_t shown, std::uint32_t all, double y, std::string_view colour) {
  for (std::uint32_t block = 0; block < shown; ++block) {
    svg += fmt::format(
        "<circle cx='{}' cy='{}' r='{}' fill='{}' stroke='#333'/><text x='{}' y='{}' text-anchor='middle'>{}</text>\n",
        x_of(block), y, kRadius, colour, x_of(block), y + 4, block);
  }
  if (shown < all) svg += fmt::format("<text x='{}' y='{}'>and {} more</text>\n", x_of(shown), y + 4, all - shown);
}

}  // namespace

std::string blocks_svg(const analysis::BlockRelation& relation, const std::string& parent, const std::string& child,
                       std::uint32_t most_blocks) {
  const std::uint32_t parents = std::min(relation.parents, most_blocks),
                      children = std::min(relation.children, most_blocks);
  const double width = kLeft * 2 + kStep * (std::max({parents, children, 14u}) + 4), height = kTop + kGap + 60;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' font-family='sans-serif' "
      "font-size='10'>\n<rect width='{0}' height='{1}' fill='white'/>\n"
      "<text x='{2}' y='18' font-size='13'>{3}</text>\n<text x='{2}' y='{4}' font-size='13'>{5}: {6}</text>\n",
      width, height, kLeft, escaped(parent), height - 10, escaped(child), to_string(relation.pattern));
  for (std::uint32_t c = 0; c < children; ++c) {
    const auto line = [&](std::uint32_t p) {
      if (p >= parents) return;
      svg += fmt::format("<line x1='{}' y1='{}' x2='{}' y2='{}' stroke='#1f78b4' stroke-opacity='0.6'/>\n", x_of(p),
                         kTop + kRadius, x_of(c), kTop + kGap - kRadius);
    };
    if (relation.pattern == analysis::BlockPattern::kFull) {
      for (std::uint32_t p = 0; p < parents; ++p) line(p);
    }
    for (const std::uint32_t p : relation.parents_of(c)) line(p);
  }
  add_row(svg, parents, relation.parents, kTop, "#fdbf6f");
  add_row(svg, children, relation.children, kTop + kGap, "#b2df8a");
  return svg + "</svg>\n";
}

}  // namespace pergola::tool
