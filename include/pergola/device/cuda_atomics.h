// Atomic functions of CUDA, for clang (pergola_cuda.h): relaxed, at the scope of the device, of the block (_block) or
// of the whole system (_system). Sizes and types are those of the CUDA programming guide.
#pragma once

// builtin(prefix, op, suffix): prefix is empty, cta_ or sys_.
#define PERGOLA_ATOMIC_SCOPE(end, prefix)                                                                              \
  PERGOLA_FN int atomicAdd##end(int* p, int v) { return __nvvm_atom_##prefix##add_gen_i(p, v); }                       \
  PERGOLA_FN unsigned int atomicAdd##end(unsigned int* p, unsigned int v) {                                            \
    return static_cast<unsigned int>(__nvvm_atom_##prefix##add_gen_i(reinterpret_cast<int*>(p), static_cast<int>(v))); \
  }                                                                                                                    \
  PERGOLA_FN unsigned long long atomicAdd##end(unsigned long long* p, unsigned long long v) {                          \
    return static_cast<unsigned long long>(                                                                            \
        __nvvm_atom_##prefix##add_gen_ll(reinterpret_cast<long long*>(p), static_cast<long long>(v)));                 \
  }                                                                                                                    \
  PERGOLA_FN float atomicAdd##end(float* p, float v) { return __nvvm_atom_##prefix##add_gen_f(p, v); }                 \
  PERGOLA_FN double atomicAdd##end(double* p, double v) { return __nvvm_atom_##prefix##add_gen_d(p, v); }              \
  PERGOLA_FN int atomicSub##end(int* p, int v) {                                                                       \
    return atomicAdd##end(p, static_cast<int>(0u - static_cast<unsigned int>(v)));                                     \
  }                                                                                                                    \
  PERGOLA_FN unsigned int atomicSub##end(unsigned int* p, unsigned int v) { return atomicAdd##end(p, 0u - v); }        \
  PERGOLA_FN int atomicExch##end(int* p, int v) { return __nvvm_atom_##prefix##xchg_gen_i(p, v); }                     \
  PERGOLA_FN unsigned int atomicExch##end(unsigned int* p, unsigned int v) {                                           \
    return static_cast<unsigned int>(__nvvm_atom_##prefix##xchg_gen_i(reinterpret_cast<int*>(p), static_cast<int>(v))); \
  }                                                                                                                    \
  PERGOLA_FN unsigned long long atomicExch##end(unsigned long long* p, unsigned long long v) {                         \
    return static_cast<unsigned long long>(                                                                            \
        __nvvm_atom_##prefix##xchg_gen_ll(reinterpret_cast<long long*>(p), static_cast<long long>(v)));                \
  }                                                                                                                    \
  PERGOLA_FN float atomicExch##end(float* p, float v) {                                                                \
    return __int_as_float(atomicExch##end(reinterpret_cast<int*>(p), __float_as_int(v)));                              \
  }                                                                                                                    \
  PERGOLA_FN int atomicMin##end(int* p, int v) { return __nvvm_atom_##prefix##min_gen_i(p, v); }                       \
  PERGOLA_FN unsigned int atomicMin##end(unsigned int* p, unsigned int v) {                                            \
    return __nvvm_atom_##prefix##min_gen_ui(p, v);                                                                     \
  }                                                                                                                    \
  PERGOLA_FN long long atomicMin##end(long long* p, long long v) { return __nvvm_atom_##prefix##min_gen_ll(p, v); }    \
  PERGOLA_FN unsigned long long atomicMin##end(unsigned long long* p, unsigned long long v) {                          \
    return __nvvm_atom_##prefix##min_gen_ull(p, v);                                                                    \
  }                                                                                                                    \
  PERGOLA_FN int atomicMax##end(int* p, int v) { return __nvvm_atom_##prefix##max_gen_i(p, v); }                       \
  PERGOLA_FN unsigned int atomicMax##end(unsigned int* p, unsigned int v) {                                            \
    return __nvvm_atom_##prefix##max_gen_ui(p, v);                                                                     \
  }                                                                                                                    \
  PERGOLA_FN long long atomicMax##end(long long* p, long long v) { return __nvvm_atom_##prefix##max_gen_ll(p, v); }    \
  PERGOLA_FN unsigned long long atomicMax##end(unsigned long long* p, unsigned long long v) {                          \
    return __nvvm_atom_##prefix##max_gen_ull(p, v);                                                                    \
  }                                                                                                                    \
  PERGOLA_FN unsigned int atomicInc##end(unsigned int* p, unsigned int v) {                                            \
    return __nvvm_atom_##prefix##inc_gen_ui(p, v);                                                                     \
  }                                                                                                                    \
  PERGOLA_FN unsigned int atomicDec##end(unsigned int* p, unsigned int v) {                                            \
    return __nvvm_atom_##prefix##dec_gen_ui(p, v);                                                                     \
  }                                                                                                                    \
  PERGOLA_ATOMIC_BITS(atomicAnd##end, __nvvm_atom_##prefix##and)                                                       \
  PERGOLA_ATOMIC_BITS(atomicOr##end, __nvvm_atom_##prefix##or)                                                         \
  PERGOLA_ATOMIC_BITS(atomicXor##end, __nvvm_atom_##prefix##xor)                                                       \
  PERGOLA_FN int atomicCAS##end(int* p, int old, int v) { return __nvvm_atom_##prefix##cas_gen_i(p, old, v); }         \
  PERGOLA_FN unsigned int atomicCAS##end(unsigned int* p, unsigned int old, unsigned int v) {                          \
    return static_cast<unsigned int>(__nvvm_atom_##prefix##cas_gen_i(reinterpret_cast<int*>(p), static_cast<int>(old), \
                                                                     static_cast<int>(v)));                            \
  }                                                                                                                    \
  PERGOLA_FN unsigned long long atomicCAS##end(unsigned long long* p, unsigned long long old, unsigned long long v) {  \
    return static_cast<unsigned long long>(__nvvm_atom_##prefix##cas_gen_ll(                                           \
        reinterpret_cast<long long*>(p), static_cast<long long>(old), static_cast<long long>(v)));                     \
  }
#define PERGOLA_ATOMIC_BITS(name, builtin)                                                                      \
  PERGOLA_FN int name(int* p, int v) { return builtin##_gen_i(p, v); }                                          \
  PERGOLA_FN unsigned int name(unsigned int* p, unsigned int v) {                                               \
    return static_cast<unsigned int>(builtin##_gen_i(reinterpret_cast<int*>(p), static_cast<int>(v)));          \
  }                                                                                                             \
  PERGOLA_FN unsigned long long name(unsigned long long* p, unsigned long long v) {                             \
    return static_cast<unsigned long long>(builtin##_gen_ll(reinterpret_cast<long long*>(p), static_cast<long long>(v))); \
  }

PERGOLA_ATOMIC_SCOPE(, )
PERGOLA_ATOMIC_SCOPE(_block, cta_)
PERGOLA_ATOMIC_SCOPE(_system, sys_)
#undef PERGOLA_ATOMIC_SCOPE
#undef PERGOLA_ATOMIC_BITS

#if __CUDA_ARCH__ >= 700
PERGOLA_FN unsigned short atomicCAS(unsigned short* p, unsigned short old, unsigned short v) {
  unsigned short d;
  asm volatile("atom.cas.b16 %0, [%1], %2, %3;" : "=h"(d) : "l"(p), "h"(old), "h"(v) : "memory");
  return d;
}
#endif
