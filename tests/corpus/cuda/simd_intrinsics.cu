// Every SIMD intrinsic of CUDA on halves and bytes of a word: what compilers make of them is mostly plain logic, and
// vabsdiff2, vabsdiff4 with and without a sum.
//! clang: no: Pergola's header for clang has some of them
//! run halves_arithmetic grid=2 block=64 : u32[128] u32[128] u32[2688]=0
extern "C" __global__ void halves_arithmetic(const unsigned* as, const unsigned* bs, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned a = as[i], b = bs[i];
  unsigned* o = out + i * 21;
  o[0] = __vadd2(a, b);
  o[1] = __vaddss2(a, b);
  o[2] = __vaddus2(a, b);
  o[3] = __vsub2(a, b);
  o[4] = __vsubss2(a, b);
  o[5] = __vsubus2(a, b);
  o[6] = __vavgs2(a, b);
  o[7] = __vavgu2(a, b);
  o[8] = __vhaddu2(a, b);
  o[9] = __vabsdiffs2(a, b);
  o[10] = __vabsdiffu2(a, b);
  o[11] = __vmaxs2(a, b);
  o[12] = __vmaxu2(a, b);
  o[13] = __vmins2(a, b);
  o[14] = __vminu2(a, b);
  o[15] = __vsads2(a, b);
  o[16] = __vsadu2(a, b);
  o[17] = __vabs2(a);
  o[18] = __vabsss2(a);
  o[19] = __vneg2(a);
  o[20] = __vnegss2(a);
}
//! run halves_compared grid=2 block=64 : u32[128] u32[128] u32[2560]=0
extern "C" __global__ void halves_compared(const unsigned* as, const unsigned* bs, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned a = as[i], b = bs[i];
  unsigned* o = out + i * 20;
  o[0] = __vcmpeq2(a, b);
  o[1] = __vcmpne2(a, b);
  o[2] = __vcmpges2(a, b);
  o[3] = __vcmpgeu2(a, b);
  o[4] = __vcmpgts2(a, b);
  o[5] = __vcmpgtu2(a, b);
  o[6] = __vcmples2(a, b);
  o[7] = __vcmpleu2(a, b);
  o[8] = __vcmplts2(a, b);
  o[9] = __vcmpltu2(a, b);
  o[10] = __vseteq2(a, b);
  o[11] = __vsetne2(a, b);
  o[12] = __vsetges2(a, b);
  o[13] = __vsetgeu2(a, b);
  o[14] = __vsetgts2(a, b);
  o[15] = __vsetgtu2(a, b);
  o[16] = __vsetles2(a, b);
  o[17] = __vsetleu2(a, b);
  o[18] = __vsetlts2(a, b);
  o[19] = __vsetltu2(a, b);
}
//! run bytes_arithmetic grid=2 block=64 : u32[128] u32[128] u32[2688]=0
extern "C" __global__ void bytes_arithmetic(const unsigned* as, const unsigned* bs, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned a = as[i], b = bs[i];
  unsigned* o = out + i * 21;
  o[0] = __vadd4(a, b);
  o[1] = __vaddss4(a, b);
  o[2] = __vaddus4(a, b);
  o[3] = __vsub4(a, b);
  o[4] = __vsubss4(a, b);
  o[5] = __vsubus4(a, b);
  o[6] = __vavgs4(a, b);
  o[7] = __vavgu4(a, b);
  o[8] = __vhaddu4(a, b);
  o[9] = __vabsdiffs4(a, b);
  o[10] = __vabsdiffu4(a, b);
  o[11] = __vmaxs4(a, b);
  o[12] = __vmaxu4(a, b);
  o[13] = __vmins4(a, b);
  o[14] = __vminu4(a, b);
  o[15] = __vsads4(a, b);
  o[16] = __vsadu4(a, b);
  o[17] = __vabs4(a);
  o[18] = __vabsss4(a);
  o[19] = __vneg4(a);
  o[20] = __vnegss4(a);
}
//! run bytes_compared grid=2 block=64 : u32[128] u32[128] u32[2560]=0
extern "C" __global__ void bytes_compared(const unsigned* as, const unsigned* bs, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned a = as[i], b = bs[i];
  unsigned* o = out + i * 20;
  o[0] = __vcmpeq4(a, b);
  o[1] = __vcmpne4(a, b);
  o[2] = __vcmpges4(a, b);
  o[3] = __vcmpgeu4(a, b);
  o[4] = __vcmpgts4(a, b);
  o[5] = __vcmpgtu4(a, b);
  o[6] = __vcmples4(a, b);
  o[7] = __vcmpleu4(a, b);
  o[8] = __vcmplts4(a, b);
  o[9] = __vcmpltu4(a, b);
  o[10] = __vseteq4(a, b);
  o[11] = __vsetne4(a, b);
  o[12] = __vsetges4(a, b);
  o[13] = __vsetgeu4(a, b);
  o[14] = __vsetgts4(a, b);
  o[15] = __vsetgtu4(a, b);
  o[16] = __vsetles4(a, b);
  o[17] = __vsetleu4(a, b);
  o[18] = __vsetlts4(a, b);
  o[19] = __vsetltu4(a, b);
}
//! run sums_of_distances grid=2 block=64 : u32[128] u32[128] u32[640]=0
extern "C" __global__ void sums_of_distances(const unsigned* as, const unsigned* bs, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned a = as[i], b = bs[i];
  unsigned* o = out + i * 5;
  o[0] = __sad(a, b, i);
  o[1] = __usad(a, b, i);
  o[2] = __vsadu4(a, b) + i;
  o[3] = __vsadu2(a, b) + i;
  o[4] = __vabsdiffu4(a, b) + i;
}
