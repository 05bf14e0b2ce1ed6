// FFT: many transforms of 512 points, one a block of 64 threads, 8 points each, three passes of radix 8 with two
// transpositions in shared memory; in float and in double. A pass over the data is the transforms, their inverses, and a
// check: the second half of the data is a copy of the first, so that the results must be equal.
#define POINTS 512
#define THREADS 64

template <typename T>
struct Complex {
  T x, y;
};
template <>
struct __align__(8) Complex<float> {
  float x, y;
};
template <>
struct __align__(16) Complex<double> {
  double x, y;
};

__device__ float cosine(float angle) { return cosf(angle); }
__device__ float sine(float angle) { return sinf(angle); }
__device__ double cosine(double angle) { return cos(angle); }
__device__ double sine(double angle) { return sin(angle); }

template <typename T>
__device__ Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.x + b.x, a.y + b.y}; }
template <typename T>
__device__ Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.x - b.x, a.y - b.y}; }
template <typename T>
__device__ Complex<T> operator*(Complex<T> a, Complex<T> b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }

// By i, with the sign of the exponent.
template <typename T, int Sign>
__device__ Complex<T> turned(Complex<T> a) { return {T(-Sign) * a.y, T(Sign) * a.x}; }

template <typename T>
__device__ void butterfly(Complex<T>& a, Complex<T>& b) {
  Complex<T> sum = a + b;
  b = a - b;
  a = sum;
}

// Eight points in place; result k lands in v[reversed(k)], the bits of k the other way round.
template <typename T, int Sign>
__device__ void transform8(Complex<T>* v) {
  const T half = T(0.70710678118654752440);
  butterfly(v[0], v[4]);
  butterfly(v[1], v[5]);
  butterfly(v[2], v[6]);
  butterfly(v[3], v[7]);
  v[5] = v[5] * Complex<T>{half, T(Sign) * half};
  v[6] = turned<T, Sign>(v[6]);
  v[7] = v[7] * Complex<T>{-half, T(Sign) * half};
  butterfly(v[0], v[2]);
  butterfly(v[1], v[3]);
  v[3] = turned<T, Sign>(v[3]);
  butterfly(v[4], v[6]);
  butterfly(v[5], v[7]);
  v[7] = turned<T, Sign>(v[7]);
  butterfly(v[0], v[1]);
  butterfly(v[2], v[3]);
  butterfly(v[4], v[5]);
  butterfly(v[6], v[7]);
}

__device__ int reversed(int k) { return ((k & 1) << 2) | (k & 2) | (k >> 2); }

// v[reversed(k)] by the k-th power of the root of 1 that is `part` of `whole` of a turn.
template <typename T, int Sign>
__device__ void twiddle8(Complex<T>* v, int part, int whole) {
  const T angle = T(Sign) * T(6.28318530717958647693) * T(part) / T(whole);
  const Complex<T> root = {cosine(angle), sine(angle)};
  Complex<T> power = root;
#pragma unroll
  for (int k = 1; k < 8; k++) {
    v[reversed(k)] = v[reversed(k)] * power;
    power = power * root;
  }
}

template <typename T, int Sign>
__device__ void transform512(const Complex<T>* in, Complex<T>* out, T scale) {
  __shared__ Complex<T> exchange[POINTS];
  int t = threadIdx.x;
  int first = blockIdx.x * POINTS;
  int high = t >> 3, low = t & 7;
  Complex<T> v[8];

#pragma unroll
  for (int k = 0; k < 8; k++) v[k] = in[first + t + THREADS * k];
  transform8<T, Sign>(v);
  twiddle8<T, Sign>(v, t, POINTS);

#pragma unroll
  for (int k = 0; k < 8; k++) exchange[THREADS * k + t] = v[reversed(k)];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 8; k++) v[k] = exchange[THREADS * high + 8 * k + low];
  __syncthreads();
  transform8<T, Sign>(v);
  twiddle8<T, Sign>(v, low, THREADS);

#pragma unroll
  for (int k = 0; k < 8; k++) exchange[8 * (high + 8 * k) + low] = v[reversed(k)];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 8; k++) v[k] = exchange[8 * t + k];
  transform8<T, Sign>(v);

#pragma unroll
  for (int k = 0; k < 8; k++) out[first + t + THREADS * k] = {v[reversed(k)].x * scale, v[reversed(k)].y * scale};
}

// Block b compares transform b with the same one of the other half, `half` points on. differs[b] stays 1 once it is.
template <typename T>
__device__ void check512(const Complex<T>* data, int half, int* differs) {
  int first = blockIdx.x * POINTS + threadIdx.x;
  bool different = false;
  for (int k = 0; k < 8; k++) {
    Complex<T> a = data[first + THREADS * k], b = data[half + first + THREADS * k];
    if (a.x != b.x || a.y != b.y) different = true;
  }
  if (different) differs[blockIdx.x] = 1;
}

extern "C" __global__ void fft_forward(const Complex<float>* signal, Complex<float>* spectrum) {
  transform512<float, -1>(signal, spectrum, 1.0f);
}
extern "C" __global__ void fft_inverse(const Complex<float>* spectrum, Complex<float>* signal) {
  transform512<float, 1>(spectrum, signal, 1.0f / POINTS);
}
extern "C" __global__ void fft_check(const Complex<float>* signal, int half, int* differs) {
  check512(signal, half, differs);
}
extern "C" __global__ void fft_forward_double(const Complex<double>* signal, Complex<double>* spectrum) {
  transform512<double, -1>(signal, spectrum, 1.0);
}
extern "C" __global__ void fft_inverse_double(const Complex<double>* spectrum, Complex<double>* signal) {
  transform512<double, 1>(spectrum, signal, 1.0 / POINTS);
}
extern "C" __global__ void fft_check_double(const Complex<double>* signal, int half, int* differs) {
  check512(signal, half, differs);
}
