// The problems of bench/cpu-device as plain loops: with OpenMP, and one after the other as the reference.
#pragma once

#include <cstdint>

namespace cpu_device::native {

// Whether loops marked for it run on all cores.
bool has_threads();

void saxpy(float a, const float* x, float* y, unsigned n);
void stencil(const float* in, float* out, unsigned w, unsigned h);
void mandelbrot(unsigned* out, unsigned w, unsigned h, unsigned limit);
void black_scholes(const float* spot, const float* strike, const float* years, float* call, float* put, float rate,
                   float volatility, unsigned n);
// Of the problems with barriers, what a C++ programmer would write without tiles.
void matmul(const float* a, const float* b, float* c, unsigned n);
void reduction(const float* in, float* sums, unsigned blocks);
void histogram(const unsigned* words, unsigned* bins, unsigned n);

}  // namespace cpu_device::native
