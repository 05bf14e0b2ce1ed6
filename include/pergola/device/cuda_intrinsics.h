// Integer, bit, conversion and rounding intrinsics of CUDA, for clang (pergola_cuda.h). Each is one or a few PTX
// instructions; those without a builtin of clang are inline assembly that reads only its operands.
#pragma once

// name(a) and so on as one instruction: result type and constraint, then the operands' types and constraints.
#define PERGOLA_ASM1(R, r, name, A, ca, text) \
  PERGOLA_FN R name(A a) {                    \
    R d;                                      \
    asm(text " %0, %1;" : r(d) : ca(a));      \
    return d;                                 \
  }
#define PERGOLA_ASM2(R, r, name, A, ca, text)          \
  PERGOLA_FN R name(A a, A b) {                        \
    R d;                                               \
    asm(text " %0, %1, %2;" : r(d) : ca(a), ca(b));    \
    return d;                                          \
  }
#define PERGOLA_ASM3(R, r, name, A, ca, B, cb, C, cc, text)        \
  PERGOLA_FN R name(A a, B b, C c) {                               \
    R d;                                                           \
    asm(text " %0, %1, %2, %3;" : r(d) : ca(a), cb(b), cc(c));     \
    return d;                                                      \
  }

// Bits.
PERGOLA_FN int __popc(unsigned int a) { return __builtin_popcount(a); }
PERGOLA_FN int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
PERGOLA_ASM1(int, "=r", __clz, int, "r", "clz.b32")
PERGOLA_ASM1(int, "=r", __clzll, long long, "l", "clz.b64")
PERGOLA_FN int __ffs(int a) { return __builtin_ffs(a); }
PERGOLA_FN int __ffsll(long long a) { return __builtin_ffsll(a); }
PERGOLA_FN unsigned int __brev(unsigned int a) { return __builtin_bitreverse32(a); }
PERGOLA_FN unsigned long long __brevll(unsigned long long a) { return __builtin_bitreverse64(a); }
PERGOLA_ASM3(unsigned int, "=r", pergola_prmt, unsigned int, "r", unsigned int, "r", unsigned int, "r", "prmt.b32")
// Of a selector's four bits the highest counts for the instruction alone, where it repeats a sign.
PERGOLA_FN unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int selector) {
  return pergola_prmt(a, b, selector & 0x7777u);
}
PERGOLA_ASM3(unsigned int, "=r", __funnelshift_l, unsigned int, "r", unsigned int, "r", unsigned int, "r", "shf.l.wrap.b32")
PERGOLA_ASM3(unsigned int, "=r", __funnelshift_r, unsigned int, "r", unsigned int, "r", unsigned int, "r", "shf.r.wrap.b32")
PERGOLA_ASM3(unsigned int, "=r", __funnelshift_lc, unsigned int, "r", unsigned int, "r", unsigned int, "r", "shf.l.clamp.b32")
PERGOLA_ASM3(unsigned int, "=r", __funnelshift_rc, unsigned int, "r", unsigned int, "r", unsigned int, "r", "shf.r.clamp.b32")

// The place of the offset-th set bit of `mask` from `base` on, upwards or (offset < 0) downwards; 0xffffffff where there is none.
PERGOLA_ASM3(unsigned int, "=r", __fns, unsigned int, "r", unsigned int, "r", int, "r", "fns.b32")

// Products, sums of differences, averages.
PERGOLA_ASM2(int, "=r", __mul24, int, "r", "mul24.lo.s32")
PERGOLA_ASM2(unsigned int, "=r", __umul24, unsigned int, "r", "mul24.lo.u32")
PERGOLA_FN int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
PERGOLA_FN unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned int>((static_cast<unsigned long long>(a) * b) >> 32);
}
PERGOLA_ASM2(long long, "=l", __mul64hi, long long, "l", "mul.hi.s64")
PERGOLA_ASM2(unsigned long long, "=l", __umul64hi, unsigned long long, "l", "mul.hi.u64")
PERGOLA_ASM3(unsigned int, "=r", __sad, int, "r", int, "r", unsigned int, "r", "sad.s32")
PERGOLA_ASM3(unsigned int, "=r", __usad, unsigned int, "r", unsigned int, "r", unsigned int, "r", "sad.u32")
PERGOLA_FN int __hadd(int a, int b) { return (a & b) + ((a ^ b) >> 1); }
PERGOLA_FN int __rhadd(int a, int b) { return (a | b) - ((a ^ b) >> 1); }
PERGOLA_FN unsigned int __uhadd(unsigned int a, unsigned int b) { return (a & b) + ((a ^ b) >> 1); }
PERGOLA_FN unsigned int __urhadd(unsigned int a, unsigned int b) { return (a | b) - ((a ^ b) >> 1); }
#if __CUDA_ARCH__ >= 610
PERGOLA_ASM3(int, "=r", __dp4a, int, "r", int, "r", int, "r", "dp4a.s32.s32")
PERGOLA_ASM3(unsigned int, "=r", __dp4a, unsigned int, "r", unsigned int, "r", unsigned int, "r", "dp4a.u32.u32")
PERGOLA_ASM3(int, "=r", __dp2a_lo, int, "r", int, "r", int, "r", "dp2a.lo.s32.s32")
PERGOLA_ASM3(int, "=r", __dp2a_hi, int, "r", int, "r", int, "r", "dp2a.hi.s32.s32")
PERGOLA_ASM3(unsigned int, "=r", __dp2a_lo, unsigned int, "r", unsigned int, "r", unsigned int, "r", "dp2a.lo.u32.u32")
PERGOLA_ASM3(unsigned int, "=r", __dp2a_hi, unsigned int, "r", unsigned int, "r", unsigned int, "r", "dp2a.hi.u32.u32")
#endif

// The same bits as another type.
PERGOLA_FN int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
PERGOLA_FN unsigned int __float_as_uint(float a) { return __builtin_bit_cast(unsigned int, a); }
PERGOLA_FN float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
PERGOLA_FN float __uint_as_float(unsigned int a) { return __builtin_bit_cast(float, a); }
PERGOLA_FN long long __double_as_longlong(double a) { return __builtin_bit_cast(long long, a); }
PERGOLA_FN double __longlong_as_double(long long a) { return __builtin_bit_cast(double, a); }
PERGOLA_FN int __double2hiint(double a) { return static_cast<int>(__double_as_longlong(a) >> 32); }
PERGOLA_FN int __double2loint(double a) { return static_cast<int>(__double_as_longlong(a)); }
PERGOLA_FN double __hiloint2double(int high, int low) {
  return __longlong_as_double(static_cast<long long>(
      (static_cast<unsigned long long>(static_cast<unsigned int>(high)) << 32) | static_cast<unsigned int>(low)));
}

// Conversions with a rounding mode: rn to nearest even, rz to zero, ru up, rd down.
PERGOLA_ASM1(int, "=r", __float2int_rn, float, "f", "cvt.rni.s32.f32")
PERGOLA_ASM1(unsigned int, "=r", __float2uint_rn, float, "f", "cvt.rni.u32.f32")
PERGOLA_ASM1(long long, "=l", __float2ll_rn, float, "f", "cvt.rni.s64.f32")
PERGOLA_ASM1(unsigned long long, "=l", __float2ull_rn, float, "f", "cvt.rni.u64.f32")
PERGOLA_ASM1(int, "=r", __double2int_rn, double, "d", "cvt.rni.s32.f64")
PERGOLA_ASM1(unsigned int, "=r", __double2uint_rn, double, "d", "cvt.rni.u32.f64")
PERGOLA_ASM1(long long, "=l", __double2ll_rn, double, "d", "cvt.rni.s64.f64")
PERGOLA_ASM1(unsigned long long, "=l", __double2ull_rn, double, "d", "cvt.rni.u64.f64")
PERGOLA_ASM1(float, "=f", __int2float_rn, int, "r", "cvt.rn.f32.s32")
PERGOLA_ASM1(float, "=f", __uint2float_rn, unsigned int, "r", "cvt.rn.f32.u32")
PERGOLA_ASM1(float, "=f", __ll2float_rn, long long, "l", "cvt.rn.f32.s64")
PERGOLA_ASM1(double, "=d", __ll2double_rn, long long, "l", "cvt.rn.f64.s64")
PERGOLA_ASM1(float, "=f", __ull2float_rn, unsigned long long, "l", "cvt.rn.f32.u64")
PERGOLA_ASM1(double, "=d", __ull2double_rn, unsigned long long, "l", "cvt.rn.f64.u64")
PERGOLA_ASM1(float, "=f", __double2float_rn, double, "d", "cvt.rn.f32.f64")
PERGOLA_ASM1(int, "=r", __float2int_rz, float, "f", "cvt.rzi.s32.f32")
PERGOLA_ASM1(unsigned int, "=r", __float2uint_rz, float, "f", "cvt.rzi.u32.f32")
PERGOLA_ASM1(long long, "=l", __float2ll_rz, float, "f", "cvt.rzi.s64.f32")
PERGOLA_ASM1(unsigned long long, "=l", __float2ull_rz, float, "f", "cvt.rzi.u64.f32")
PERGOLA_ASM1(int, "=r", __double2int_rz, double, "d", "cvt.rzi.s32.f64")
PERGOLA_ASM1(unsigned int, "=r", __double2uint_rz, double, "d", "cvt.rzi.u32.f64")
PERGOLA_ASM1(long long, "=l", __double2ll_rz, double, "d", "cvt.rzi.s64.f64")
PERGOLA_ASM1(unsigned long long, "=l", __double2ull_rz, double, "d", "cvt.rzi.u64.f64")
PERGOLA_ASM1(float, "=f", __int2float_rz, int, "r", "cvt.rz.f32.s32")
PERGOLA_ASM1(float, "=f", __uint2float_rz, unsigned int, "r", "cvt.rz.f32.u32")
PERGOLA_ASM1(float, "=f", __ll2float_rz, long long, "l", "cvt.rz.f32.s64")
PERGOLA_ASM1(double, "=d", __ll2double_rz, long long, "l", "cvt.rz.f64.s64")
PERGOLA_ASM1(float, "=f", __ull2float_rz, unsigned long long, "l", "cvt.rz.f32.u64")
PERGOLA_ASM1(double, "=d", __ull2double_rz, unsigned long long, "l", "cvt.rz.f64.u64")
PERGOLA_ASM1(float, "=f", __double2float_rz, double, "d", "cvt.rz.f32.f64")
PERGOLA_ASM1(int, "=r", __float2int_ru, float, "f", "cvt.rpi.s32.f32")
PERGOLA_ASM1(unsigned int, "=r", __float2uint_ru, float, "f", "cvt.rpi.u32.f32")
PERGOLA_ASM1(long long, "=l", __float2ll_ru, float, "f", "cvt.rpi.s64.f32")
PERGOLA_ASM1(unsigned long long, "=l", __float2ull_ru, float, "f", "cvt.rpi.u64.f32")
PERGOLA_ASM1(int, "=r", __double2int_ru, double, "d", "cvt.rpi.s32.f64")
PERGOLA_ASM1(unsigned int, "=r", __double2uint_ru, double, "d", "cvt.rpi.u32.f64")
PERGOLA_ASM1(long long, "=l", __double2ll_ru, double, "d", "cvt.rpi.s64.f64")
PERGOLA_ASM1(unsigned long long, "=l", __double2ull_ru, double, "d", "cvt.rpi.u64.f64")
PERGOLA_ASM1(float, "=f", __int2float_ru, int, "r", "cvt.rp.f32.s32")
PERGOLA_ASM1(float, "=f", __uint2float_ru, unsigned int, "r", "cvt.rp.f32.u32")
PERGOLA_ASM1(float, "=f", __ll2float_ru, long long, "l", "cvt.rp.f32.s64")
PERGOLA_ASM1(double, "=d", __ll2double_ru, long long, "l", "cvt.rp.f64.s64")
PERGOLA_ASM1(float, "=f", __ull2float_ru, unsigned long long, "l", "cvt.rp.f32.u64")
PERGOLA_ASM1(double, "=d", __ull2double_ru, unsigned long long, "l", "cvt.rp.f64.u64")
PERGOLA_ASM1(float, "=f", __double2float_ru, double, "d", "cvt.rp.f32.f64")
PERGOLA_ASM1(int, "=r", __float2int_rd, float, "f", "cvt.rmi.s32.f32")
PERGOLA_ASM1(unsigned int, "=r", __float2uint_rd, float, "f", "cvt.rmi.u32.f32")
PERGOLA_ASM1(long long, "=l", __float2ll_rd, float, "f", "cvt.rmi.s64.f32")
PERGOLA_ASM1(unsigned long long, "=l", __float2ull_rd, float, "f", "cvt.rmi.u64.f32")
PERGOLA_ASM1(int, "=r", __double2int_rd, double, "d", "cvt.rmi.s32.f64")
PERGOLA_ASM1(unsigned int, "=r", __double2uint_rd, double, "d", "cvt.rmi.u32.f64")
PERGOLA_ASM1(long long, "=l", __double2ll_rd, double, "d", "cvt.rmi.s64.f64")
PERGOLA_ASM1(unsigned long long, "=l", __double2ull_rd, double, "d", "cvt.rmi.u64.f64")
PERGOLA_ASM1(float, "=f", __int2float_rd, int, "r", "cvt.rm.f32.s32")
PERGOLA_ASM1(float, "=f", __uint2float_rd, unsigned int, "r", "cvt.rm.f32.u32")
PERGOLA_ASM1(float, "=f", __ll2float_rd, long long, "l", "cvt.rm.f32.s64")
PERGOLA_ASM1(double, "=d", __ll2double_rd, long long, "l", "cvt.rm.f64.s64")
PERGOLA_ASM1(float, "=f", __ull2float_rd, unsigned long long, "l", "cvt.rm.f32.u64")
PERGOLA_ASM1(double, "=d", __ull2double_rd, unsigned long long, "l", "cvt.rm.f64.u64")
PERGOLA_ASM1(float, "=f", __double2float_rd, double, "d", "cvt.rm.f32.f64")
PERGOLA_FN double __int2double_rn(int a) { return a; }
PERGOLA_FN double __uint2double_rn(unsigned int a) { return a; }

// Arithmetic with a rounding mode; never contracted into a fused multiply-add.
PERGOLA_ASM2(float, "=f", __fadd_rn, float, "f", "add.rn.f32")
PERGOLA_ASM2(float, "=f", __fsub_rn, float, "f", "sub.rn.f32")
PERGOLA_ASM2(float, "=f", __fmul_rn, float, "f", "mul.rn.f32")
PERGOLA_ASM2(float, "=f", __fdiv_rn, float, "f", "div.rn.f32")
PERGOLA_ASM3(float, "=f", __fmaf_rn, float, "f", float, "f", float, "f", "fma.rn.f32")
PERGOLA_ASM1(float, "=f", __fsqrt_rn, float, "f", "sqrt.rn.f32")
PERGOLA_ASM1(float, "=f", __frcp_rn, float, "f", "rcp.rn.f32")
PERGOLA_ASM2(double, "=d", __dadd_rn, double, "d", "add.rn.f64")
PERGOLA_ASM2(double, "=d", __dsub_rn, double, "d", "sub.rn.f64")
PERGOLA_ASM2(double, "=d", __dmul_rn, double, "d", "mul.rn.f64")
PERGOLA_ASM2(double, "=d", __ddiv_rn, double, "d", "div.rn.f64")
PERGOLA_ASM3(double, "=d", __fma_rn, double, "d", double, "d", double, "d", "fma.rn.f64")
PERGOLA_ASM1(double, "=d", __dsqrt_rn, double, "d", "sqrt.rn.f64")
PERGOLA_ASM1(double, "=d", __drcp_rn, double, "d", "rcp.rn.f64")
PERGOLA_ASM2(float, "=f", __fadd_rz, float, "f", "add.rz.f32")
PERGOLA_ASM2(float, "=f", __fsub_rz, float, "f", "sub.rz.f32")
PERGOLA_ASM2(float, "=f", __fmul_rz, float, "f", "mul.rz.f32")
PERGOLA_ASM2(float, "=f", __fdiv_rz, float, "f", "div.rz.f32")
PERGOLA_ASM3(float, "=f", __fmaf_rz, float, "f", float, "f", float, "f", "fma.rz.f32")
PERGOLA_ASM1(float, "=f", __fsqrt_rz, float, "f", "sqrt.rz.f32")
PERGOLA_ASM1(float, "=f", __frcp_rz, float, "f", "rcp.rz.f32")
PERGOLA_ASM2(double, "=d", __dadd_rz, double, "d", "add.rz.f64")
PERGOLA_ASM2(double, "=d", __dsub_rz, double, "d", "sub.rz.f64")
PERGOLA_ASM2(double, "=d", __dmul_rz, double, "d", "mul.rz.f64")
PERGOLA_ASM2(double, "=d", __ddiv_rz, double, "d", "div.rz.f64")
PERGOLA_ASM3(double, "=d", __fma_rz, double, "d", double, "d", double, "d", "fma.rz.f64")
PERGOLA_ASM1(double, "=d", __dsqrt_rz, double, "d", "sqrt.rz.f64")
PERGOLA_ASM1(double, "=d", __drcp_rz, double, "d", "rcp.rz.f64")
PERGOLA_ASM2(float, "=f", __fadd_ru, float, "f", "add.rp.f32")
PERGOLA_ASM2(float, "=f", __fsub_ru, float, "f", "sub.rp.f32")
PERGOLA_ASM2(float, "=f", __fmul_ru, float, "f", "mul.rp.f32")
PERGOLA_ASM2(float, "=f", __fdiv_ru, float, "f", "div.rp.f32")
PERGOLA_ASM3(float, "=f", __fmaf_ru, float, "f", float, "f", float, "f", "fma.rp.f32")
PERGOLA_ASM1(float, "=f", __fsqrt_ru, float, "f", "sqrt.rp.f32")
PERGOLA_ASM1(float, "=f", __frcp_ru, float, "f", "rcp.rp.f32")
PERGOLA_ASM2(double, "=d", __dadd_ru, double, "d", "add.rp.f64")
PERGOLA_ASM2(double, "=d", __dsub_ru, double, "d", "sub.rp.f64")
PERGOLA_ASM2(double, "=d", __dmul_ru, double, "d", "mul.rp.f64")
PERGOLA_ASM2(double, "=d", __ddiv_ru, double, "d", "div.rp.f64")
PERGOLA_ASM3(double, "=d", __fma_ru, double, "d", double, "d", double, "d", "fma.rp.f64")
PERGOLA_ASM1(double, "=d", __dsqrt_ru, double, "d", "sqrt.rp.f64")
PERGOLA_ASM1(double, "=d", __drcp_ru, double, "d", "rcp.rp.f64")
PERGOLA_ASM2(float, "=f", __fadd_rd, float, "f", "add.rm.f32")
PERGOLA_ASM2(float, "=f", __fsub_rd, float, "f", "sub.rm.f32")
PERGOLA_ASM2(float, "=f", __fmul_rd, float, "f", "mul.rm.f32")
PERGOLA_ASM2(float, "=f", __fdiv_rd, float, "f", "div.rm.f32")
PERGOLA_ASM3(float, "=f", __fmaf_rd, float, "f", float, "f", float, "f", "fma.rm.f32")
PERGOLA_ASM1(float, "=f", __fsqrt_rd, float, "f", "sqrt.rm.f32")
PERGOLA_ASM1(float, "=f", __frcp_rd, float, "f", "rcp.rm.f32")
PERGOLA_ASM2(double, "=d", __dadd_rd, double, "d", "add.rm.f64")
PERGOLA_ASM2(double, "=d", __dsub_rd, double, "d", "sub.rm.f64")
PERGOLA_ASM2(double, "=d", __dmul_rd, double, "d", "mul.rm.f64")
PERGOLA_ASM2(double, "=d", __ddiv_rd, double, "d", "div.rm.f64")
PERGOLA_ASM3(double, "=d", __fma_rd, double, "d", double, "d", double, "d", "fma.rm.f64")
PERGOLA_ASM1(double, "=d", __dsqrt_rd, double, "d", "sqrt.rm.f64")
PERGOLA_ASM1(double, "=d", __drcp_rd, double, "d", "rcp.rm.f64")

// Approximations (ISA 9.7.3: .approx). Their last bits differ between devices.
PERGOLA_ASM2(float, "=f", __fdividef, float, "f", "div.approx.f32")
PERGOLA_ASM1(float, "=f", __frsqrt_rn, float, "f", "rsqrt.approx.f32")
PERGOLA_ASM1(float, "=f", __sinf, float, "f", "sin.approx.f32")
PERGOLA_ASM1(float, "=f", __cosf, float, "f", "cos.approx.f32")
PERGOLA_ASM1(float, "=f", __log2f, float, "f", "lg2.approx.f32")
PERGOLA_ASM1(float, "=f", __pergola_exp2_approx, float, "f", "ex2.approx.f32")
PERGOLA_ASM1(float, "=f", __saturatef, float, "f", "cvt.sat.f32.f32")
PERGOLA_FN float __expf(float a) { return __pergola_exp2_approx(a * 1.4426950408889634f); }
PERGOLA_FN float __exp10f(float a) { return __pergola_exp2_approx(a * 3.3219280948873623f); }
PERGOLA_FN float __logf(float a) { return __log2f(a) * 0.6931471805599453f; }
PERGOLA_FN float __log10f(float a) { return __log2f(a) * 0.3010299956639812f; }
PERGOLA_FN float __powf(float a, float b) { return __pergola_exp2_approx(b * __log2f(a)); }
PERGOLA_FN float __tanf(float a) { return __fdividef(__sinf(a), __cosf(a)); }
PERGOLA_FN void __sincosf(float a, float* sine, float* cosine) {
  *sine = __sinf(a);
  *cosine = __cosf(a);
}

// Clocks, sleep, traps.
PERGOLA_FN int clock() {
  int d;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(d)::"memory");
  return d;
}
PERGOLA_FN long long clock64() {
  long long d;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(d)::"memory");
  return d;
}
PERGOLA_FN unsigned long long __globaltimer() {
  unsigned long long d;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(d)::"memory");
  return d;
}
#if __CUDA_ARCH__ >= 700
PERGOLA_FN void __nanosleep(unsigned int ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory"); }
#endif
PERGOLA_FN void __trap() { asm volatile("trap;"); }
PERGOLA_FN void __brkpt() { asm volatile("brkpt;"); }

#undef PERGOLA_ASM1
#undef PERGOLA_ASM2
#undef PERGOLA_ASM3
