// Factorisations of a matrix: GAUSSIAN and LUD as Rodinia has them, GRAMSCHM as PolyBench.
#include "parts.h"

#include <algorithm>

namespace pergola::bench::blocks {
namespace {

// In [-1, 1), `diagonal` more on the diagonal: so much that no pivots are needed.
Value<float> dominant(std::uint64_t seed, std::size_t columns, double diagonal) {
  return [=](std::size_t i) {
    return static_cast<float>(uniform(seed, i) * 2 - 1 + (i / columns == i % columns ? diagonal : 0));
  };
}
double diagonal_of(std::size_t n) {
  return 4 + static_cast<double>(n) / 4;
}

}  // namespace

Program make_gaussian(const Size& size) {
  constexpr std::uint32_t kRow = 512, kTile = 4;
  std::size_t n = 256;
  if (size.kind == Size::Kind::kSmall) n = 22;
  if (size.kind == Size::Kind::kWaves) n = kTile * std::max<std::size_t>(1, root_up(size.blocks()));
  Program p{"GAUSSIAN", "gaussian.cu", {}, {}, nullptr};
  const auto of_a = dominant(1, n, diagonal_of(n));
  const auto of_b = uniform_floats(2, -10, 10);
  const auto a = add_buffer(p, "a", n * n, of_a, Role::kResult), b = add_buffer(p, "b", n, of_b, Role::kResult);
  const auto m = add_zeros(p, "m", Element::kFloat, n * n, Role::kResult);
  const std::uint32_t tiles = as_extent(divided_up(n, kTile));
  for (std::size_t t = 0; t + 1 < n; ++t) {
    p.launches.push_back(
        {"multipliers", {as_extent(divided_up(n, kRow))}, {kRow}, 0, {buffer(m), buffer(a), as_int(n), as_int(t)}});
    p.launches.push_back(
        {"eliminate", {tiles, tiles}, {kTile, kTile}, 0, {buffer(m), buffer(a), buffer(b), as_int(n), as_int(t)}});
  }
  p.check = compared_with(p, [=] {
    std::vector<double> a_right(n * n), b_right(n), m_right(n * n, 0.0);
    for (std::size_t i = 0; i < n * n; ++i) a_right[i] = of_a(i);
    for (std::size_t i = 0; i < n; ++i) b_right[i] = of_b(i);
    for (std::size_t t = 0; t + 1 < n; ++t)
      for (std::size_t i = t + 1; i < n; ++i) {
        const double by = a_right[i * n + t] / a_right[t * n + t];
        m_right[i * n + t] = by;
        for (std::size_t j = t; j < n; ++j) a_right[i * n + j] -= by * a_right[t * n + j];
        b_right[i] -= by * b_right[t];
      }
    return std::vector<Expected>{
        {a, 1e-4, std::move(a_right)}, {b, 1e-4, std::move(b_right)}, {m, 1e-4, std::move(m_right)}};
  });
  return p;
}

Program make_gramschm(const Size& size) {
  constexpr std::uint32_t kThreads = 32;
  // `steps` columns are made orthonormal, all `nj` orthogonal to these.
  std::size_t ni = 64, nj = 64, steps = 64;
  if (size.kind == Size::Kind::kSmall) ni = 45, nj = 37, steps = 37;
  if (size.kind == Size::Kind::kWaves) nj = kThreads * std::max<std::size_t>(2, size.blocks());
  Program p{"GRAMSCHM", "gramschm.cu", {}, {}, nullptr};
  const auto of_a = dominant(1, nj, diagonal_of(steps));
  const auto a = add_buffer(p, "a", ni * nj, of_a, Role::kResult);
  const auto q = add_zeros(p, "q", Element::kFloat, ni * nj, Role::kResult),
             r = add_zeros(p, "r", Element::kFloat, steps * nj, Role::kResult);
  const std::uint32_t rows = as_extent(divided_up(ni, kThreads)), columns = as_extent(divided_up(nj, kThreads));
  for (std::size_t k = 0; k < steps; ++k) {
    p.launches.push_back({"column_norm", {}, {kThreads}, 0, {as_int(ni), as_int(nj), buffer(a), buffer(r), as_int(k)}});
    p.launches.push_back(
        {"column_of_q", {rows}, {kThreads}, 0, {as_int(ni), as_int(nj), buffer(a), buffer(r), buffer(q), as_int(k)}});
    p.launches.push_back(
        {"project", {columns}, {kThreads}, 0, {as_int(ni), as_int(nj), buffer(a), buffer(r), buffer(q), as_int(k)}});
  }
  p.check = compared_with(p, [=] {
    std::vector<double> a_right(ni * nj), q_right(ni * nj, 0.0), r_right(steps * nj, 0.0);
    for (std::size_t i = 0; i < ni * nj; ++i) a_right[i] = of_a(i);
    for (std::size_t k = 0; k < steps; ++k) {
      double norm = 0;
      for (std::size_t i = 0; i < ni; ++i) norm += a_right[i * nj + k] * a_right[i * nj + k];
      norm = r_right[k * nj + k] = std::sqrt(norm);
      for (std::size_t i = 0; i < ni; ++i) q_right[i * nj + k] = a_right[i * nj + k] / norm;
      for (std::size_t i = 0; i < ni; ++i)
        for (std::size_t j = k + 1; j < nj; ++j) r_right[k * nj + j] += q_right[i * nj + k] * a_right[i * nj + j];
      for (std::size_t i = 0; i < ni; ++i)
        for (std::size_t j = k + 1; j < nj; ++j) a_right[i * nj + j] -= q_right[i * nj + k] * r_right[k * nj + j];
    }
    return std::vector<Expected>{
        {a, 1e-3, std::move(a_right)}, {q, 1e-3, std::move(q_right)}, {r, 1e-3, std::move(r_right)}};
  });
  return p;
}

Program make_lud(const Size& size) {
  constexpr std::uint32_t kTile = 16;
  std::size_t tiles = 16;
  if (size.kind == Size::Kind::kSmall) tiles = 4;
  if (size.kind == Size::Kind::kWaves) tiles = 1 + std::max<std::size_t>(1, root_up(size.blocks()));
  const std::size_t n = kTile * tiles;
  Program p{"LUD", "lud.cu", {}, {}, nullptr};
  const auto of_m = dominant(1, n, diagonal_of(n));
  const auto m = add_buffer(p, "m", n * n, of_m, Role::kResult);
  for (std::size_t step = 0; step < tiles; ++step) {
    const std::vector<Argument> arguments{buffer(m), as_int(n), as_int(step * kTile)};
    const std::uint32_t rest = as_extent(tiles - step - 1);
    p.launches.push_back({"lud_diagonal", {}, {kTile}, 0, arguments});
    if (rest == 0) break;
    p.launches.push_back({"lud_perimeter", {rest}, {2 * kTile}, 0, arguments});
    p.launches.push_back({"lud_internal", {rest, rest}, {kTile, kTile}, 0, arguments});
  }
  p.check = compared_with(p, [=] {
    std::vector<double> right(n * n);
    for (std::size_t i = 0; i < n * n; ++i) right[i] = of_m(i);
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = k + 1; i < n; ++i) {
        const double by = right[i * n + k] /= right[k * n + k];
        for (std::size_t j = k + 1; j < n; ++j) right[i * n + j] -= by * right[k * n + j];
      }
    return std::vector<Expected>{{m, 1e-4, std::move(right)}};
  });
  return p;
}

}  // namespace pergola::bench::blocks
