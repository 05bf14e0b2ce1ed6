// size_t, ptrdiff_t, NULL and offsetof, for kernels (NVRTC has its own size_t).
#pragma once
#ifndef __CUDACC_RTC__
typedef unsigned long size_t;
#endif
typedef long ptrdiff_t;
typedef struct {
  long long first;
  long double second;
} max_align_t;
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
