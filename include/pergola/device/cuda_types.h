// Attributes, index variables and vector types of CUDA, for clang (pergola_cuda.h).
#pragma once

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __builtin_align__(n) __align__(n)
#define CUDARTAPI

#define PERGOLA_FN static __device__ __forceinline__
#define PERGOLA_HD static __host__ __device__ __forceinline__ constexpr

typedef unsigned long size_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#ifndef NULL
#define NULL 0
#endif

// name1..name4 of each element type, with CUDA's alignments: a vector of 2 or 4 elements is aligned as a whole, up to
// 16 bytes, so that it is loaded at once.
#define PERGOLA_VECTOR(T, name, align2, align4)                                         \
  struct name##1 {                                                                      \
    T x;                                                                                \
  };                                                                                    \
  struct __align__(align2) name##2 {                                                    \
    T x, y;                                                                             \
  };                                                                                    \
  struct name##3 {                                                                      \
    T x, y, z;                                                                          \
  };                                                                                    \
  struct __align__(align4) name##4 {                                                    \
    T x, y, z, w;                                                                       \
  };                                                                                    \
  PERGOLA_HD name##1 make_##name##1(T x) { return name##1{x}; }                         \
  PERGOLA_HD name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                 \
  PERGOLA_HD name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }         \
  PERGOLA_HD name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
PERGOLA_VECTOR(signed char, char, 2, 4)
PERGOLA_VECTOR(unsigned char, uchar, 2, 4)
PERGOLA_VECTOR(short, short, 4, 8)
PERGOLA_VECTOR(unsigned short, ushort, 4, 8)
PERGOLA_VECTOR(int, int, 8, 16)
PERGOLA_VECTOR(unsigned int, uint, 8, 16)
PERGOLA_VECTOR(long, long, 16, 16)
PERGOLA_VECTOR(unsigned long, ulong, 16, 16)
PERGOLA_VECTOR(long long, longlong, 16, 16)
PERGOLA_VECTOR(unsigned long long, ulonglong, 16, 16)
PERGOLA_VECTOR(float, float, 8, 16)
PERGOLA_VECTOR(double, double, 16, 16)
#undef PERGOLA_VECTOR

struct dim3 {
  unsigned int x, y, z;
  __host__ __device__ constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
};

// An index variable has no storage: each member is a property that reads a special register.
#define PERGOLA_INDEX(type, variable, reg)                                                         \
  struct type {                                                                                           \
    __declspec(property(get = get_x)) unsigned int x;                                                     \
    __declspec(property(get = get_y)) unsigned int y;                                                     \
    __declspec(property(get = get_z)) unsigned int z;                                                     \
    static __device__ __forceinline__ unsigned int get_x() { return __nvvm_read_ptx_sreg_##reg##_x(); }   \
    static __device__ __forceinline__ unsigned int get_y() { return __nvvm_read_ptx_sreg_##reg##_y(); }   \
    static __device__ __forceinline__ unsigned int get_z() { return __nvvm_read_ptx_sreg_##reg##_z(); }   \
    __device__ __forceinline__ operator dim3() const { return dim3(get_x(), get_y(), get_z()); }          \
    __device__ __forceinline__ operator uint3() const { return uint3{get_x(), get_y(), get_z()}; }        \
    type() = delete;                                                                                      \
    type(const type&) = delete;                                                                           \
    void operator=(const type&) const = delete;                                                           \
    type* operator&() const = delete;                                                                     \
  };                                                                                                      \
  extern const __device__ __attribute__((weak)) type variable;
PERGOLA_INDEX(pergola_thread_index, threadIdx, tid)
PERGOLA_INDEX(pergola_block_index, blockIdx, ctaid)
PERGOLA_INDEX(pergola_block_size, blockDim, ntid)
PERGOLA_INDEX(pergola_grid_size, gridDim, nctaid)
#undef PERGOLA_INDEX
static constexpr int warpSize = 32;
