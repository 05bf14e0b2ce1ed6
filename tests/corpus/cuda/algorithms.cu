// Sorting, searching, graphs, dynamic programming, strings, codes and ciphers.
//! run bitonic_sort grid=1 block=128 : i32[128]
extern "C" __global__ void bitonic_sort(int* x) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = x[t];
  for (int k = 2; k <= 128; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      __syncthreads();
      int o = t ^ j;
      if (o > t) {
        bool up = (t & k) == 0;
        if (up == (s[t] > s[o])) { int v = s[t]; s[t] = s[o]; s[o] = v; }
      }
    }
  __syncthreads();
  x[t] = s[t];
}
//! run odd_even_sort grid=1 block=32 : f32[64]
extern "C" __global__ void odd_even_sort(float* x) {
  int t = threadIdx.x;
  for (int phase = 0; phase < 64; ++phase) {
    int i = 2 * t + (phase & 1);
    if (i + 1 < 64 && x[i] > x[i + 1]) { float v = x[i]; x[i] = x[i + 1]; x[i + 1] = v; }
    __syncthreads();
  }
}
//! run rank_sort grid=2 block=64 : i32[128] i32[128]=0 128
extern "C" __global__ void rank_sort(const int* in, int* out, int n) {
  int i = blockIdx.x * 64 + threadIdx.x, rank = 0;
  for (int j = 0; j < n; ++j) rank += in[j] < in[i] || (in[j] == in[i] && j < i);
  out[rank] = in[i];
}
//! run radix_pass grid=1 block=64 : u32[64] u32[64]=0 4
extern "C" __global__ void radix_pass(const unsigned* in, unsigned* out, int bit) {
  __shared__ int s[64];
  int one = (in[threadIdx.x] >> bit) & 1;
  s[threadIdx.x] = one;
  __syncthreads();
  int before = 0, total = 0;
  for (int i = 0; i < 64; ++i) {
    before += i < threadIdx.x ? s[i] : 0;
    total += s[i];
  }
  out[one ? 64 - total + before : threadIdx.x - before] = in[threadIdx.x];
}
//! run merge_path grid=1 block=64 : i32[32]=iota i32[32]=iota i32[64]=0
extern "C" __global__ void merge_path(const int* a, const int* b, int* out) {
  int d = threadIdx.x, low = d > 32 ? d - 32 : 0, high = d < 32 ? d : 32;
  while (low < high) {
    int m = (low + high) / 2;
    if (a[m] <= b[d - 1 - m]) low = m + 1; else high = m;
  }
  int i = low, j = d - low;
  out[d] = j >= 32 || (i < 32 && a[i] <= b[j]) ? a[i] : b[j];
}
//! run bfs_level grid=1 block=32 : i32[33]=iota8 i32[264]<32 i32[32]<3 i32[1]=0 2
extern "C" __global__ void bfs_level(const int* rows, const int* columns, int* level, int* changed, int current) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (level[v] != current) return;
  for (int k = rows[v]; k < rows[v + 1]; ++k)
    if (atomicCAS(&level[columns[k]], 0, current + 1) == 0) *changed = 1;
}
//! run pagerank_pull grid=1 block=32 : i32[33]=iota8 i32[264]<32 f32[32] f32[32]=0 0.85f
extern "C" __global__ void pagerank_pull(const int* rows, const int* columns, const float* rank, float* next, float d) {
  int v = threadIdx.x;
  float s = 0;
  for (int k = rows[v]; k < rows[v + 1]; ++k) s += rank[columns[k]] / (rows[columns[k] + 1] - rows[columns[k]]);
  next[v] = (1 - d) / 32 + d * s;
}
//! run bellman_relax grid=2 block=64 : i32[128]<32 i32[128]<32 i32[128]<50 i32[32]<1000
extern "C" __global__ void bellman_relax(const int* from, const int* to, const int* weight, int* distance) {
  int e = blockIdx.x * 64 + threadIdx.x;
  if (weight[e] < 25) atomicMin(&distance[to[e]], weight[e] + from[e]);
}
//! run triangle_count grid=1 block=32 : u32[32] u32[1]=0
extern "C" __global__ void triangle_count(const unsigned* adjacency, unsigned* count) {
  unsigned row = adjacency[threadIdx.x], n = 0;
  for (unsigned rest = row; rest; rest &= rest - 1) n += __popc(row & adjacency[__ffs(rest) - 1]);
  atomicAdd(count, n);
}
//! run components_hook grid=2 block=64 : i32[128]<64 i32[128]<64 i32[64]=iota
extern "C" __global__ void components_hook(const int* a, const int* b, int* label) {
  int e = blockIdx.x * 64 + threadIdx.x;
  int x = a[e], y = b[e];
  if (x != y) atomicMin(&label[max(x, y)], min(x, y));
}
//! run floyd_step grid=2,2 block=8,8 : i32[256]<100 16 5
extern "C" __global__ void floyd_step(int* d, int n, int k) {
  int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
  if (i == k || j == k) return;
  int through = d[i * n + k] + d[k * n + j];
  if (through < d[i * n + j]) d[i * n + j] = through;
}
//! run edit_distance grid=1 block=32 : u8[32]<4 u8[32]<4 i32[1]=0
extern "C" __global__ void edit_distance(const unsigned char* a, const unsigned char* b, int* out) {
  __shared__ int d[3][33];
  int t = threadIdx.x;
  for (int k = 0; k <= 64; ++k) {
    int* now = d[k % 3];
    for (int i = t; i <= 32; i += 32) {
      int j = k - i;
      if (j < 0 || j > 32) continue;
      int v;
      if (i == 0) v = j;
      else if (j == 0) v = i;
      else v = min(min(d[(k + 2) % 3][i], d[(k + 2) % 3][i - 1]) + 1, d[(k + 1) % 3][i - 1] + (a[i - 1] != b[j - 1]));
      now[i] = v;
    }
    __syncthreads();
  }
  if (t == 0) *out = d[64 % 3][32];
}
//! run knapsack_row grid=1 block=64 : i32[64]<500 i32[64]=0 7 13
extern "C" __global__ void knapsack_row(const int* best, int* next, int weight, int value) {
  int w = threadIdx.x;
  next[w] = w >= weight ? max(best[w], best[w - weight] + value) : best[w];
}
//! run needleman grid=1 block=16 : i32[289]<10 i32[256]<5 17
extern "C" __global__ void needleman(int* score, const int* match, int n) {
  int t = threadIdx.x + 1;
  for (int k = 2; k < 2 * n - 1; ++k) {
    int j = k - t;
    if (j >= 1 && j < n)
      score[t * n + j] = max(max(score[(t - 1) * n + j - 1] + match[(t - 1) * 16 + j - 1], score[(t - 1) * n + j] - 2), score[t * n + j - 1] - 2);
    __syncthreads();
  }
}
//! run string_search grid=2 block=64 : u8[128]<3 u8[4]<3 i32[1]=0 128 4
extern "C" __global__ void string_search(const char* text, const char* pattern, int* found, int n, int m) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i + m > n) return;
  for (int k = 0; k < m; ++k)
    if (text[i + k] != pattern[k]) return;
  atomicAdd(found, 1);
}
//! run word_count grid=1 block=64 : u8[64]<40 i32[1]=0
extern "C" __global__ void word_count(const unsigned char* text, int* words) {
  bool blank = text[threadIdx.x] < 10, before = threadIdx.x == 0 || text[threadIdx.x - 1] < 10;
  int n = __syncthreads_count(!blank && before);
  if (threadIdx.x == 0) *words = n;
}
//! run crc32_bitwise grid=1 block=32 : u8[512] u32[32]=0 16
extern "C" __global__ void crc32_bitwise(const unsigned char* data, unsigned* out, int bytes) {
  unsigned c = 0xffffffffu;
  for (int i = 0; i < bytes; ++i) {
    c ^= data[threadIdx.x * bytes + i];
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (0xedb88320u & (0u - (c & 1)));
  }
  out[threadIdx.x] = ~c;
}
//! run crc32_table grid=1 block=64 : u8[1024] u32[64]=0 16
extern "C" __global__ void crc32_table(const unsigned char* data, unsigned* out, int bytes) {
  __shared__ unsigned table[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    unsigned c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  __syncthreads();
  unsigned c = 0xffffffffu;
  for (int i = 0; i < bytes; ++i) c = table[(c ^ data[threadIdx.x * bytes + i]) & 255] ^ (c >> 8);
  out[threadIdx.x] = ~c;
}
__device__ __forceinline__ unsigned rotate_right(unsigned x, int n) { return (x >> n) | (x << (32 - n)); }
//! run hash_rounds grid=1 block=32 : u32[512] u32[32]=0
extern "C" __global__ void hash_rounds(const unsigned* blocks, unsigned* out) {
  unsigned w[16];
  for (int i = 0; i < 16; ++i) w[i] = blocks[threadIdx.x * 16 + i];
  unsigned a = 0x6a09e667u, b = 0xbb67ae85u, c = 0x3c6ef372u, d = 0xa54ff53au, e = 0x510e527fu, f = 0x9b05688cu, g = 0x1f83d9abu, h = 0x5be0cd19u;
#pragma unroll 4
  for (int i = 0; i < 64; ++i) {
    unsigned v = w[i & 15];
    if (i >= 16) {
      unsigned x = w[(i + 1) & 15], y = w[(i + 14) & 15];
      v = w[i & 15] += (rotate_right(x, 7) ^ rotate_right(x, 18) ^ (x >> 3)) + w[(i + 9) & 15] + (rotate_right(y, 17) ^ rotate_right(y, 19) ^ (y >> 10));
    }
    unsigned t1 = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + ((e & f) ^ (~e & g)) + v + 0x428a2f98u * (i + 1);
    unsigned t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  out[threadIdx.x] = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}
//! run substitution_cipher grid=1 block=32 : u8[256] u32[128] u32[128]=0
extern "C" __global__ void substitution_cipher(const unsigned char* box, const uint4* in, uint4* out) {
  __shared__ unsigned char s[256];
  for (int i = threadIdx.x; i < 256; i += 32) s[i] = box[i];
  __syncthreads();
  uint4 v = in[threadIdx.x];
  unsigned state[4] = {v.x, v.y, v.z, v.w};
  for (int round = 0; round < 6; ++round) {
    unsigned next[4];
    for (int c = 0; c < 4; ++c) {
      unsigned t = 0;
      for (int r = 0; r < 4; ++r) t |= (unsigned)s[(state[(c + r) & 3] >> (8 * r)) & 255] << (8 * r);
      unsigned high = (t >> 7) & 0x01010101u;
      next[c] = ((t << 1) & 0xfefefefeu) ^ high * 0x1b ^ rotate_right(t, 8) ^ round;
    }
    for (int c = 0; c < 4; ++c) state[c] = next[c];
  }
  out[threadIdx.x] = make_uint4(state[0], state[1], state[2], state[3]);
}
//! run stream_cipher_block grid=1 block=16 : u32[16] u32[256]=0
extern "C" __global__ void stream_cipher_block(const unsigned* key, unsigned* out) {
  unsigned x[16];
  for (int i = 0; i < 16; ++i) x[i] = key[i];
  x[12] += threadIdx.x;
#define QUARTER(a, b, c, d)                              \
  x[a] += x[b], x[d] = rotate_right(x[d] ^ x[a], 16);    \
  x[c] += x[d], x[b] = rotate_right(x[b] ^ x[c], 20);    \
  x[a] += x[b], x[d] = rotate_right(x[d] ^ x[a], 24);    \
  x[c] += x[d], x[b] = rotate_right(x[b] ^ x[c], 25);
  for (int i = 0; i < 4; ++i) {
    QUARTER(0, 4, 8, 12) QUARTER(1, 5, 9, 13) QUARTER(2, 6, 10, 14) QUARTER(3, 7, 11, 15)
    QUARTER(0, 5, 10, 15) QUARTER(1, 6, 11, 12) QUARTER(2, 7, 8, 13) QUARTER(3, 4, 9, 14)
  }
  for (int i = 0; i < 16; ++i) out[16 * threadIdx.x + i] = x[i] + key[i];
}
//! run run_length_heads grid=1 block=64 : u8[64]<3 u8[64]=0
extern "C" __global__ void run_length_heads(const unsigned char* in, unsigned char* head) {
  head[threadIdx.x] = threadIdx.x == 0 || in[threadIdx.x] != in[threadIdx.x - 1];
}
//! run base64 grid=1 block=32 : u8[96] u8[128]=0
extern "C" __global__ void base64(const unsigned char* in, char* out) {
  const char* alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char* p = in + 3 * threadIdx.x;
  unsigned v = p[0] << 16 | p[1] << 8 | p[2];
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = alphabet[(v >> (18 - 6 * i)) & 63];
}
//! run sieve grid=1 block=64 : u8[1024]=0 1024
extern "C" __global__ void sieve(unsigned char* composite, int n) {
  for (int p = 2; p * p < n; ++p) {
    __syncthreads();
    if (composite[p]) continue;
    for (int m = p * p + p * threadIdx.x; m < n; m += p * blockDim.x) composite[m] = 1;
  }
}
//! run modular_power grid=1 block=32 : u32[32] u32[32] u32[32]=0 1000003
extern "C" __global__ void modular_power(const unsigned* base, const unsigned* exponent, unsigned* out, unsigned m) {
  unsigned long long r = 1, b = base[threadIdx.x] % m;
  for (unsigned e = exponent[threadIdx.x]; e; e >>= 1) {
    if (e & 1) r = r * b % m;
    b = b * b % m;
  }
  out[threadIdx.x] = (unsigned)r;
}
//! run big_integer_add grid=1 block=16 : u32[128] u32[128] u32[128]=0
extern "C" __global__ void big_integer_add(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned long long carry = 0;
  for (int i = 0; i < 8; ++i) {
    carry += (unsigned long long)a[threadIdx.x * 8 + i] + b[threadIdx.x * 8 + i];
    out[threadIdx.x * 8 + i] = (unsigned)carry;
    carry >>= 32;
  }
}
//! run queens grid=1 block=8 : i32[8]=0 7
extern "C" __global__ void queens(int* out, int n) {
  if (threadIdx.x >= n) return;
  unsigned columns[8], left[8], right[8], free_[8];
  int row = 1, count = 0;
  unsigned all = (1u << n) - 1, b = 1u << threadIdx.x;
  columns[1] = b, left[1] = b << 1, right[1] = b >> 1;
  free_[1] = all & ~(columns[1] | left[1] | right[1]);
  while (row > 0) {
    if (free_[row] == 0) { --row; continue; }
    unsigned bit = free_[row] & (0u - free_[row]);
    free_[row] ^= bit;
    if (row == n - 1) { ++count; continue; }
    columns[row + 1] = columns[row] | bit, left[row + 1] = (left[row] | bit) << 1, right[row + 1] = (right[row] | bit) >> 1;
    ++row;
    free_[row] = all & ~(columns[row] | left[row] | right[row]);
  }
  out[threadIdx.x] = count;
}
