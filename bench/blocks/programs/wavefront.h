// What the six wavefront programs of section IV-D have in common: a matrix of tiles, one block each, a launch for each
// anti-diagonal of them, several matrices side by side as the grid's y.
//
//   0 1 2 3
//   1 2 3 4     the launch that a tile is in; it needs the tile above and the one to the left (and what is between)
//   2 3 4 5
#pragma once

#include <algorithm>

#include "parts.h"

namespace pergola::bench::blocks {

struct Tiles {
  std::size_t down = 64, across = 64;
  std::size_t matrices = 1;

  explicit Tiles(const Size& size) {
    if (size.kind == Size::Kind::kSmall) down = 3, across = 4, matrices = 2;
    if (size.kind == Size::Kind::kWaves) down = across = 16, matrices = divided_up(size.blocks(), 16);
  }
};

// `arguments` of a launch follow from the diagonal and the row of its first tile.
template <typename Arguments>
void add_diagonals(Program& program, const std::string& kernel, const Tiles& tiles, std::uint32_t threads,
                   const Arguments& arguments) {
  for (std::size_t diagonal = 0; diagonal < tiles.down + tiles.across - 1; ++diagonal) {
    const std::size_t first_row = diagonal < tiles.across ? 0 : diagonal - tiles.across + 1;
    const std::size_t last_row = std::min(diagonal, tiles.down - 1);
    program.launches.push_back({kernel,
                                {as_extent(last_row - first_row + 1), as_extent(tiles.matrices)},
                                {threads},
                                0,
                                arguments(as_int(diagonal), as_int(first_row))});
  }
}

}  // namespace pergola::bench::blocks
