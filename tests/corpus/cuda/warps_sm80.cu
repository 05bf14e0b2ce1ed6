// Warp reductions in one instruction (redux.sync), from sm_80 on.
//! arch: 80
//! run redux_integers grid=1 block=64 : i32[64] i32[256]=0
extern "C" __global__ void redux_integers(const int* in, int4* out) {
  int v = in[threadIdx.x];
  out[threadIdx.x] = make_int4(__reduce_add_sync(0xffffffffu, v), __reduce_min_sync(0xffffffffu, v),
                               __reduce_max_sync(0xffffffffu, v), 0);
}
//! run redux_unsigned grid=1 block=64 : u32[64] u32[256]=0
extern "C" __global__ void redux_unsigned(const unsigned* in, uint4* out) {
  unsigned v = in[threadIdx.x];
  out[threadIdx.x] = make_uint4(__reduce_min_sync(0xffffffffu, v), __reduce_max_sync(0xffffffffu, v),
                                __reduce_and_sync(0xffffffffu, v) | __reduce_or_sync(0xffffffffu, v),
                                __reduce_xor_sync(0xffffffffu, v));
}
