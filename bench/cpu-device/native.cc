// Compiled with -O3 -march=native and, where the compiler has it, OpenMP (CMakeLists.txt).
#include "native.h"

#include <cmath>
#include <cstring>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace cpu_device::native {

#ifdef _OPENMP
bool has_threads() { return true; }
#else
bool has_threads() { return false; }
#endif

void saxpy(float a, const float* __restrict x, float* __restrict y, unsigned n) {
#pragma omp parallel for simd schedule(static)
  for (unsigned i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

void stencil(const float* __restrict in, float* __restrict out, unsigned w, unsigned h) {
#pragma omp parallel for schedule(static)
  for (unsigned y = 0; y < h; ++y) {
    const float* at = in + std::size_t{y} * w;
    float* to = out + std::size_t{y} * w;
    if (y == 0 || y + 1 == h) {
      std::memcpy(to, at, w * sizeof(float));
      continue;
    }
    to[0] = at[0];
    to[w - 1] = at[w - 1];
#pragma omp simd
    for (unsigned x = 1; x < w - 1; ++x) {
      to[x] = 0.5f * at[x] + 0.125f * (at[x - 1] + at[x + 1] + *(at + x - w) + at[x + w]);
    }
  }
}

void mandelbrot(unsigned* out, unsigned w, unsigned h, unsigned limit) {
#pragma omp parallel for schedule(dynamic, 4)
  for (unsigned y = 0; y < h; ++y) {
    for (unsigned x = 0; x < w; ++x) {
      const float cr = -2.0f + 3.0f * static_cast<float>(x) / static_cast<float>(w);
      const float ci = -1.5f + 3.0f * static_cast<float>(y) / static_cast<float>(h);
      float zr = 0, zi = 0;
      unsigned n = 0;
      while (n < limit && zr * zr + zi * zi <= 4.0f) {
        const float r = zr * zr - zi * zi + cr;
        zi = 2.0f * zr * zi + ci;
        zr = r;
        ++n;
      }
      out[std::size_t{y} * w + x] = n;
    }
  }
}

namespace {
float normal(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * std::fabs(d));
  const float tail = 0.39894228f * std::exp(-0.5f * d * d) *
                     (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0.0f ? 1.0f - tail : tail;
}
}  // namespace

void black_scholes(const float* spot, const float* strike, const float* years, float* call, float* put, float rate,
                   float volatility, unsigned n) {
#pragma omp parallel for schedule(static)
  for (unsigned i = 0; i < n; ++i) {
    const float s = spot[i], x = strike[i], t = years[i];
    const float root = std::sqrt(t);
    const float d1 = (std::log(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
    const float d2 = d1 - volatility * root;
    const float n1 = normal(d1), n2 = normal(d2), discounted = x * std::exp(-rate * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
  }
}

void matmul(const float* __restrict a, const float* __restrict b, float* __restrict c, unsigned n) {
#pragma omp parallel for schedule(static)
  for (unsigned row = 0; row < n; ++row) {
    float* to = c + std::size_t{row} * n;
    std::memset(to, 0, n * sizeof(float));
    for (unsigned k = 0; k < n; ++k) {
      const float v = a[std::size_t{row} * n + k];
      const float* from = b + std::size_t{k} * n;
      for (unsigned column = 0; column < n; ++column) to[column] += v * from[column];
    }
  }
}

void reduction(const float* in, float* sums, unsigned blocks) {
#pragma omp parallel for schedule(static)
  for (unsigned block = 0; block < blocks; ++block) {
    float sum = 0;
    for (unsigned i = 0; i < 512; ++i) sum += in[std::size_t{block} * 512 + i];
    sums[block] = sum;
  }
}

void histogram(const unsigned* words, unsigned* bins, unsigned n) {
  std::memset(bins, 0, 256 * sizeof(unsigned));
#pragma omp parallel
  {
    unsigned mine[256] = {};
#pragma omp for schedule(static) nowait
    for (unsigned i = 0; i < n; ++i) {
      const unsigned v = words[i];
      ++mine[v & 255];
      ++mine[v >> 8 & 255];
      ++mine[v >> 16 & 255];
      ++mine[v >> 24];
    }
#pragma omp critical
    for (unsigned bin = 0; bin < 256; ++bin) bins[bin] += mine[bin];
  }
}

}  // namespace cpu_device::native
