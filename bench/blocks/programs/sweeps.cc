// Wavefronts over a field of numbers: HEAT, SOR, IIMG, IHIST.
#include "wavefront.h"

namespace pergola::bench::blocks {
namespace {

constexpr std::size_t kTile = 32;

// Squares with a border of one cell.
struct Field {
  std::size_t rows, columns, matrices;
  explicit Field(const Tiles& tiles)
      : rows(tiles.down * kTile), columns(tiles.across * kTile), matrices(tiles.matrices) {}
  std::size_t pitch() const { return columns + 2; }
  std::size_t cells() const { return matrices * (rows + 2) * pitch(); }
  bool is_border(std::size_t i) const {
    const std::size_t row = i / pitch() % (rows + 2), column = i % pitch();
    return row == 0 || row == rows + 1 || column == 0 || column == columns + 1;
  }
  // Calls body(i) for the cells inside, row by row.
  template <typename Body>
  void for_inside(const Body& body) const {
    for (std::size_t i = 0; i < cells(); ++i)
      if (!is_border(i)) body(i);
  }
};

}  // namespace

Program make_heat(const Size& size) {
  const Tiles tiles(size);
  const Field field(tiles);
  constexpr float kRatio = 0.4f;
  Program p{"HEAT", "heat.cu", {}, {}, nullptr};
  const auto of_before = uniform_floats(1, 0, 100);
  const Value<float> border = [=](std::size_t i) { return field.is_border(i) ? of_before(i) : 0.0f; };
  const auto before = add_buffer(p, "before", field.cells(), of_before);
  const auto after = add_buffer(p, "after", field.cells(), border, Role::kResult);
  add_diagonals(p, "heat", tiles, kTile, [&](std::int32_t diagonal, std::int32_t first_row) {
    return std::vector<Argument>{buffer(before), buffer(after), as_int(field.rows), as_int(field.columns), diagonal,
                                 first_row,      kRatio};
  });
  p.check = compared_with(p, [=] {
    std::vector<double> cell(field.cells());
    for (std::size_t i = 0; i < cell.size(); ++i) cell[i] = of_before(i);
    const double ratio = kRatio;
    field.for_inside([&](std::size_t i) {
      cell[i] = (cell[i] + ratio * (cell[i - field.pitch()] + cell[i - 1] + cell[i + field.pitch()] + cell[i + 1])) /
                (1 + 4 * ratio);
    });
    return std::vector<Expected>{{after, 1e-5, std::move(cell)}};
  });
  return p;
}

Program make_sor(const Size& size) {
  const Tiles tiles(size);
  const Field field(tiles);
  constexpr float kOmega = 1.7f;
  Program p{"SOR", "sor.cu", {}, {}, nullptr};
  const auto of_u = uniform_floats(1, -1, 1), of_f = uniform_floats(2, -1, 1);
  const auto u = add_buffer(p, "u", field.cells(), of_u, Role::kResult), f = add_buffer(p, "f", field.cells(), of_f);
  add_diagonals(p, "sor", tiles, kTile, [&](std::int32_t diagonal, std::int32_t first_row) {
    return std::vector<Argument>{buffer(u), buffer(f), as_int(field.rows), as_int(field.columns), diagonal,
                                 first_row, kOmega};
  });
  p.check = compared_with(p, [=] {
    std::vector<double> cell(field.cells());
    for (std::size_t i = 0; i < cell.size(); ++i) cell[i] = of_u(i);
    const double omega = kOmega;
    field.for_inside([&](std::size_t i) {
      const double around = cell[i - field.pitch()] + cell[i - 1] + cell[i + field.pitch()] + cell[i + 1];
      cell[i] = (1 - omega) * cell[i] + omega / 4 * (around - of_f(i));
    });
    return std::vector<Expected>{{u, 1e-5, std::move(cell)}};
  });
  return p;
}

Program make_integral_image(const Size& size) {
  const Tiles tiles(size);
  const std::size_t rows = tiles.down * kTile, columns = tiles.across * kTile, pitch = columns + 1;
  Program p{"IIMG", "integral_image.cu", {}, {}, nullptr};
  const auto of_pixels = uniform_bytes(1, 256);
  const auto pixels = add_buffer(p, "pixels", tiles.matrices * rows * columns, of_pixels);
  const auto sums = add_zeros(p, "sums", Element::kInt, tiles.matrices * (rows + 1) * pitch, Role::kResult);
  add_diagonals(p, "integral_image", tiles, kTile, [&](std::int32_t diagonal, std::int32_t first_row) {
    return std::vector<Argument>{buffer(pixels), buffer(sums), as_int(rows), as_int(columns), diagonal, first_row};
  });
  p.check = compared_with(p, [=] {
    std::vector<double> right(tiles.matrices * (rows + 1) * pitch, 0.0);
    for (std::size_t k = 0; k < tiles.matrices; ++k)
      for (std::size_t i = 0; i < rows; ++i) {
        double in_row = 0;
        for (std::size_t j = 0; j < columns; ++j) {
          in_row += of_pixels((k * rows + i) * columns + j);
          const std::size_t at = (k * (rows + 1) + i + 1) * pitch + j + 1;
          right[at] = in_row + right[at - pitch];
        }
      }
    return std::vector<Expected>{{sums, 0, std::move(right)}};
  });
  return p;
}

Program make_integral_histogram(const Size& size) {
  constexpr std::size_t kSmallTile = 8, kBins = 32;
  const Tiles tiles(size);
  const std::size_t rows = tiles.down * kSmallTile, columns = tiles.across * kSmallTile, pitch = columns + 1;
  Program p{"IHIST", "integral_histogram.cu", {}, {}, nullptr};
  const auto of_bins = uniform_bytes(1, kBins);
  const auto bins = add_buffer(p, "bins", tiles.matrices * rows * columns, of_bins);
  const auto counts = add_zeros(p, "counts", Element::kInt, tiles.matrices * (rows + 1) * pitch * kBins, Role::kResult);
  add_diagonals(p, "integral_histogram", tiles, kBins, [&](std::int32_t diagonal, std::int32_t first_row) {
    return std::vector<Argument>{buffer(bins), buffer(counts), as_int(rows), as_int(columns), diagonal, first_row};
  });
  p.check = compared_with(p, [=] {
    std::vector<double> right(tiles.matrices * (rows + 1) * pitch * kBins, 0.0);
    for (std::size_t k = 0; k < tiles.matrices; ++k)
      for (std::size_t i = 0; i < rows; ++i) {
        std::vector<double> in_row(kBins, 0.0);
        for (std::size_t j = 0; j < columns; ++j) {
          ++in_row[of_bins((k * rows + i) * columns + j)];
          const std::size_t at = ((k * (rows + 1) + i + 1) * pitch + j + 1) * kBins;
          for (std::size_t bin = 0; bin < kBins; ++bin) right[at + bin] = in_row[bin] + right[at - pitch * kBins + bin];
        }
      }
    return std::vector<Expected>{{counts, 0, std::move(right)}};
  });
  return p;
}

}  // namespace pergola::bench::blocks
