// C++: templates, classes with virtual functions, lambdas, structs by value, namespaces, operators.
struct Vec3 {
  float x, y, z;
  __device__ Vec3 operator+(const Vec3& o) const { return {x + o.x, y + o.y, z + o.z}; }
  __device__ Vec3 operator*(float s) const { return {x * s, y * s, z * s}; }
  __device__ float dot(const Vec3& o) const { return x * o.x + y * o.y + z * o.z; }
};
//! run vec3_operators grid=1 block=32 : f32[96] f32[96] 0.5f
extern "C" __global__ void vec3_operators(Vec3* a, const Vec3* b, float s) {
  Vec3 v = a[threadIdx.x] + b[threadIdx.x] * s;
  a[threadIdx.x] = v * v.dot(b[threadIdx.x]);
}
template <typename T>
__device__ T square(T x) { return x * x; }
template <typename T>
__global__ void template_square(T* x) { x[threadIdx.x] = square(x[threadIdx.x]); }
template __global__ void template_square<int>(int*);
template __global__ void template_square<float>(float*);
template __global__ void template_square<double>(double*);
template __global__ void template_square<unsigned char>(unsigned char*);
template __global__ void template_square<long long>(long long*);
template <int N, typename T>
__global__ void template_polynomial(const T* c, T* x) {
  T v = x[threadIdx.x], r = c[N - 1];
#pragma unroll
  for (int i = N - 2; i >= 0; --i) r = r * v + c[i];
  x[threadIdx.x] = r;
}
template __global__ void template_polynomial<3, float>(const float*, float*);
template __global__ void template_polynomial<8, float>(const float*, float*);
template __global__ void template_polynomial<5, double>(const double*, double*);
struct Plus { template <typename T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Maximum { template <typename T> __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T, typename F>
__global__ void template_zip(T* a, const T* b, F f) { a[threadIdx.x] = f(a[threadIdx.x], b[threadIdx.x]); }
template __global__ void template_zip<float, Plus>(float*, const float*, Plus);
template __global__ void template_zip<int, Maximum>(int*, const int*, Maximum);

class Shape {
 public:
  __device__ virtual float area() const = 0;
  __device__ virtual float perimeter() const { return -1; }
};
class Circle : public Shape {
 public:
  __device__ explicit Circle(float r) : r_(r) {}
  __device__ float area() const override { return 3.1415927f * r_ * r_; }
  __device__ float perimeter() const override { return 6.2831853f * r_; }
 private:
  float r_;
};
class Rectangle : public Shape {
 public:
  __device__ Rectangle(float a, float b) : a_(a), b_(b) {}
  __device__ float area() const override { return a_ * b_; }
 private:
  float a_, b_;
};
__device__ __noinline__ float measure(const Shape* s) { return s->area() + s->perimeter(); }
//! run virtual_functions grid=1 block=64 : f32[64] f32[64]=0
extern "C" __global__ void virtual_functions(const float* in, float* out) {
  Circle c(in[threadIdx.x]);
  Rectangle r(in[threadIdx.x], 2.0f);
  const Shape* s = threadIdx.x & 1 ? static_cast<const Shape*>(&c) : static_cast<const Shape*>(&r);
  out[threadIdx.x] = measure(s);
}
struct Settings {
  int n;
  float scale;
  double offset;
  char flag;
  long long step;
};
//! run struct_by_value grid=1 block=32 : struct{i32:32,f32:1.5,f64:0.25,i8:1,i64:3} f64[32]=0
extern "C" __global__ void struct_by_value(Settings s, double* out) {
  int i = threadIdx.x;
  if (i < s.n) out[i] = i * s.scale + s.offset + (s.flag ? s.step : 0);
}
struct Pointers {
  const float* in;
  float* out;
  int n;
};
extern "C" __global__ void struct_of_pointers(Pointers p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.n) p.out[i] = p.in[i] * 2.0f;
}
struct Matrix4 { float m[16]; };
//! run matrix_by_value grid=1 block=32 : struct{f32:1,f32:2,f32:3,f32:4,f32:5,f32:6,f32:7,f32:8,f32:9,f32:10,f32:11,f32:12,f32:13,f32:14,f32:15,f32:16} f32[128]
extern "C" __global__ void matrix_by_value(const Matrix4 t, float4* points) {
  float4 p = points[threadIdx.x];
  float v[4] = {p.x, p.y, p.z, p.w}, r[4];
  for (int i = 0; i < 4; ++i) {
    r[i] = 0;
    for (int j = 0; j < 4; ++j) r[i] += t.m[4 * i + j] * v[j];
  }
  points[threadIdx.x] = make_float4(r[0], r[1], r[2], r[3]);
}
//! run indexed_parameter grid=1 block=32 : struct{f32:1,f32:2,f32:3,f32:4,f32:5,f32:6,f32:7,f32:8,f32:9,f32:10,f32:11,f32:12,f32:13,f32:14,f32:15,f32:16} i32[32]<16 f32[32]=0
extern "C" __global__ void indexed_parameter(const Matrix4 t, const int* which, float* out) {
  out[threadIdx.x] = t.m[which[threadIdx.x] & 15];
}
template <typename F>
__device__ void for_each_lane(int n, F f) { for (int i = threadIdx.x; i < n; i += blockDim.x) f(i); }
//! run lambdas grid=1 block=32 : f32[100] 3.0f 100
extern "C" __global__ void lambdas(float* x, float a, int n) {
  float b = a * 2;
  for_each_lane(n, [=](int i) { x[i] = x[i] * a + b; });
  auto twice = [](float v) { return v + v; };
  for_each_lane(n / 2, [&](int i) { x[i] = twice(x[i]); });
}
namespace outer {
namespace inner {
__device__ int shifted(int x) { return x + 42; }
__global__ void namespaced(int* x) { x[threadIdx.x] = shifted(x[threadIdx.x]); }
}  // namespace inner
}  // namespace outer
template <int N>
struct Factorial { static constexpr int value = N * Factorial<N - 1>::value; };
template <>
struct Factorial<0> { static constexpr int value = 1; };
//! run constant_expressions grid=1 block=32 : i32[32]=0
extern "C" __global__ void constant_expressions(int* out) {
  constexpr int table[4] = {Factorial<3>::value, Factorial<5>::value, Factorial<7>::value, 1};
  out[threadIdx.x] = table[threadIdx.x & 3];
}
struct Complex {
  float re, im;
  __device__ friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  __device__ Complex& operator+=(Complex o) { re += o.re; im += o.im; return *this; }
};
//! run complex_power grid=1 block=32 : f32[64] 5
extern "C" __global__ void complex_power(Complex* z, int n) {
  Complex b = z[threadIdx.x], r{1, 0};
  for (int i = 0; i < n; ++i) {
    r = r * b;
    r += Complex{0.5f, -0.25f};
  }
  z[threadIdx.x] = r;
}
template <typename... Ts>
__device__ int count_types(Ts... ts) { return ((int)ts + ... + 0); }
//! run variadic grid=1 block=32 : i32[32]=0
extern "C" __global__ void variadic(int* out) {
  out[threadIdx.x] = count_types(1, 2.5f, (char)3, (long long)threadIdx.x, 5.75);
}
struct Node { Node* next; int value; };
extern "C" __global__ void walk_list(const Node* head, int* out) {
  int s = 0;
  for (const Node* n = head; n != nullptr; n = n->next) s += n->value;
  out[threadIdx.x] = s;
}
enum class Color : unsigned char { kRed, kGreen, kBlue };
//! run scoped_enum grid=1 block=32 : u8[32]<3 i32[32]=0
extern "C" __global__ void scoped_enum(const Color* c, int* out) {
  out[threadIdx.x] = c[threadIdx.x] == Color::kGreen ? 7 : (int)c[threadIdx.x];
}
struct alignas(16) Particle { float p[3]; int id; double mass; };
//! run aligned_struct grid=1 block=16 : u8[512]<100 i32[16]=0
extern "C" __global__ void aligned_struct(Particle* p, int* out) {
  Particle q = p[threadIdx.x];
  q.id += 1;
  out[threadIdx.x] = q.id;
  p[threadIdx.x] = q;
}
