// Tasks that spawn tasks: the Mandelbrot set by subdivision (Mariani and Silver). A square whose border has one value
// has it inside too; any other is divided into four, each a task that the task spawns.
//
//   subdivide [SIDE]      SIDE points a row, a power of two from 128 to 4096, 1024 if not given
//                         PERGOLA_DEVICE=cpu | cuda:0 chooses where it runs
//
// How many squares there are is known to nobody before. A task that finds no room for another does its square point by
// point.
#include <pergola/pergola.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace {

constexpr int kTile = 64, kLimit = 512, kThreads = 64;
constexpr float kLeft = -2.2f, kTop = -1.5f, kSide = 3.f;

constexpr const char* kKernels = R"(
#include <pergola/device/tasks.h>

struct Picture { unsigned short* points; unsigned long long squares; unsigned* counts; float left, top, step; int size, limit; };

// Every operation is rounded on its own, so that the host, which does the same, gets the same bits.
__device__ unsigned short steps(const Picture* p, int column, int row) {
  const float cx = __fadd_rn(p->left, __fmul_rn(p->step, (float)column));
  const float cy = __fadd_rn(p->top, __fmul_rn(p->step, (float)row));
  float x = 0, y = 0;
  int n = 0;
  for (; n < p->limit; ++n) {
    const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
    if (__fadd_rn(xx, yy) > 4.0f) break;
    const float xy = __fmul_rn(x, y);
    x = __fadd_rn(__fadd_rn(xx, -yy), cx);
    y = __fadd_rn(__fadd_rn(xy, xy), cy);
  }
  return (unsigned short)n;
}

extern "C" __global__ void square(const Picture* p, int left, int top, int side) {
  if (threadIdx.x == 0) atomicAdd(p->counts, 1u);
  const unsigned short first = steps(p, left, top);
  int differs = 0;
  for (int n = threadIdx.x; n < 4 * (side - 1); n += blockDim.x) {
    const int edge = n / (side - 1), along = n % (side - 1);
    const int column = edge == 0 ? along : edge == 1 ? side - 1 : edge == 2 ? side - 1 - along : 0;
    const int row = edge == 0 ? 0 : edge == 1 ? along : edge == 2 ? side - 1 : side - 1 - along;
    differs |= steps(p, left + column, top + row) != first;
  }
  __shared__ int refused;
  if (threadIdx.x == 0) refused = 0;
  differs = __syncthreads_or(differs);
  const int half = side / 2;
  int mine = 4;  // the quarter that is this thread's to spawn
  if (differs && side > 16 && threadIdx.x < 4) mine = threadIdx.x;
  if (mine < 4 && !pergola::spawn<decltype(square)>(p->squares, p, left + mine % 2 * half, top + mine / 2 * half, half))
    atomicOr(&refused, 1 << mine);
  __syncthreads();
  for (int n = threadIdx.x; n < side * side; n += blockDim.x) {
    const int column = n % side, row = n / side, quarter = row / half * 2 + column / half;
    unsigned short* const to = p->points + (top + row) * p->size + left + column;
    if (!differs) *to = first;
    else if (side <= 16 || (refused >> quarter & 1)) *to = steps(p, left + column, top + row);
  }
})";

struct Picture {  // the kernels'
  std::uint64_t points, squares, counts;
  float left, top, step;
  std::int32_t size, limit, unused;
};

int steps(float step, int column, int row) {
  const float cx = kLeft + step * static_cast<float>(column), cy = kTop + step * static_cast<float>(row);
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

int run(int size) {
  pergola::Session session;
  const pergola::Module module = session.load_text(kKernels);
  pergola::TaskPool pool = session.task_pool();
  const pergola::TaskKind square = pool.prepare(module.kernel("square"), pergola::grid(1, kThreads));

  auto points = session.array<std::uint16_t>(static_cast<std::size_t>(size) * size, std::uint16_t{0});
  auto counts = session.array<std::uint32_t>(1, 0u);
  const float step = kSide / static_cast<float>(size);
  const Picture picture{points.address(), square.on_device(), counts.address(), kLeft, kTop, step, size, kLimit, 0};
  auto memory = session.array<Picture>(1);
  memory.write(std::span(&picture, 1));

  const auto start = std::chrono::steady_clock::now();
  int roots = 0;
  for (int top = 0; top < size; top += kTile)
    for (int left = 0; left < size; left += kTile, ++roots) square(memory, left, top, kTile);
  pool.wait_all();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  const auto got = points.read();
  for (int row = 0; row < size; row += 3)
    for (int column = 0; column < size; column += 3)
      if (const int want = steps(step, column, row); got[row * size + column] != want) {
        std::fprintf(stderr, "point (%d, %d) is %d; it should be %d\n", column, row, got[row * size + column], want);
        return 1;
      }
  std::printf("%d x %d points by %u tasks, %d of them spawned by the host, in %.2f ms on %s\n", size, size,
              counts.read()[0], roots, ms, session.device().name);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 1024;
  if (size < 128 || size > 4096 || (size & (size - 1)) != 0) {
    std::fprintf(stderr, "subdivide: SIDE is a power of two from 128 to 4096, as in: subdivide 1024\n");
    return 2;
  }
  try {
    return run(size);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "subdivide: %s\n", error.what());
    return 1;
  }
}
