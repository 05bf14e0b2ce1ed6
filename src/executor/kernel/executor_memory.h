// Loads, stores and atomics of the executor's device half, each with its order and scope in its name: what the host
// shares goes by `system`, the rest is a block's shared memory. (PTX ISA 9.7.9 and 8)
#pragma once

#include "src/abi/task_slot.h"

namespace {

using pergola::abi::u32;
using pergola::abi::u64;

template <typename T>
__device__ u32 shared_address(T* pointer) {
  return static_cast<u32>(reinterpret_cast<u64>((__attribute__((address_space(3))) T*)pointer));
}

// ── Shared memory ──
__device__ u32 load_relaxed(const u32* from) {
  u32 value;
  asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared_address(from)) : "memory");
  return value;
}
__device__ u32 load_acquire(const u32* from) {
  u32 value;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared_address(from)) : "memory");
  return value;
}
__device__ void store_release(u32* to, u32 value) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(shared_address(to)), "r"(value) : "memory");
}
__device__ void store_word(u32 to, u64 value) {
  asm volatile("st.shared.u64 [%0], %1;" ::"r"(to), "l"(value) : "memory");
}
__device__ u32 take_bits(u32* from) {
  u32 value;
  asm volatile("atom.acquire.cta.shared.exch.b32 %0, [%1], 0;" : "=r"(value) : "r"(shared_address(from)) : "memory");
  return value;
}
__device__ void set_bits(u32* in, u32 bits) {
  asm volatile("red.release.cta.shared.or.b32 [%0], %1;" ::"r"(shared_address(in)), "r"(bits) : "memory");
}
__device__ void flip_bit(u32* in, u32 bit) {
  asm volatile("red.release.cta.shared.xor.b32 [%0], %1;" ::"r"(shared_address(in)), "r"(bit) : "memory");
}
__device__ void add(u32* to, u32 value) {
  asm volatile("red.relaxed.cta.shared.add.u32 [%0], %1;" ::"r"(shared_address(to)), "r"(value) : "memory");
}
// What it was.
__device__ u32 add_relaxed(u32* to, u32 value) {
  u32 before;
  asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(shared_address(to)), "r"(value)
               : "memory");
  return before;
}
// One less; what it was.
__device__ u32 subtract(u32* from) {
  u32 before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], -1;" : "=r"(before) : "r"(shared_address(from)) : "memory");
  return before;
}
// What it was.
__device__ u32 compare_and_swap(u32* at, u32 expected, u32 value) {
  u32 before;
  asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "r"(shared_address(at)), "r"(expected), "r"(value)
               : "memory");
  return before;
}
__device__ void make_barrier(u32 at, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
__device__ void unmake_barrier(u32 at) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");
}

__device__ u32 subtract(u32* from, u32 many) {
  u32 before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(shared_address(from)), "r"(0u - many)
               : "memory");
  return before;
}

// ── What the host shares ──
__device__ u32 load_system(const u32* from) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ u64 load_system(const u64* from) {
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ void store_system(u32* to, u32 value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ void store_system(u64* to, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ void fence_system() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}

// ── The device's memory ──
__device__ u64 load_relaxed_global(const u64* from) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

__device__ u32 load_relaxed_global(const u32* from) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ void store_relaxed_global(u32* to, u32 value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ void store_relaxed_global(u64* to, u64 first, u64 second) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}
__device__ u32 add_global(u32* to, u32 value) {
  u32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(value) : "memory");
  return before;
}
__device__ u32 add_acq_rel_global(u32* to, u32 value) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(value) : "memory");
  return before;
}
__device__ void add_release_global(u32* to, u32 value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ void set_bits_global(u32* in, u32 bits) {
  asm volatile("red.release.gpu.global.or.b32 [%0], %1;" ::"l"(in), "r"(bits) : "memory");
}
__device__ u32 take_bits_global(u32* from) {
  u32 value;
  asm volatile("atom.acquire.gpu.global.exch.b32 %0, [%1], 0;" : "=r"(value) : "l"(from) : "memory");
  return value;
}
// What it was.
__device__ u32 compare_and_swap_global(u32* at, u32 expected, u32 value) {
  u32 before;
  asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "l"(at), "r"(expected), "r"(value)
               : "memory");
  return before;
}
__device__ void store_release_global(u32* to, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ void fence_device() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
// In ns.
__device__ u64 global_time() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

}  // namespace
