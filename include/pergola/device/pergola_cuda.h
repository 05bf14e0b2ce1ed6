// CUDA C++ for clang without a CUDA toolkit: what clang's own headers would take from NVIDIA's, written anew.
//
// Included ahead of every source that Pergola compiles by clang (src/source/clang.h); nothing under NVRTC and nvcc,
// which bring their own. Needs -fms-extensions (threadIdx.x is a property) and -std=c++17.
// Not here: surfaces, layered and cube textures, half and bfloat16 types, cooperative groups, dynamic parallelism, managed variables.
#pragma once
#if defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#define __CUDACC__ 1  // what sources ask for to know that they are CUDA

#include <pergola/device/cuda_types.h>
// The order matters: each uses the ones above.
#include <pergola/device/cuda_intrinsics.h>
#include <pergola/device/cuda_simd.h>
#include <pergola/device/cuda_math.h>
#include <pergola/device/cuda_warp.h>
#include <pergola/device/cuda_atomics.h>
#include <pergola/device/cuda_memory.h>
#include <pergola/device/cuda_textures.h>
#endif
