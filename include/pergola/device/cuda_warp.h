// Barriers, fences, shuffles and votes of CUDA, for clang (pergola_cuda.h).
#pragma once

// __syncthreads() is a builtin of clang itself.
PERGOLA_FN int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
PERGOLA_FN int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
PERGOLA_FN int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
PERGOLA_FN void __syncwarp(unsigned int mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
PERGOLA_FN void __threadfence_block() { __nvvm_membar_cta(); }
PERGOLA_FN void __threadfence() { __nvvm_membar_gl(); }
PERGOLA_FN void __threadfence_system() { __nvvm_membar_sys(); }

// A word, then what is made of words. `clamp` is the third operand of shfl.sync (ISA 9.7.9.6): the segment's mask
// above, the highest lane below. `up` has no upper bound to hold to.
#define PERGOLA_SHUFFLE(name, builtin, lane_type, low)                                                         \
  PERGOLA_FN int name(unsigned int mask, int value, lane_type lane, int width = 32) {                          \
    return builtin(mask, value, static_cast<int>(lane), ((32 - width) << 8) | (low));                          \
  }                                                                                                            \
  PERGOLA_FN unsigned int name(unsigned int mask, unsigned int value, lane_type lane, int width = 32) {        \
    return static_cast<unsigned int>(name(mask, static_cast<int>(value), lane, width));                        \
  }                                                                                                            \
  PERGOLA_FN float name(unsigned int mask, float value, lane_type lane, int width = 32) {                      \
    return __int_as_float(name(mask, __float_as_int(value), lane, width));                                     \
  }                                                                                                            \
  PERGOLA_FN long long name(unsigned int mask, long long value, lane_type lane, int width = 32) {              \
    const unsigned long long bits = static_cast<unsigned long long>(value);                                    \
    const unsigned int low_word = name(mask, static_cast<unsigned int>(bits), lane, width);                    \
    const unsigned int high_word = name(mask, static_cast<unsigned int>(bits >> 32), lane, width);             \
    return static_cast<long long>((static_cast<unsigned long long>(high_word) << 32) | low_word);              \
  }                                                                                                            \
  PERGOLA_FN unsigned long long name(unsigned int mask, unsigned long long value, lane_type lane, int width = 32) { \
    return static_cast<unsigned long long>(name(mask, static_cast<long long>(value), lane, width));            \
  }                                                                                                            \
  PERGOLA_FN long name(unsigned int mask, long value, lane_type lane, int width = 32) {                        \
    return static_cast<long>(name(mask, static_cast<long long>(value), lane, width));                          \
  }                                                                                                            \
  PERGOLA_FN unsigned long name(unsigned int mask, unsigned long value, lane_type lane, int width = 32) {      \
    return static_cast<unsigned long>(name(mask, static_cast<long long>(value), lane, width));                 \
  }                                                                                                            \
  PERGOLA_FN double name(unsigned int mask, double value, lane_type lane, int width = 32) {                    \
    return __longlong_as_double(name(mask, __double_as_longlong(value), lane, width));                         \
  }
PERGOLA_SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, int, 31)
PERGOLA_SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, unsigned int, 0)
PERGOLA_SHUFFLE(__shfl_down_sync, __nvvm_shfl_sync_down_i32, unsigned int, 31)
PERGOLA_SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, int, 31)
#undef PERGOLA_SHUFFLE

PERGOLA_FN int __all_sync(unsigned int mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate); }
PERGOLA_FN int __any_sync(unsigned int mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate); }
PERGOLA_FN int __uni_sync(unsigned int mask, int predicate) { return __nvvm_vote_uni_sync(mask, predicate); }
PERGOLA_FN unsigned int __ballot_sync(unsigned int mask, int predicate) {
  return __nvvm_vote_ballot_sync(mask, predicate);
}
PERGOLA_FN unsigned int __activemask() {
  unsigned int mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}
PERGOLA_FN unsigned int __lane_id() { return __nvvm_read_ptx_sreg_laneid(); }

#if __CUDA_ARCH__ >= 700
PERGOLA_FN unsigned int pergola_match_any(unsigned int mask, unsigned int value) {
  return __nvvm_match_any_sync_i32(mask, value);
}
PERGOLA_FN unsigned int pergola_match_any(unsigned int mask, unsigned long long value) {
  return __nvvm_match_any_sync_i64(mask, value);
}
PERGOLA_FN unsigned int pergola_match_all(unsigned int mask, unsigned int value, int* all) {
  return __nvvm_match_all_sync_i32p(mask, value, all);
}
PERGOLA_FN unsigned int pergola_match_all(unsigned int mask, unsigned long long value, int* all) {
  return __nvvm_match_all_sync_i64p(mask, value, all);
}
#define PERGOLA_MATCH(T, bits, as_bits)                                                            \
  PERGOLA_FN unsigned int __match_any_sync(unsigned int mask, T value) {                           \
    return pergola_match_any(mask, static_cast<bits>(as_bits(value)));                             \
  }                                                                                                \
  PERGOLA_FN unsigned int __match_all_sync(unsigned int mask, T value, int* all) {                 \
    return pergola_match_all(mask, static_cast<bits>(as_bits(value)), all);                        \
  }
PERGOLA_MATCH(int, unsigned int, )
PERGOLA_MATCH(unsigned int, unsigned int, )
PERGOLA_MATCH(long, unsigned long long, )
PERGOLA_MATCH(unsigned long, unsigned long long, )
PERGOLA_MATCH(long long, unsigned long long, )
PERGOLA_MATCH(unsigned long long, unsigned long long, )
PERGOLA_MATCH(float, unsigned int, __float_as_uint)
PERGOLA_MATCH(double, unsigned long long, __double_as_longlong)
#undef PERGOLA_MATCH
#endif

#if __CUDA_ARCH__ >= 800
PERGOLA_FN int __reduce_add_sync(unsigned int mask, int value) { return __nvvm_redux_sync_add(value, mask); }
PERGOLA_FN int __reduce_min_sync(unsigned int mask, int value) { return __nvvm_redux_sync_min(value, mask); }
PERGOLA_FN int __reduce_max_sync(unsigned int mask, int value) { return __nvvm_redux_sync_max(value, mask); }
PERGOLA_FN unsigned int __reduce_add_sync(unsigned int mask, unsigned int value) {
  return static_cast<unsigned int>(__nvvm_redux_sync_add(static_cast<int>(value), mask));
}
PERGOLA_FN unsigned int __reduce_min_sync(unsigned int mask, unsigned int value) {
  return __nvvm_redux_sync_umin(value, mask);
}
PERGOLA_FN unsigned int __reduce_max_sync(unsigned int mask, unsigned int value) {
  return __nvvm_redux_sync_umax(value, mask);
}
PERGOLA_FN unsigned int __reduce_and_sync(unsigned int mask, unsigned int value) {
  return static_cast<unsigned int>(__nvvm_redux_sync_and(static_cast<int>(value), mask));
}
PERGOLA_FN unsigned int __reduce_or_sync(unsigned int mask, unsigned int value) {
  return static_cast<unsigned int>(__nvvm_redux_sync_or(static_cast<int>(value), mask));
}
PERGOLA_FN unsigned int __reduce_xor_sync(unsigned int mask, unsigned int value) {
  return static_cast<unsigned int>(__nvvm_redux_sync_xor(static_cast<int>(value), mask));
}
#endif
