// MB: how many iterations each pixel of a tile of the Mandelbrot set takes, at most 255. What a task takes depends on
// where its tile lies. Every operation rounds once, as the kernel's do, so that all counts agree.
#include <cmath>

#include "problem.h"

namespace narrow {
namespace {

constexpr int kLimit = 255;

struct Tile {
  float left, top, step;
};

Tile tile_of(const Task& task) {
  const double side = std::exp2(-1 - 4 * uniform(1, task.index));
  return {static_cast<float>(-2.0 + 2.6 * uniform(2, task.index) - side / 2),
          static_cast<float>(-1.2 + 2.4 * uniform(3, task.index) - side / 2), static_cast<float>(side / task.size)};
}

class Mandelbrot : public Kind {
 public:
  Mandelbrot() { kernel = "mandelbrot"; }

  Sizes sizes(int size) const override {
    return {0, static_cast<std::size_t>(size) * static_cast<std::size_t>(size), 0};
  }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t image;
      std::int32_t size, limit;
      float left, top, step;
    } p{at.out, task.size, kLimit, 0, 0, 0};
    const Tile tile = tile_of(task);
    p.left = tile.left, p.top = tile.top, p.step = tile.step;
    Parameters packed = pack(p);
    packed.size = 28;  // the struct ends with padding, the kernel's parameters do not
    return packed;
  }
  void generate(const Task&, std::byte*) const override {}
  void compute(const Task& task, const std::byte*, std::byte* out) const override {
    const Tile tile = tile_of(task);
    for (int row = 0; row < task.size; ++row) {
      const float cy = std::fma(static_cast<float>(row), tile.step, tile.top);
      for (int column = 0; column < task.size; ++column) {
        const float cx = std::fma(static_cast<float>(column), tile.step, tile.left);
        out[row * task.size + column] = static_cast<std::byte>(iterations(cx, cy));
      }
    }
  }

 private:
  static int iterations(float cx, float cy) {
    float x = 0, y = 0;
    int count = 0;
    while (count < kLimit) {
      const float yy = y * y;
      if (std::fma(x, x, yy) > 4.f) break;
      const float next = std::fma(x, x, std::fma(-y, y, cx));
      y = std::fma(x + x, y, cy);
      x = next;
      ++count;
    }
    return count;
  }
};

}  // namespace

std::unique_ptr<Kind> make_mandelbrot() {
  return std::make_unique<Mandelbrot>();
}

}  // namespace narrow
