// Products of matrices and vectors: 3MM, BICG, MVT, as PolyBench has them.
#include "parts.h"

namespace pergola::bench::blocks {
namespace {

struct Shape3mm {
  std::size_t ni = 512, nj = 512, nk = 512, nl = 512, nm = 512;
};

// a of n x k by b of k x m.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::size_t n, std::size_t m,
                            std::size_t k) {
  std::vector<double> c(n * m, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < m; ++j) c[i * m + j] += a[i * k + l] * b[l * m + j];
  return c;
}

std::vector<double> doubles(std::size_t count, const Value<float>& value) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
  return values;
}

// Several square systems of which each launch of BICG and MVT has `n` threads each.
struct Systems {
  std::size_t n = 4096, count = 1;
  std::uint32_t threads = 256;

  explicit Systems(const Size& size) {
    if (size.kind == Size::Kind::kSmall) n = 70, count = 2, threads = 32;
    if (size.kind == Size::Kind::kWaves) n = threads, count = size.blocks();
  }
  Dim3 grid() const { return {as_extent(divided_up(n, threads)), as_extent(count)}; }
};

}  // namespace

Program make_3mm(const Size& size) {
  constexpr std::uint32_t kX = 32, kY = 8;
  Shape3mm s;
  if (size.kind == Size::Kind::kSmall) s = {40, 37, 33, 45, 29};
  if (size.kind == Size::Kind::kWaves) {
    const std::size_t n = kX * root_up(divided_up(size.blocks() * kY, kX));
    s = {n, n, n, n, n};
  }
  Program p{"3MM", "3mm.cu", {}, {}, nullptr};
  const auto of_a = uniform_floats(1, -1, 1), of_b = uniform_floats(2, -1, 1), of_c = uniform_floats(3, -1, 1),
             of_d = uniform_floats(4, -1, 1);
  const auto a = add_buffer(p, "a", s.ni * s.nk, of_a), b = add_buffer(p, "b", s.nk * s.nj, of_b),
             c = add_buffer(p, "c", s.nj * s.nm, of_c), d = add_buffer(p, "d", s.nm * s.nl, of_d);
  const auto e = add_zeros(p, "e", Element::kFloat, s.ni * s.nj, Role::kResult),
             f = add_zeros(p, "f", Element::kFloat, s.nj * s.nl, Role::kResult),
             g = add_zeros(p, "g", Element::kFloat, s.ni * s.nl, Role::kResult);
  const auto launch = [&](std::size_t n, std::size_t m, std::size_t k, std::uint32_t x, std::uint32_t y,
                          std::uint32_t z) {
    p.launches.push_back({"product",
                          {as_extent(divided_up(m, kX)), as_extent(divided_up(n, kY))},
                          {kX, kY},
                          0,
                          {as_int(n), as_int(m), as_int(k), buffer(x), buffer(y), buffer(z)}});
  };
  launch(s.ni, s.nj, s.nk, a, b, e);
  launch(s.nj, s.nl, s.nm, c, d, f);
  launch(s.ni, s.nl, s.nj, e, f, g);
  p.check = compared_with(p, [=] {
    auto first = product(doubles(s.ni * s.nk, of_a), doubles(s.nk * s.nj, of_b), s.ni, s.nj, s.nk);
    auto second = product(doubles(s.nj * s.nm, of_c), doubles(s.nm * s.nl, of_d), s.nj, s.nl, s.nm);
    auto third = product(first, second, s.ni, s.nl, s.nj);
    return std::vector<Expected>{
        {e, 1e-5, std::move(first)}, {f, 1e-5, std::move(second)}, {g, 1e-5, std::move(third)}};
  });
  return p;
}

Program make_bicg(const Size& size) {
  const Systems systems(size);
  // Wider than high in the small one, so that the two kernels' grids differ.
  const std::size_t nx = systems.n, ny = size.kind == Size::Kind::kSmall ? nx + 41 : nx, count = systems.count;
  Program p{"BICG", "bicg.cu", {}, {}, nullptr};
  const auto of_a = uniform_floats(1, -1, 1), of_r = uniform_floats(2, -1, 1), of_p = uniform_floats(3, -1, 1);
  const auto a = add_buffer(p, "a", count * nx * ny, of_a), r = add_buffer(p, "r", count * nx, of_r),
             x = add_buffer(p, "p", count * ny, of_p);
  const auto s = add_zeros(p, "s", Element::kFloat, count * ny, Role::kResult),
             q = add_zeros(p, "q", Element::kFloat, count * nx, Role::kResult);
  const Dim3 block{systems.threads};
  p.launches.push_back({"bicg_s",
                        {as_extent(divided_up(ny, systems.threads)), as_extent(count)},
                        block,
                        0,
                        {as_int(nx), as_int(ny), buffer(a), buffer(r), buffer(s)}});
  p.launches.push_back({"bicg_q", systems.grid(), block, 0, {as_int(nx), as_int(ny), buffer(a), buffer(x), buffer(q)}});
  p.check = compared_with(p, [=] {
    std::vector<double> s_right(count * ny, 0.0), q_right(count * nx, 0.0);
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t i = 0; i < nx; ++i)
        for (std::size_t j = 0; j < ny; ++j) {
          const double element = of_a((k * nx + i) * ny + j);
          s_right[k * ny + j] += of_r(k * nx + i) * element;
          q_right[k * nx + i] += of_p(k * ny + j) * element;
        }
    return std::vector<Expected>{{s, 1e-3, std::move(s_right)}, {q, 1e-3, std::move(q_right)}};
  });
  return p;
}

Program make_mvt(const Size& size) {
  const Systems systems(size);
  const std::size_t n = systems.n, count = systems.count;
  Program p{"MVT", "mvt.cu", {}, {}, nullptr};
  const auto of_a = uniform_floats(1, -1, 1), of_x1 = uniform_floats(2, -1, 1), of_x2 = uniform_floats(3, -1, 1),
             of_y1 = uniform_floats(4, -1, 1), of_y2 = uniform_floats(5, -1, 1);
  const auto a = add_buffer(p, "a", count * n * n, of_a), x1 = add_buffer(p, "x1", count * n, of_x1, Role::kResult),
             x2 = add_buffer(p, "x2", count * n, of_x2, Role::kResult), y1 = add_buffer(p, "y1", count * n, of_y1),
             y2 = add_buffer(p, "y2", count * n, of_y2);
  const Dim3 block{systems.threads};
  p.launches.push_back({"mvt_rows", systems.grid(), block, 0, {as_int(n), buffer(a), buffer(x1), buffer(y1)}});
  p.launches.push_back({"mvt_columns", systems.grid(), block, 0, {as_int(n), buffer(a), buffer(x2), buffer(y2)}});
  p.check = compared_with(p, [=] {
    std::vector<double> x1_right(count * n), x2_right(count * n);
    for (std::size_t i = 0; i < count * n; ++i) x1_right[i] = of_x1(i), x2_right[i] = of_x2(i);
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          const double element = of_a((k * n + i) * n + j);
          x1_right[k * n + i] += element * of_y1(k * n + j);
          x2_right[k * n + j] += element * of_y2(k * n + i);
        }
    return std::vector<Expected>{{x1, 1e-3, std::move(x1_right)}, {x2, 1e-3, std::move(x2_right)}};
  });
  return p;
}

}  // namespace pergola::bench::blocks
