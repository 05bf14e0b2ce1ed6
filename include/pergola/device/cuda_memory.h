// Loads and stores with cache hints, address spaces, memory functions, printf and assert, for clang (pergola_cuda.h).
#pragma once

// __ldg(p) and so on: a load of the global space with a cache operator (ISA 9.7.9.8), whatever its type; a vector is
// loaded member by member. Not volatile: data read by __ldg is constant while the kernel runs.
#define PERGOLA_LOAD(name, op, T, r, C, type)                                        \
  PERGOLA_FN T name(const T* p) {                                                    \
    C d;                                                                             \
    asm volatile("ld.global." op "." type " %0, [%1];" : r(d) : "l"(p) : "memory");  \
    return static_cast<T>(d);                                                        \
  }
#define PERGOLA_LOAD2(name, T, E) \
  PERGOLA_FN T##2 name(const T##2* p) { return T##2{name(reinterpret_cast<const E*>(p)), name(reinterpret_cast<const E*>(p) + 1)}; }
#define PERGOLA_LOAD4(name, T, E)                                   \
  PERGOLA_FN T##4 name(const T##4* p) {                             \
    const E* e = reinterpret_cast<const E*>(p);                     \
    return T##4{name(e), name(e + 1), name(e + 2), name(e + 3)};    \
  }
#define PERGOLA_LOADS(name, op)                                                       \
  PERGOLA_LOAD(name, op, char, "=r", int, "s8")                                       \
  PERGOLA_LOAD(name, op, signed char, "=r", int, "s8")                                \
  PERGOLA_LOAD(name, op, unsigned char, "=r", unsigned int, "u8")                     \
  PERGOLA_LOAD(name, op, short, "=h", short, "s16")                                   \
  PERGOLA_LOAD(name, op, unsigned short, "=h", unsigned short, "u16")                 \
  PERGOLA_LOAD(name, op, int, "=r", int, "s32")                                       \
  PERGOLA_LOAD(name, op, unsigned int, "=r", unsigned int, "u32")                     \
  PERGOLA_LOAD(name, op, long, "=l", long, "s64")                                     \
  PERGOLA_LOAD(name, op, unsigned long, "=l", unsigned long, "u64")                   \
  PERGOLA_LOAD(name, op, long long, "=l", long long, "s64")                           \
  PERGOLA_LOAD(name, op, unsigned long long, "=l", unsigned long long, "u64")         \
  PERGOLA_LOAD(name, op, float, "=f", float, "f32")                                   \
  PERGOLA_LOAD(name, op, double, "=d", double, "f64")                                 \
  PERGOLA_LOAD2(name, int, int)                                                       \
  PERGOLA_LOAD2(name, uint, unsigned int)                                             \
  PERGOLA_LOAD2(name, float, float)                                                   \
  PERGOLA_LOAD2(name, double, double)                                                 \
  PERGOLA_LOAD4(name, int, int)                                                       \
  PERGOLA_LOAD4(name, uint, unsigned int)                                             \
  PERGOLA_LOAD4(name, float, float)                                                   \
  PERGOLA_LOAD4(name, uchar, unsigned char)
PERGOLA_LOADS(__ldg, "nc")
PERGOLA_LOADS(__ldca, "ca")
PERGOLA_LOADS(__ldcg, "cg")
PERGOLA_LOADS(__ldcs, "cs")
PERGOLA_LOADS(__ldlu, "lu")
PERGOLA_LOADS(__ldcv, "cv")
#undef PERGOLA_LOAD
#undef PERGOLA_LOAD2
#undef PERGOLA_LOAD4
#undef PERGOLA_LOADS

#define PERGOLA_STORE(name, op, T, c, type) \
  PERGOLA_FN void name(T* p, T v) { asm volatile("st.global." op "." type " [%0], %1;" ::"l"(p), c(v) : "memory"); }
#define PERGOLA_STORES(name, op)                                          \
  PERGOLA_STORE(name, op, short, "h", "s16")                              \
  PERGOLA_STORE(name, op, unsigned short, "h", "u16")                     \
  PERGOLA_STORE(name, op, int, "r", "s32")                                \
  PERGOLA_STORE(name, op, unsigned int, "r", "u32")                       \
  PERGOLA_STORE(name, op, long, "l", "s64")                               \
  PERGOLA_STORE(name, op, unsigned long, "l", "u64")                      \
  PERGOLA_STORE(name, op, long long, "l", "s64")                          \
  PERGOLA_STORE(name, op, unsigned long long, "l", "u64")                 \
  PERGOLA_STORE(name, op, float, "f", "f32")                              \
  PERGOLA_STORE(name, op, double, "d", "f64")
PERGOLA_STORES(__stwb, "wb")
PERGOLA_STORES(__stcg, "cg")
PERGOLA_STORES(__stcs, "cs")
PERGOLA_STORES(__stwt, "wt")
#undef PERGOLA_STORE
#undef PERGOLA_STORES

PERGOLA_FN bool __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
PERGOLA_FN bool __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
PERGOLA_FN bool __isConstant(const void* p) { return __nvvm_isspacep_const(p); }
PERGOLA_FN bool __isLocal(const void* p) { return __nvvm_isspacep_local(p); }
PERGOLA_FN size_t __cvta_generic_to_shared(const void* p) {
  size_t d;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(d) : "l"(p));
  return d;
}
PERGOLA_FN size_t __cvta_generic_to_global(const void* p) {
  size_t d;
  asm("cvta.to.global.u64 %0, %1;" : "=l"(d) : "l"(p));
  return d;
}
PERGOLA_FN size_t __cvta_generic_to_local(const void* p) {
  size_t d;
  asm("cvta.to.local.u64 %0, %1;" : "=l"(d) : "l"(p));
  return d;
}

// The device's own library, which every device has: vprintf, malloc, free, __assertfail (PTX interoperability guide).
extern "C" __device__ int printf(const char* format, ...);
extern "C" __device__ void* malloc(size_t bytes);
extern "C" __device__ void free(void* pointer);
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char* condition, const char* file,
                                                                  unsigned int line, const char* function,
                                                                  size_t character_bytes);
#ifdef NDEBUG
#define assert(condition) (static_cast<void>(0))
#else
#define assert(condition) \
  ((condition) ? static_cast<void>(0) : __assertfail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__, sizeof(char)))
#endif

PERGOLA_FN void* memcpy(void* to, const void* from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
PERGOLA_FN void* memset(void* to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }

__device__ inline void* operator new(size_t bytes) { return malloc(bytes); }
__device__ inline void* operator new[](size_t bytes) { return malloc(bytes); }
__device__ inline void operator delete(void* p) noexcept { free(p); }
__device__ inline void operator delete[](void* p) noexcept { free(p); }
__device__ inline void operator delete(void* p, size_t) noexcept { free(p); }
__device__ inline void operator delete[](void* p, size_t) noexcept { free(p); }
extern "C" __device__ inline __attribute__((weak)) void __cxa_pure_virtual() { __trap(); }
