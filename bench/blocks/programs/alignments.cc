// Alignments of two sequences by dynamic programming: NW as Rodinia has it, and the wavefronts DTW and SW.
#include "wavefront.h"

namespace pergola::bench::blocks {

Program make_nw(const Size& size) {
  constexpr std::uint32_t kTile = 16;
  constexpr std::int32_t kPenalty = 10, kLetters = 24;
  std::size_t tiles = 128, count = 1;
  if (size.kind == Size::Kind::kSmall) tiles = 5, count = 2;
  if (size.kind == Size::Kind::kWaves) tiles = 16, count = divided_up(size.blocks(), tiles);
  const std::size_t n = tiles * kTile, columns = n + 1, cells = columns * columns;
  Program p{"NW", "nw.cu", {}, {}, nullptr};
  // Of the letters that meet in a cell; like letters are worth more.
  const auto letter_down = uniform_ints(1, 0, kLetters), letter_across = uniform_ints(2, 0, kLetters);
  const Value<std::int32_t> of_similarity = [=](std::size_t i) {
    const std::size_t matrix = i / cells, row = i % cells / columns, column = i % columns;
    if (row == 0 || column == 0) return 0;
    const auto one = letter_down(matrix * columns + row), other = letter_across(matrix * columns + column);
    const auto pair = static_cast<std::uint64_t>(std::min(one, other) * kLetters + std::max(one, other));
    return static_cast<std::int32_t>(uniform(3, pair) * 8) - 4 + (one == other ? 8 : 0);
  };
  const Value<std::int32_t> of_scores = [=](std::size_t i) {
    const std::size_t row = i % cells / columns, column = i % cells % columns;
    return row == 0 || column == 0 ? -kPenalty * static_cast<std::int32_t>(row + column) : 0;
  };
  const auto similarity = add_buffer(p, "similarity", count * cells, of_similarity),
             scores = add_buffer(p, "scores", count * cells, of_scores, Role::kResult);
  for (std::size_t i = 1; i <= tiles; ++i)
    p.launches.push_back({"nw_upper",
                          {as_extent(i), as_extent(count)},
                          {kTile},
                          0,
                          {buffer(similarity), buffer(scores), as_int(columns), kPenalty, as_int(i)}});
  for (std::size_t i = tiles - 1; i >= 1; --i)
    p.launches.push_back({"nw_lower",
                          {as_extent(i), as_extent(count)},
                          {kTile},
                          0,
                          {buffer(similarity), buffer(scores), as_int(columns), kPenalty, as_int(i), as_int(tiles)}});
  p.check = compared_with(p, [=] {
    std::vector<double> right(count * cells);
    for (std::size_t i = 0; i < right.size(); ++i) {
      const std::size_t row = i % cells / columns, column = i % cells % columns;
      right[i] = row == 0 || column == 0 ? of_scores(i)
                                         : std::max({right[i - columns - 1] + of_similarity(i), right[i - 1] - kPenalty,
                                                     right[i - columns] - kPenalty});
    }
    return std::vector<Expected>{{scores, 0, std::move(right)}};
  });
  return p;
}

namespace {

constexpr std::size_t kTile = 32;

// A matrix of rows x columns cells for each pair of sequences, and a first row and column that are given.
struct Pairs {
  std::size_t rows, columns, count;
  explicit Pairs(const Tiles& tiles) : rows(tiles.down * kTile), columns(tiles.across * kTile), count(tiles.matrices) {}
  std::size_t pitch() const { return columns + 1; }
  std::size_t cells() const { return count * (rows + 1) * pitch(); }
  std::size_t row(std::size_t i) const { return i / pitch() % (rows + 1); }
  std::size_t column(std::size_t i) const { return i % pitch(); }
  // Of the element of the sequences that meet in cell i, which is in neither the first row nor the first column.
  std::size_t down(std::size_t i) const { return i / pitch() / (rows + 1) * rows + row(i) - 1; }
  std::size_t across(std::size_t i) const { return i / pitch() / (rows + 1) * columns + column(i) - 1; }
};

}  // namespace

Program make_dtw(const Size& size) {
  const Tiles tiles(size);
  const Pairs pairs(tiles);
  constexpr float kFar = 1e30f;
  Program p{"DTW", "dtw.cu", {}, {}, nullptr};
  const auto of_a = uniform_floats(1, -1, 1), of_b = uniform_floats(2, -1, 1);
  const Value<float> of_costs = [=](std::size_t i) {
    return (pairs.row(i) == 0) != (pairs.column(i) == 0) ? kFar : 0.0f;
  };
  const auto a = add_buffer(p, "a", pairs.count * pairs.rows, of_a),
             b = add_buffer(p, "b", pairs.count * pairs.columns, of_b),
             costs = add_buffer(p, "costs", pairs.cells(), of_costs, Role::kResult);
  add_diagonals(p, "dtw", tiles, kTile, [&](std::int32_t diagonal, std::int32_t first_row) {
    return std::vector<Argument>{buffer(a), buffer(b), buffer(costs), as_int(pairs.rows), as_int(pairs.columns),
                                 diagonal,  first_row};
  });
  p.check = compared_with(p, [=] {
    std::vector<double> right(pairs.cells());
    for (std::size_t i = 0; i < right.size(); ++i)
      right[i] = pairs.row(i) == 0 || pairs.column(i) == 0
                     ? static_cast<double>(of_costs(i))
                     : std::min({right[i - pairs.pitch() - 1], right[i - pairs.pitch()], right[i - 1]}) +
                           std::fabs(static_cast<double>(of_a(pairs.down(i))) - of_b(pairs.across(i)));
    return std::vector<Expected>{{costs, 1e-4, std::move(right)}};
  });
  return p;
}

Program make_smith_waterman(const Size& size) {
  const Tiles tiles(size);
  const Pairs pairs(tiles);
  constexpr std::int32_t kMatch = 3, kMismatch = 3, kGap = 2;
  Program p{"SW", "sw.cu", {}, {}, nullptr};
  const auto of_query = uniform_bytes(1, 4), of_subject = uniform_bytes(2, 4);
  const auto query = add_buffer(p, "query", pairs.count * pairs.rows, of_query),
             subject = add_buffer(p, "subject", pairs.count * pairs.columns, of_subject);
  const auto scores = add_zeros(p, "scores", Element::kInt, pairs.cells(), Role::kResult);
  add_diagonals(p, "smith_waterman", tiles, kTile, [&](std::int32_t diagonal, std::int32_t first_row) {
    return std::vector<Argument>{
        buffer(query), buffer(subject), buffer(scores), as_int(pairs.rows), as_int(pairs.columns),
        diagonal,      first_row,       kMatch,         kMismatch,          kGap};
  });
  p.check = compared_with(p, [=] {
    std::vector<double> right(pairs.cells(), 0.0);
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (pairs.row(i) == 0 || pairs.column(i) == 0) continue;
      const double both =
          right[i - pairs.pitch() - 1] + (of_query(pairs.down(i)) == of_subject(pairs.across(i)) ? kMatch : -kMismatch);
      right[i] = std::max({0.0, both, right[i - pairs.pitch()] - kGap, right[i - 1] - kGap});
    }
    return std::vector<Expected>{{scores, 0, std::move(right)}};
  });
  return p;
}

}  // namespace pergola::bench::blocks
