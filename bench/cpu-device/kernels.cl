// kernels.cu in OpenCL C, line by line, for PoCL.
#pragma OPENCL FP_CONTRACT ON
#ifndef TILE
#define TILE 16
#endif

kernel void saxpy(float a, global const float* x, global float* y, uint n) {
  const uint i = get_global_id(0);
  if (i < n) y[i] = a * x[i] + y[i];
}

kernel void matmul(global const float* a, global const float* b, global float* c, uint n) {
  local float as[TILE][TILE], bs[TILE][TILE];
  const uint x = get_local_id(0), y = get_local_id(1);
  const uint row = get_group_id(1) * TILE + y, column = get_group_id(0) * TILE + x;
  float sum = 0.0f;
  for (uint t = 0; t < n; t += TILE) {
    as[y][x] = a[row * n + t + x];
    bs[y][x] = b[(t + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < TILE; ++k) sum += as[y][k] * bs[k][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}

kernel void stencil(global const float* in, global float* out, uint w, uint h) {
  const uint x = get_global_id(0), y = get_global_id(1);
  if (x >= w || y >= h) return;
  const uint i = y * w + x;
  float v = in[i];
  if (x > 0 && y > 0 && x + 1 < w && y + 1 < h) v = 0.5f * v + 0.125f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
  out[i] = v;
}

kernel void reduction(global const float* in, global float* sums) {
  local float part[256];
  const uint t = get_local_id(0);
  const uint i = get_group_id(0) * 512 + t;
  part[t] = in[i] + in[i + 256];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) sums[get_group_id(0)] = part[0];
}

kernel void mandelbrot(global uint* out, uint w, uint h, uint limit) {
  const uint x = get_global_id(0), y = get_global_id(1);
  if (x >= w || y >= h) return;
  const float cr = -2.0f + 3.0f * x / w, ci = -1.5f + 3.0f * y / h;
  float zr = 0.0f, zi = 0.0f;
  uint n = 0;
  while (n < limit && zr * zr + zi * zi <= 4.0f) {
    const float r = zr * zr - zi * zi + cr;
    zi = 2.0f * zr * zi + ci;
    zr = r;
    ++n;
  }
  out[y * w + x] = n;
}

float normal(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
  const float tail = 0.39894228f * exp(-0.5f * d * d) *
                     (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0.0f ? 1.0f - tail : tail;
}

kernel void black_scholes(global const float* spot, global const float* strike, global const float* years, global float* call,
                          global float* put, float rate, float volatility, uint n) {
  const uint i = get_global_id(0);
  if (i >= n) return;
  const float s = spot[i], x = strike[i], t = years[i];
  const float root = sqrt(t);
  const float d1 = (log(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
  const float d2 = d1 - volatility * root;
  const float n1 = normal(d1), n2 = normal(d2), discounted = x * exp(-rate * t);
  call[i] = s * n1 - discounted * n2;
  put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
}

kernel void histogram(global const uint* words, global uint* bins, uint n) {
  local uint mine[256];
  mine[get_local_id(0)] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
    const uint v = words[i];
    atomic_inc(&mine[v & 255]);
    atomic_inc(&mine[v >> 8 & 255]);
    atomic_inc(&mine[v >> 16 & 255]);
    atomic_inc(&mine[v >> 24]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[get_local_id(0)], mine[get_local_id(0)]);
}

kernel void empty(global uint* out) {}
