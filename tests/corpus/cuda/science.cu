// Simulation, finance, random numbers, signals: what calls the math library. `tol` is where results may differ by it.
#include <cmath>
//! run nbody_forces tol=1e-4 grid=1 block=64 : f32[256] f32[256]=0 64
extern "C" __global__ void nbody_forces(const float4* bodies, float4* acceleration, int n) {
  __shared__ float4 s[64];
  float4 me = bodies[threadIdx.x];
  float ax = 0, ay = 0, az = 0;
  s[threadIdx.x] = me;
  __syncthreads();
  for (int j = 0; j < n; ++j) {
    float dx = s[j].x - me.x, dy = s[j].y - me.y, dz = s[j].z - me.z;
    float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), k = s[j].w * r * r * r;
    ax += dx * k, ay += dy * k, az += dz * k;
  }
  acceleration[threadIdx.x] = make_float4(ax, ay, az, 0);
}
//! run lennard_jones grid=1 block=32 : f64[96] f64[32]=0
extern "C" __global__ void lennard_jones(const double3* p, double* energy) {
  double3 me = p[threadIdx.x];
  double e = 0;
  for (int j = 0; j < 32; ++j) {
    if (j == threadIdx.x) continue;
    double dx = p[j].x - me.x, dy = p[j].y - me.y, dz = p[j].z - me.z, r2 = dx * dx + dy * dy + dz * dz + 1.0, r6 = 1.0 / (r2 * r2 * r2);
    e += 4.0 * (r6 * r6 - r6);
  }
  energy[threadIdx.x] = e;
}
//! run verlet_step grid=1 block=64 : f32[64] f32[64] f32[64] 0.01f
extern "C" __global__ void verlet_step(float* x, float* v, const float* a, float dt) {
  int i = threadIdx.x;
  v[i] += a[i] * dt;
  x[i] += v[i] * dt;
}
__device__ float normal_cdf(float d) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float c = 0.39894228f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.0f - c : c;
}
//! run black_scholes tol=1e-4 grid=1 block=64 : f32[64] f32[64] f32[64]=0 f32[64]=0 0.02f 0.3f
extern "C" __global__ void black_scholes(const float* price, const float* strike, float* call, float* put, float r, float v) {
  float s = fabsf(price[threadIdx.x]) * 20 + 5, x = fabsf(strike[threadIdx.x]) * 20 + 5, t = 0.5f;
  float root = sqrtf(t), d1 = (logf(s / x) + (r + 0.5f * v * v) * t) / (v * root), d2 = d1 - v * root;
  float c1 = normal_cdf(d1), c2 = normal_cdf(d2), e = expf(-r * t);
  call[threadIdx.x] = s * c1 - x * e * c2;
  put[threadIdx.x] = x * e * (1.0f - c2) - s * (1.0f - c1);
}
//! run binomial_option grid=1 block=32 : f32[1]=0 32
extern "C" __global__ void binomial_option(float* out, int n) {
  __shared__ float v[34];
  int t = threadIdx.x;
  v[t] = fmaxf(90.0f + t - 100.0f, 0.0f);
  if (t == 0) v[32] = 22.0f;
  for (int i = n; i > 0; --i) {
    __syncthreads();
    float r = t < i ? 0.99f * (0.52f * v[t + 1] + 0.48f * v[t]) : 0;
    __syncthreads();
    if (t < i) v[t] = r;
  }
  if (t == 0) *out = v[0];
}
//! run mandelbrot grid=2,2 block=16,16 : i32[1024]=0 32 32 64
extern "C" __global__ void mandelbrot(int* out, int w, int h, int limit) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, n = 0;
  float cr = -2.0f + 3.0f * x / w, ci = -1.5f + 3.0f * y / h, zr = 0, zi = 0;
  while (n < limit && zr * zr + zi * zi < 4.0f) {
    float t = zr * zr - zi * zi + cr;
    zi = 2 * zr * zi + ci, zr = t;
    ++n;
  }
  out[y * w + x] = n;
}
//! run julia_double grid=2,2 block=8,8 : i32[256]=0 16 0.285 0.01
extern "C" __global__ void julia_double(int* out, int n, double cr, double ci) {
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, k = 0;
  double zr = 3.0 * x / n - 1.5, zi = 3.0 * y / n - 1.5;
  for (; k < 50 && zr * zr + zi * zi < 4; ++k) {
    double t = zr * zr - zi * zi + cr;
    zi = 2 * zr * zi + ci, zr = t;
  }
  out[y * n + x] = k;
}
__device__ unsigned xorshift(unsigned& s) { s ^= s << 13, s ^= s >> 17, s ^= s << 5; return s; }
//! run monte_carlo_pi grid=2 block=64 : u32[1]=0 50
extern "C" __global__ void monte_carlo_pi(unsigned* inside, int n) {
  unsigned s = (blockIdx.x * 64 + threadIdx.x) * 2654435761u + 1, hits = 0;
  for (int i = 0; i < n; ++i) {
    float x = (xorshift(s) >> 8) * (1.0f / 16777216.0f), y = (xorshift(s) >> 8) * (1.0f / 16777216.0f);
    hits += x * x + y * y < 1.0f;
  }
  atomicAdd(inside, hits);
}
struct Philox { unsigned c[4], k[2]; };
__device__ void philox_round(Philox& p) {
  unsigned h0 = __umulhi(0xd2511f53u, p.c[0]), l0 = 0xd2511f53u * p.c[0], h1 = __umulhi(0xcd9e8d57u, p.c[2]), l1 = 0xcd9e8d57u * p.c[2];
  p.c[0] = h1 ^ p.c[1] ^ p.k[0], p.c[1] = l1, p.c[2] = h0 ^ p.c[3] ^ p.k[1], p.c[3] = l0;
  p.k[0] += 0x9e3779b9u, p.k[1] += 0xbb67ae85u;
}
//! run counter_based_random grid=1 block=32 : u32[128]=0 42
extern "C" __global__ void counter_based_random(uint4* out, unsigned seed) {
  Philox p = {{threadIdx.x, 0, 0, 0}, {seed, 7}};
  for (int i = 0; i < 10; ++i) philox_round(p);
  out[threadIdx.x] = make_uint4(p.c[0], p.c[1], p.c[2], p.c[3]);
}
//! run linear_congruential grid=1 block=32 : u64[32]
extern "C" __global__ void linear_congruential(unsigned long long* s) {
  unsigned long long x = s[threadIdx.x];
  for (int i = 0; i < 20; ++i) x = x * 6364136223846793005ull + 1442695040888963407ull;
  s[threadIdx.x] = x;
}
//! run box_muller tol=1e-4 grid=1 block=32 : u32[32] f32[64]=0
extern "C" __global__ void box_muller(const unsigned* bits, float2* out) {
  unsigned s = bits[threadIdx.x] | 1;
  float u = ((xorshift(s) >> 8) + 1) * (1.0f / 16777217.0f), v = (xorshift(s) >> 8) * (1.0f / 16777216.0f);
  float r = sqrtf(-2.0f * logf(u)), sine, cosine;
  sincosf(6.2831853f * v, &sine, &cosine);
  out[threadIdx.x] = make_float2(r * cosine, r * sine);
}
//! run fft_radix2 tol=1e-4 grid=1 block=32 : f32[128]
extern "C" __global__ void fft_radix2(float2* x) {
  __shared__ float2 s[64];
  int t = threadIdx.x;
  s[__brev(t) >> 26] = x[t], s[__brev(t + 32) >> 26] = x[t + 32];
  for (int half = 1; half < 64; half *= 2) {
    __syncthreads();
    int k = t & (half - 1), i = 2 * (t - k) + k;
    float a = -3.14159265f * k / half, c = cosf(a), d = sinf(a);
    float2 u = s[i], v = s[i + half], w = make_float2(v.x * c - v.y * d, v.x * d + v.y * c);
    s[i] = make_float2(u.x + w.x, u.y + w.y), s[i + half] = make_float2(u.x - w.x, u.y - w.y);
  }
  __syncthreads();
  x[t] = s[t], x[t + 32] = s[t + 32];
}
//! run dct8 tol=1e-4 grid=1 block=8,8 : f32[64]
extern "C" __global__ void dct8(float* block) {
  __shared__ float s[64];
  int x = threadIdx.x, y = threadIdx.y;
  float r = 0;
  for (int i = 0; i < 8; ++i) r += block[y * 8 + i] * cosf((2 * i + 1) * x * 0.19634954f);
  s[y * 8 + x] = r;
  __syncthreads();
  r = 0;
  for (int i = 0; i < 8; ++i) r += s[i * 8 + x] * cosf((2 * i + 1) * y * 0.19634954f);
  block[y * 8 + x] = r * (x ? 0.5f : 0.35355339f) * (y ? 0.5f : 0.35355339f);
}
//! run haar_wavelet grid=1 block=32 : f32[64] f32[64]=0
extern "C" __global__ void haar_wavelet(const float* in, float* out) {
  float a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
  out[threadIdx.x] = (a + b) * 0.5f, out[threadIdx.x + 32] = (a - b) * 0.5f;
}
//! run fir_filter grid=1 block=64 : f64[72] f64[9] f64[64]=0
extern "C" __global__ void fir_filter(const double* in, const double* taps, double* out) {
  double s = 0;
  for (int k = 0; k < 9; ++k) s += in[threadIdx.x + k] * taps[8 - k];
  out[threadIdx.x] = s;
}
//! run iir_filters grid=1 block=16 : f32[512] 32
extern "C" __global__ void iir_filters(float* x, int n) {
  float y1 = 0, y2 = 0;
  for (int i = 0; i < n; ++i) {
    float y = x[threadIdx.x * n + i] + 0.5f * y1 - 0.25f * y2;
    y2 = y1, y1 = y;
    x[threadIdx.x * n + i] = y;
  }
}
//! run walsh_hadamard grid=1 block=32 : i32[64]
extern "C" __global__ void walsh_hadamard(int* x) {
  for (int h = 1; h < 64; h *= 2) {
    int i = threadIdx.x / h * 2 * h + threadIdx.x % h, a = x[i], b = x[i + h];
    x[i] = a + b, x[i + h] = a - b;
    __syncthreads();
  }
}
//! run lattice_boltzmann_collide grid=1 block=32 : f32[288]
extern "C" __global__ void lattice_boltzmann_collide(float* f) {
  const float w[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
  const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  float v[9], rho = 3, ux = 0, uy = 0;
  for (int i = 0; i < 9; ++i) v[i] = f[i * 32 + threadIdx.x], rho += fabsf(v[i]), ux += ex[i] * v[i], uy += ey[i] * v[i];
  ux /= rho, uy /= rho;
  for (int i = 0; i < 9; ++i) {
    float eu = ex[i] * ux + ey[i] * uy;
    f[i * 32 + threadIdx.x] = v[i] + 0.6f * (w[i] * rho * (1 + 3 * eu + 4.5f * eu * eu - 1.5f * (ux * ux + uy * uy)) - v[i]);
  }
}
//! run kmeans_assign grid=2 block=64 : f32[256] f32[10] i32[128]=0 5
extern "C" __global__ void kmeans_assign(const float2* points, const float2* centres, int* label, int k) {
  int i = blockIdx.x * 64 + threadIdx.x, best = 0;
  float2 p = points[i];
  float least = 1e30f;
  for (int c = 0; c < k; ++c) {
    float dx = p.x - centres[c].x, dy = p.y - centres[c].y, d = dx * dx + dy * dy;
    if (d < least) least = d, best = c;
  }
  label[i] = best;
}
//! run runge_kutta grid=1 block=32 : f64[64] 0.01 20
extern "C" __global__ void runge_kutta(double2* state, double h, int steps) {
  double2 y = state[threadIdx.x];
  auto f = [](double2 v) { return make_double2(v.y, -v.x - 0.1 * v.y * v.y * v.y); };
  for (int i = 0; i < steps; ++i) {
    double2 a = f(y), b = f(make_double2(y.x + h / 2 * a.x, y.y + h / 2 * a.y));
    double2 c = f(make_double2(y.x + h / 2 * b.x, y.y + h / 2 * b.y)), d = f(make_double2(y.x + h * c.x, y.y + h * c.y));
    y.x += h / 6 * (a.x + 2 * b.x + 2 * c.x + d.x), y.y += h / 6 * (a.y + 2 * b.y + 2 * c.y + d.y);
  }
  state[threadIdx.x] = y;
}
//! run newton_root grid=1 block=64 : f64[64] f64[64]=0
extern "C" __global__ void newton_root(const double* in, double* out) {
  double a = fabs(in[threadIdx.x]) + 0.1, x = a;
  for (int i = 0; i < 12; ++i) x = 0.5 * (x + a / x);
  out[threadIdx.x] = x;
}
#define UNARY(name, T, expression)                                          \
  extern "C" __global__ void math_##name(const T* in, T* out) {             \
    T x = in[threadIdx.x];                                                  \
    out[threadIdx.x] = expression;                                          \
  }
//! run math_trigonometric_f32 tol=1e-4 grid=1 block=64 : f32[64] f32[64]=0
//! run math_hyperbolic_f32 tol=1e-4 grid=1 block=64 : f32[64] f32[64]=0
//! run math_exponential_f32 tol=1e-4 grid=1 block=64 : f32[64] f32[64]=0
//! run math_special_f32 tol=1e-3 grid=1 block=64 : f32[64] f32[64]=0
//! run math_rounding_f32 grid=1 block=64 : f32[64] f32[64]=0
//! run math_rounding_f64 grid=1 block=64 : f64[64] f64[64]=0
//! run math_trigonometric_f64 tol=1e-9 grid=1 block=64 : f64[64] f64[64]=0
//! run math_exponential_f64 tol=1e-9 grid=1 block=64 : f64[64] f64[64]=0
//! run math_remainders_f32 tol=1e-5 grid=1 block=64 : f32[64] f32[64]=0
//! run math_approximate_f32 tol=1e-3 grid=1 block=64 : f32[64] f32[64]=0
UNARY(trigonometric_f32, float, sinf(x) + cosf(x) * tanf(x * 0.5f) + asinf(x * 0.3f) + acosf(x * 0.3f) + atanf(x) + atan2f(x, 1.5f))
UNARY(hyperbolic_f32, float, sinhf(x) + coshf(x) + tanhf(x) + asinhf(x) + acoshf(fabsf(x) + 1.5f) + atanhf(x * 0.2f))
UNARY(exponential_f32, float, expf(x) + exp2f(x) + exp10f(x) + expm1f(x) + logf(fabsf(x) + 1) + log2f(fabsf(x) + 1) + log10f(fabsf(x) + 1) + log1pf(fabsf(x)) + powf(fabsf(x) + 0.5f, x) + cbrtf(x) + hypotf(x, 2))
UNARY(special_f32, float, erff(x) + erfcf(x) + tgammaf(fabsf(x) + 1) + lgammaf(fabsf(x) + 2) + normcdff(x) + sinpif(x) + cospif(x) + rcbrtf(fabsf(x) + 1))
UNARY(rounding_f32, float, floorf(x * 9) + 3 * ceilf(x * 9) - 5 * truncf(x * 9) + 7 * rintf(x * 9) + 11 * roundf(x * 9) + copysignf(0.5f, x) + fdimf(x, 0.1f) + fabsf(x))
UNARY(rounding_f64, double, floor(x * 9) + 3 * ceil(x * 9) - 5 * trunc(x * 9) + 7 * rint(x * 9) + 11 * round(x * 9) + copysign(0.5, x) + fdim(x, 0.1) + fabs(x))
UNARY(trigonometric_f64, double, sin(x) + cos(x) * tan(x * 0.5) + asin(x * 0.3) + acos(x * 0.3) + atan(x) + atan2(x, 1.5))
UNARY(exponential_f64, double, exp(x) + exp2(x) + expm1(x) + log(fabs(x) + 1) + log2(fabs(x) + 1) + log10(fabs(x) + 1) + log1p(fabs(x)) + pow(fabs(x) + 0.5, x) + cbrt(x))
UNARY(remainders_f32, float, fmodf(x * 100, 7.5f) + remainderf(x * 100, 7.5f) + ldexpf(x, 3) + (float)ilogbf(x + 10.0f) + logbf(fabsf(x) + 4.0f))
UNARY(approximate_f32, float, __expf(x) + __logf(fabsf(x) + 1) + __sinf(x) + __cosf(x) + __powf(fabsf(x) + 1, 1.5f) + __fdividef(x, 3.0f) + rsqrtf(fabsf(x) + 1) + __saturatef(x))
