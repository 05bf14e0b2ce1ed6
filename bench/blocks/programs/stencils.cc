// Stencils: FDTD-2D as PolyBench has it, HS and PATH as Rodinia has them.
#include <algorithm>

#include "parts.h"

namespace pergola::bench::blocks {

Program make_fdtd2d(const Size& size) {
  constexpr std::uint32_t kX = 32, kY = 8;
  std::size_t nx = 2048, ny = 2048, steps = 8;
  if (size.kind == Size::Kind::kSmall) nx = 50, ny = 45, steps = 3;
  if (size.kind == Size::Kind::kWaves) nx = ny = kX * root_up(divided_up(size.blocks() * kY, kX));
  Program p{"FDTD-2D", "fdtd2d.cu", {}, {}, nullptr};
  const auto of_ex = uniform_floats(1, -1, 1), of_ey = uniform_floats(2, -1, 1), of_hz = uniform_floats(3, -1, 1),
             of_source = uniform_floats(4, -1, 1);
  const auto ex = add_buffer(p, "ex", nx * (ny + 1), of_ex, Role::kResult),
             ey = add_buffer(p, "ey", (nx + 1) * ny, of_ey, Role::kResult),
             hz = add_buffer(p, "hz", nx * ny, of_hz, Role::kResult),
             source = add_buffer(p, "source", steps, of_source);
  const Dim3 grid{as_extent(divided_up(ny, kX)), as_extent(divided_up(nx, kY))}, block{kX, kY};
  for (std::size_t t = 0; t < steps; ++t) {
    p.launches.push_back(
        {"step_ey", grid, block, 0, {as_int(nx), as_int(ny), buffer(source), buffer(ey), buffer(hz), as_int(t)}});
    p.launches.push_back({"step_ex", grid, block, 0, {as_int(nx), as_int(ny), buffer(ex), buffer(hz)}});
    p.launches.push_back({"step_hz", grid, block, 0, {as_int(nx), as_int(ny), buffer(ex), buffer(ey), buffer(hz)}});
  }
  p.check = compared_with(p, [=] {
    const auto floats = made(nx * (ny + 1), of_ex);
    std::vector<double> x(floats.begin(), floats.end()), y((nx + 1) * ny), z(nx * ny);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = of_ey(i);
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = of_hz(i);
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t i = 0; i < nx; ++i)
        for (std::size_t j = 0; j < ny; ++j)
          y[i * ny + j] = i == 0 ? of_source(t) : y[i * ny + j] - 0.5 * (z[i * ny + j] - z[(i - 1) * ny + j]);
      for (std::size_t i = 0; i < nx; ++i)
        for (std::size_t j = 1; j < ny; ++j) x[i * (ny + 1) + j] -= 0.5 * (z[i * ny + j] - z[i * ny + j - 1]);
      for (std::size_t i = 0; i < nx; ++i)
        for (std::size_t j = 0; j < ny; ++j)
          z[i * ny + j] -= 0.7 * (x[i * (ny + 1) + j + 1] - x[i * (ny + 1) + j] + y[(i + 1) * ny + j] - y[i * ny + j]);
    }
    return std::vector<Expected>{{ex, 1e-4, std::move(x)}, {ey, 1e-4, std::move(y)}, {hz, 1e-4, std::move(z)}};
  });
  return p;
}

Program make_hotspot(const Size& size) {
  constexpr std::uint32_t kSide = 16;
  constexpr std::size_t kStepsPerLaunch = 2, kInner = kSide - 2 * kStepsPerLaunch;
  std::size_t rows = 512, columns = 512, launches = 10;
  if (size.kind == Size::Kind::kSmall) rows = 50, columns = 41, launches = 3;
  if (size.kind == Size::Kind::kWaves) rows = columns = kInner * root_up(size.blocks());
  Program p{"HS", "hotspot.cu", {}, {}, nullptr};
  // Rodinia's chip: 16 mm x 16 mm x 0.5 mm of silicon.
  const double height = 0.016 / static_cast<double>(rows), width = 0.016 / static_cast<double>(columns);
  const double thickness = 0.0005, conductivity = 100.0;
  const double capacity = 0.5 * 1.75e6 * thickness * width * height;
  const double x_resistance = width / (2.0 * conductivity * thickness * height);
  const double y_resistance = height / (2.0 * conductivity * thickness * width);
  const double z_resistance = thickness / (conductivity * height * width);
  const double max_slope = 3.0e6 / (0.5 * thickness * 1.75e6);
  const auto by_capacity = static_cast<float>(0.001 / max_slope / capacity);
  const auto x_conductance = static_cast<float>(1 / x_resistance), y_conductance = static_cast<float>(1 / y_resistance),
             z_conductance = static_cast<float>(1 / z_resistance);
  const auto of_power = uniform_floats(1, 0, 0.01), of_heat = uniform_floats(2, 320, 345);
  const std::size_t cells = rows * columns;
  const auto power = add_buffer(p, "power", cells, of_power);
  const std::uint32_t heat[2] = {add_buffer(p, "heat", cells, of_heat, Role::kResult),
                                 add_zeros(p, "other heat", Element::kFloat, cells, Role::kResult)};
  const Dim3 grid{as_extent(divided_up(columns, kInner)), as_extent(divided_up(rows, kInner))};
  for (std::size_t l = 0; l < launches; ++l)
    p.launches.push_back(
        {"hotspot",
         grid,
         {kSide, kSide},
         0,
         {as_int(kStepsPerLaunch), buffer(power), buffer(heat[l % 2]), buffer(heat[(l + 1) % 2]), as_int(columns),
          as_int(rows), as_int(kStepsPerLaunch), by_capacity, x_conductance, y_conductance, z_conductance}});
  p.check = compared_with(p, [=, first = heat[0], second = heat[1]] {
    std::vector<double> now(cells), next(cells), before_last(cells);
    for (std::size_t i = 0; i < cells; ++i) now[i] = of_heat(i);
    for (std::size_t s = 0; s < launches * kStepsPerLaunch; ++s) {
      if (s + kStepsPerLaunch == launches * kStepsPerLaunch) before_last = now;
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) {
          const double here = now[i * columns + j];
          const double north = i > 0 ? now[(i - 1) * columns + j] : here,
                       south = i + 1 < rows ? now[(i + 1) * columns + j] : here;
          const double west = j > 0 ? now[i * columns + j - 1] : here,
                       east = j + 1 < columns ? now[i * columns + j + 1] : here;
          next[i * columns + j] =
              here + by_capacity * (of_power(i * columns + j) + (south + north - 2 * here) * y_conductance +
                                    (east + west - 2 * here) * x_conductance + (80.0 - here) * z_conductance);
        }
      std::swap(now, next);
    }
    const bool last_is_first = launches % 2 == 0;
    return std::vector<Expected>{{last_is_first ? first : second, 1e-5, std::move(now)},
                                 {last_is_first ? second : first, 1e-5, std::move(before_last)}};
  });
  return p;
}

Program make_pathfinder(const Size& size) {
  constexpr std::uint32_t kWidth = 256;
  std::size_t rows = 100, columns = 100000, rows_per_launch = 20;
  if (size.kind == Size::Kind::kSmall) rows = 30, columns = 1003, rows_per_launch = 8;
  const std::size_t inner = kWidth - 2 * rows_per_launch;
  if (size.kind == Size::Kind::kWaves) columns = inner * size.blocks();
  Program p{"PATH", "pathfinder.cu", {}, {}, nullptr};
  const auto of_costs = uniform_ints(1, 0, 10);
  const auto of_first = uniform_ints(2, 0, 10);
  // The first row of the grid is where the ways begin.
  const auto costs = add_buffer(p, "costs", (rows - 1) * columns, of_costs);
  const std::uint32_t best[2] = {add_buffer(p, "best", columns, of_first),
                                 add_zeros(p, "other best", Element::kInt, columns, Role::kInput)};
  std::size_t launches = 0;
  for (std::size_t row = 0; row < rows - 1; row += rows_per_launch, ++launches) {
    const std::size_t steps = std::min(rows_per_launch, rows - 1 - row);
    // Fewer steps have fewer columns at a block's sides.
    p.launches.push_back({"pathfinder",
                          {as_extent(divided_up(columns, kWidth - 2 * steps))},
                          {kWidth},
                          0,
                          {as_int(steps), buffer(costs), buffer(best[launches % 2]), buffer(best[(launches + 1) % 2]),
                           as_int(columns), as_int(row), as_int(steps)}});
  }
  const std::uint32_t last = best[launches % 2];
  p.buffers[last].is_result = true;
  p.check = compared_with(p, [=] {
    std::vector<double> now(columns), next(columns);
    for (std::size_t j = 0; j < columns; ++j) now[j] = of_first(j);
    for (std::size_t i = 0; i + 1 < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t west = j > 0 ? j - 1 : j, east = std::min(j + 1, columns - 1);
        next[j] = of_costs(i * columns + j) + std::min({now[west], now[j], now[east]});
      }
      std::swap(now, next);
    }
    return std::vector<Expected>{{last, 0, std::move(now)}};
  });
  return p;
}

}  // namespace pergola::bench::blocks
