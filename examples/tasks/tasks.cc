// Narrow tasks: the Mandelbrot set in tiles of a single block, each spawned as a task of its own.
//
//   tasks      PERGOLA_DEVICE=cpu | cuda:0 chooses where it runs
//
// A tile has 256 threads, far too few for a GPU, and takes longer the more of the set is in it. Launched one by one,
// tiles would run a few at a time; as tasks they fill the device, and a warp that is done with one takes the next.
#include <pergola/pergola.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>

namespace {

constexpr int kWidth = 512, kHeight = 512, kTileWidth = 32, kTileHeight = 8, kLimit = 256;
constexpr float kLeft = -2.2f, kTop = -1.5f, kStep = 3.f / kWidth;

// Counts steps until a point leaves the circle of radius 2. Every operation is rounded on its own, so that the host,
// which does the same, gets the same bits.
constexpr const char* kKernel = R"(
extern "C" __global__ void tile(unsigned short* image, int width, int left, int top, float x0, float y0, float step, int limit) {
  const int column = left + threadIdx.x, row = top + threadIdx.y;
  const float cx = __fadd_rn(x0, __fmul_rn(step, (float)column)), cy = __fadd_rn(y0, __fmul_rn(step, (float)row));
  float x = 0, y = 0;
  int n = 0;
  while (n < limit) {
    const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
    if (__fadd_rn(xx, yy) > 4.0f) break;
    const float xy = __fmul_rn(x, y);
    x = __fadd_rn(__fadd_rn(xx, -yy), cx);
    y = __fadd_rn(__fadd_rn(xy, xy), cy);
    ++n;
  }
  image[row * width + column] = (unsigned short)n;
})";

int steps(int column, int row) {
  const float cx = kLeft + kStep * static_cast<float>(column), cy = kTop + kStep * static_cast<float>(row);
  float x = 0, y = 0;
  int n = 0;
  for (; n < kLimit; ++n) {
    const float xx = x * x, yy = y * y;
    if (xx + yy > 4.f) break;
    const float xy = x * y;
    x = (xx - yy) + cx;
    y = (xy + xy) + cy;
  }
  return n;
}

// How many pixels are not the host's.
int count_wrong(std::span<const std::uint16_t> image) {
  int wrong = 0;
  for (int row = 0; row < kHeight; ++row)
    for (int column = 0; column < kWidth; ++column) wrong += image[row * kWidth + column] != steps(column, row);
  return wrong;
}

void print(std::span<const std::uint16_t> image) {
  for (int row = 0; row < kHeight; row += kHeight / 24) {
    for (int column = 0; column < kWidth; column += kWidth / 64) {
      const int n = image[row * kWidth + column];
      std::putchar(n == kLimit ? '#' : n > 16 ? '+' : n > 6 ? '.' : ' ');
    }
    std::putchar('\n');
  }
}

}  // namespace

int main() {
  try {
    pergola::Session session;
    auto kernel = session.load_text(kKernel).kernel("tile");
    auto image = session.array<std::uint16_t>(kWidth * kHeight, 0);

    pergola::TaskPool pool = session.task_pool();
    pergola::TaskKind tile = pool.prepare(kernel, pergola::grid(1, {kTileWidth, kTileHeight}));  // compiles
    const auto start = std::chrono::steady_clock::now();
    for (int top = 0; top < kHeight; top += kTileHeight)
      for (int left = 0; left < kWidth; left += kTileWidth)
        tile(image, kWidth, left, top, kLeft, kTop, kStep, kLimit);  // returns at once
    const std::span<const std::uint16_t> pixels = image.read();      // waits for the image's tasks
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

    print(pixels);
    const pergola_task_pool_info info = pool.info();
    std::printf("%s: %llu tasks in %.2f ms, by %u %s\n", session.device().name,
                static_cast<unsigned long long>(info.spawned), ms, info.blocks,
                info.launches != 0 ? "resident blocks" : "threads");
    if (const int wrong = count_wrong(pixels); wrong != 0) {
      std::fprintf(stderr, "tasks: %d pixels are not the host's\n", wrong);
      return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tasks: %s\n", error.what());
    return 1;
  }
  return 0;
}
