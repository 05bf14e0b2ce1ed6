// Kernels in the manner of the Rodinia suite: graphs, wavefronts, stencils, clustering, particles, trees.
//! run frontier_expand grid=2 block=64 : i32[129]=iota4 i32[512]<128 u8[128]<2 u8[128]=0 u8[128]<2 i32[128]=0 128
extern "C" __global__ void frontier_expand(const int* rows, const int* columns, unsigned char* frontier,
                                           unsigned char* updated, const unsigned char* visited, int* cost, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n || !frontier[v]) return;
  frontier[v] = 0;
  for (int e = rows[v]; e < rows[v + 1]; ++e) {
    int to = columns[e];
    if (!visited[to]) {
      cost[to] = 1;
      updated[to] = 1;
    }
  }
}
//! run frontier_commit grid=2 block=64 : u8[128]=0 u8[128]<2 u8[128]<2 i32[1]=0 128
extern "C" __global__ void frontier_commit(unsigned char* frontier, unsigned char* updated, unsigned char* visited,
                                           int* more, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n && updated[v]) {
    frontier[v] = 1;
    visited[v] = 1;
    *more = 1;
    updated[v] = 0;
  }
}
#define TILE 16
__device__ int best_of_three(int a, int b, int c) { return max(a, max(b, c)); }
// One tile of an alignment's score, by anti-diagonals, in shared memory.
//! run alignment_wavefront grid=3 block=16 : i32[2401]<8 i32[2401]<21 49 2 2
extern "C" __global__ void alignment_wavefront(int* score, const int* reference, int columns, int penalty, int diagonal) {
  __shared__ int tile[TILE + 1][TILE + 1];
  __shared__ int match[TILE][TILE];
  int bx = blockIdx.x, by = diagonal - blockIdx.x, t = threadIdx.x;
  int base = columns * TILE * by + TILE * bx;
  for (int y = 0; y < TILE; ++y) match[y][t] = reference[base + (y + 1) * columns + t + 1] - 10;
  if (t == 0) tile[0][0] = score[base];
  tile[t + 1][0] = score[base + columns * (t + 1)];
  tile[0][t + 1] = score[base + t + 1];
  __syncthreads();
  for (int m = 0; m < 2 * TILE - 1; ++m) {
    int x = m < TILE ? t + 1 : TILE - t, y = m < TILE ? m - t + 1 : m + t - TILE + 2;
    bool active = m < TILE ? t <= m : t < 2 * TILE - 1 - m;
    if (active)
      tile[y][x] = best_of_three(tile[y - 1][x - 1] + match[y - 1][x - 1], tile[y][x - 1] - penalty, tile[y - 1][x] - penalty);
    __syncthreads();
  }
  for (int y = 0; y < TILE; ++y) score[base + (y + 1) * columns + t + 1] = tile[y + 1][t + 1];
}
// Several steps a launch over a tile whose valid middle shrinks by one a step.
//! run hotspot_pyramid tol=1e-5 grid=4,4 block=16,16 : 3 f32[2304] f32[2304] f32[2304]=0 48 48 0.1f 0.2f 0.3f
extern "C" __global__ void hotspot_pyramid(int steps, const float* power, const float* from, float* to, int w, int h,
                                           float rx, float ry, float rz) {
  __shared__ float now[TILE][TILE], next[TILE][TILE], heat[TILE][TILE];
  const int inner = TILE - 2 * steps;
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = int(blockIdx.x) * inner - steps + tx, y = int(blockIdx.y) * inner - steps + ty;
  bool inside = x >= 0 && x < w && y >= 0 && y < h;
  if (inside) {
    now[ty][tx] = from[y * w + x];
    heat[ty][tx] = power[y * w + x];
  }
  __syncthreads();
  int low_x = max(0, -(int(blockIdx.x) * inner - steps)), low_y = max(0, -(int(blockIdx.y) * inner - steps));
  int high_x = min(TILE - 1, w - 1 - (int(blockIdx.x) * inner - steps));
  int high_y = min(TILE - 1, h - 1 - (int(blockIdx.y) * inner - steps));
  bool valid = false;
  for (int step = 0; step < steps; ++step) {
    valid = tx >= step + 1 && tx <= TILE - 2 - step && ty >= step + 1 && ty <= TILE - 2 - step && inside;
    if (valid) {
      int west = max(tx - 1, low_x), east = min(tx + 1, high_x), north = max(ty - 1, low_y), south = min(ty + 1, high_y);
      next[ty][tx] = now[ty][tx] + 0.5f * (heat[ty][tx] + (now[south][tx] + now[north][tx] - 2 * now[ty][tx]) * ry +
                                           (now[ty][east] + now[ty][west] - 2 * now[ty][tx]) * rx + (80 - now[ty][tx]) * rz);
    }
    __syncthreads();
    if (valid) now[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (valid) to[y * w + x] = now[ty][tx];
}
//! run hotspot_column tol=1e-5 grid=2,2 block=8,8 : f32[2048] f32[2048] f32[2048]=0 16 16 8 0.25f 0.1f
extern "C" __global__ void hotspot_column(const float* p, const float* in, float* out, int nx, int ny, int nz, float cc, float cw) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, plane = nx * ny;
  int c = i + j * nx;
  int w = i == 0 ? c : c - 1, e = i == nx - 1 ? c : c + 1, n = j == 0 ? c : c - nx, s = j == ny - 1 ? c : c + nx;
  float below = in[c], here = in[c], above = in[c + plane];
  for (int k = 0; k < nz; ++k) {
    out[c] = cc * here + cw * (in[w] + in[e] + in[n] + in[s]) + cw * (below + above) + p[c];
    c += plane; w += plane; e += plane; n += plane; s += plane;
    below = here;
    here = above;
    above = k + 2 < nz ? in[c + plane] : above;
  }
}
//! run diffusion_coefficient tol=1e-4 grid=2,2 block=16,16 : f32[1024]=3 f32[1024]=0 f32[1024]=0 f32[1024] 32 0.5f
extern "C" __global__ void diffusion_coefficient(const float* image, float* dn, float* coefficient, const float* noise, int n, float q0) {
  __shared__ float tile[16][16];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, i = y * n + x;
  tile[threadIdx.y][threadIdx.x] = image[i] + 0.1f * noise[i];
  __syncthreads();
  float c = tile[threadIdx.y][threadIdx.x];
  auto at = [&](int ty, int tx) { return tile[min(max(ty, 0), 15)][min(max(tx, 0), 15)]; };
  float north = at(int(threadIdx.y) - 1, threadIdx.x) - c, south = at(threadIdx.y + 1, threadIdx.x) - c;
  float west = at(threadIdx.y, int(threadIdx.x) - 1) - c, east = at(threadIdx.y, threadIdx.x + 1) - c;
  float gradient = (north * north + south * south + west * west + east * east) / (c * c);
  float laplace = (north + south + west + east) / c;
  float num = 0.5f * gradient - 0.0625f * laplace * laplace, den = 1 + 0.25f * laplace;
  float q = num / (den * den);
  float value = 1.0f / (1.0f + (q - q0) / (q0 * (1 + q0)));
  coefficient[i] = value < 0 ? 0 : value > 1 ? 1 : value;
  dn[i] = north;
}
// The tile on the diagonal of a blocked LU, in place; rows are made dominant first.
//! run lu_diagonal tol=1e-4 grid=1 block=16 : f32[256] 16 0
extern "C" __global__ void lu_diagonal(float* m, int n, int offset) {
  __shared__ float s[16][17];
  int t = threadIdx.x;
  for (int i = 0; i < 16; ++i) s[i][t] = m[(offset + i) * n + offset + t] + (i == t ? 40.0f : 0.0f);
  __syncthreads();
  for (int i = 0; i < 15; ++i) {
    if (t > i) {
      for (int j = 0; j < i; ++j) s[t][i] -= s[t][j] * s[j][i];
      s[t][i] /= s[i][i];
    }
    __syncthreads();
    if (t > i)
      for (int j = 0; j < i + 1; ++j) s[i + 1][t] -= s[i + 1][j] * s[j][t];
    __syncthreads();
  }
  for (int i = 0; i < 16; ++i) m[(offset + i) * n + offset + t] = s[i][t];
}
//! run lu_interior tol=1e-4 grid=2,2 block=16,16 : f32[2304] 48
extern "C" __global__ void lu_interior(float* m, int n) {
  __shared__ float row[16][16], column[16][16];
  int x = (blockIdx.x + 1) * 16 + threadIdx.x, y = (blockIdx.y + 1) * 16 + threadIdx.y;
  row[threadIdx.y][threadIdx.x] = m[threadIdx.y * n + x];
  column[threadIdx.y][threadIdx.x] = m[y * n + threadIdx.x];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) sum += column[threadIdx.y][i] * row[i][threadIdx.x];
  m[y * n + x] -= sum;
}
//! run gaussian_multipliers grid=1 block=32 : f32[1024]=2 f32[1024]=0 32 3
extern "C" __global__ void gaussian_multipliers(const float* a, float* m, int n, int t) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n - 1 - t) return;
  m[n * (i + t + 1) + t] = a[n * (i + t + 1) + t] / a[n * t + t];
}
//! run gaussian_eliminate tol=1e-5 grid=4,4 block=8,8 : f32[1024] f32[1024] f32[32] 32 3
extern "C" __global__ void gaussian_eliminate(float* a, const float* m, float* b, int n, int t) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n - 1 - t || y >= n - t) return;
  a[n * (x + 1 + t) + y + t] -= m[n * (x + 1 + t) + t] * a[n * t + y + t];
  if (y == 0) b[x + 1 + t] -= m[n * (x + 1 + t) + t] * b[t];
}
//! run path_rows grid=4 block=64 : 4 i32[1024]<10 i32[256]<100 i32[256]=0 256
extern "C" __global__ void path_rows(int rows, const int* wall, const int* from, int* to, int columns) {
  __shared__ int best[64], next[64];
  int inner = 64 - 2 * rows, x = int(blockIdx.x) * inner - rows + int(threadIdx.x), t = threadIdx.x;
  bool inside = x >= 0 && x < columns, computed = false;
  best[t] = inside ? from[x] : 1 << 20;
  __syncthreads();
  for (int r = 0; r < rows; ++r) {
    computed = inside && t > r && t < 63 - r;
    if (computed) {
      int left = best[t - 1], up = best[t], right = best[t + 1];
      next[t] = min(left, min(up, right)) + wall[r * columns + x];
    }
    __syncthreads();
    if (computed) best[t] = next[t];
    __syncthreads();
  }
  if (computed) to[x] = best[t];
}
//! run layer_forward tol=1e-4 grid=1,4 block=16,16 : f32[65] f32[1105] f32[64]=0 16
extern "C" __global__ void layer_forward(const float* input, const float* weights, float* partial, int hidden) {
  int by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  __shared__ float node[16], product[16][16];
  if (tx == 0) node[ty] = input[by * 16 + ty + 1];
  __syncthreads();
  product[ty][tx] = weights[(hidden + 1) * (16 * by + ty + 1) + tx + 1] * node[ty];
  __syncthreads();
  for (int power = 2; power <= 16; power *= 2) {
    if (ty % power == 0) product[ty][tx] += product[ty + power / 2][tx];
    __syncthreads();
  }
  if (tx == 0) partial[by * hidden + ty] = product[0][ty];
}
struct Leaf { int is_leaf, keys[8], children[9]; };
//! run tree_lookup grid=4 block=8 : i32[54]=iota i32[32]<24 i32[32]=7
extern "C" __global__ void tree_lookup(const Leaf* nodes, const int* wanted, int* answers) {
  __shared__ int current, next;
  for (int query = blockIdx.x; query < 32; query += gridDim.x) {
    if (threadIdx.x == 0) current = next = 0;
    __syncthreads();
    for (int level = 0; level < 2; ++level) {
      const Leaf& node = nodes[current];
      int low = threadIdx.x == 0 ? -1 : node.keys[threadIdx.x - 1];
      if (low <= wanted[query] && wanted[query] < node.keys[threadIdx.x]) next = node.children[threadIdx.x] % 3;
      __syncthreads();
      if (threadIdx.x == 0) current = next;
      __syncthreads();
    }
    if (threadIdx.x < 8 && nodes[current].keys[threadIdx.x] == wanted[query]) answers[query] = current;
    __syncthreads();
  }
}
//! run box_forces tol=1e-3 grid=4 block=32 : f32[512]=1 f32[512] f32[512]=0 0.5f
extern "C" __global__ void box_forces(const float4* charge, const float4* position, float4* force, float alpha) {
  __shared__ float4 theirs[32];
  __shared__ float charges[32];
  int t = threadIdx.x, mine = blockIdx.x * 32 + t;
  float4 p = position[mine], sum = make_float4(0, 0, 0, 0);
  float a2 = 2 * alpha * alpha;
  for (unsigned k = 0; k < gridDim.x; ++k) {
    int box = (blockIdx.x + k) % gridDim.x;
    theirs[t] = position[box * 32 + t];
    charges[t] = charge[box * 32 + t].x;
    __syncthreads();
    for (int j = 0; j < 32; ++j) {
      float r2 = p.w + theirs[j].w - (p.x * theirs[j].x + p.y * theirs[j].y + p.z * theirs[j].z);
      float vij = expf(-fabsf(a2 * r2)), fs = 2 * vij;
      sum.w += charges[j] * vij;
      sum.x += charges[j] * fs * (p.x - theirs[j].x);
      sum.y += charges[j] * fs * (p.y - theirs[j].y);
      sum.z += charges[j] * fs * (p.z - theirs[j].z);
    }
    __syncthreads();
  }
  force[mine] = sum;
}
//! run kmeans_membership grid=2 block=64 : f32[1024] f32[40] i32[128]=0 i32[1]=0 128 5 8
extern "C" __global__ void kmeans_membership(const float* features, const float* centres, int* member, int* changed, int points,
                                             int clusters, int dimensions) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= points) return;
  int best = -1;
  float least = 3.402823466e+38f;
  for (int c = 0; c < clusters; ++c) {
    float sum = 0;
    for (int d = 0; d < dimensions; ++d) {
      float delta = features[id + d * points] - centres[c * dimensions + d];
      sum = __fadd_rn(sum, __fmul_rn(delta, delta));
    }
    if (sum < least) { least = sum; best = c; }
  }
  if (member[id] != best) atomicAdd(changed, 1);
  member[id] = best;
}
// Resampling of particles: each finds by a binary search the weight sum that its draw falls under.
//! run particle_resample grid=2 block=64 : f64[128]=iota f64[128] f64[128]=0 128 31.25
extern "C" __global__ void particle_resample(const double* cumulative, const double* x, double* moved, int n, double start) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double u = fmod(start + 0.75 * i, 127.0);
  int low = 0, high = n - 1;
  while (low < high) {
    int middle = (low + high) >> 1;
    if (cumulative[middle] >= u) high = middle; else low = middle + 1;
  }
  moved[i] = x[low];
}
//! run particle_likelihood tol=1e-9 grid=1 block=64 : u8[1024] i32[32]<32 f64[64]=0 64 16
extern "C" __global__ void particle_likelihood(const unsigned char* image, const int* offsets, double* likelihood, int n, int ones) {
  __shared__ double sums[64];
  int t = threadIdx.x;
  double sum = 0;
  for (int k = 0; k < ones; ++k) {
    int at = abs(offsets[2 * k] * 32 + offsets[2 * k + 1] + t) % 1024;
    double low = image[at] - 100.0, high = image[at] - 228.0;
    sum += (low * low - high * high) / 50.0;
  }
  likelihood[t] = sum / ones;
  sums[t] = likelihood[t];
  __syncthreads();
  for (int s = 32; s > 0; s >>= 1) {
    if (t < s) sums[t] += sums[t + s];
    __syncthreads();
  }
  if (t == 0) likelihood[0] = sums[0];
}
extern __shared__ float centre_coordinates[];
//! run stream_cluster_gain tol=1e-4 grid=2 block=64 smem=32 : 128 8 f32[1024] f32[128]=1 f32[128]=9 i32[128]<6 f32[768]=0 6 17
extern "C" __global__ void stream_cluster_gain(int n, int dimensions, const float* x, const float* weight, const float* cost,
                                               const int* centre, float* lower, int k, int candidate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0)
    for (int d = 0; d < dimensions; ++d) centre_coordinates[d] = x[d * n + candidate];
  __syncthreads();
  if (i >= n) return;
  float sum = 0;
  for (int d = 0; d < dimensions; ++d) {
    float delta = x[d * n + i] - centre_coordinates[d];
    sum += delta * delta;
  }
  float now = sum * weight[i];
  if (now < cost[i]) lower[i * k + centre[i]] += cost[i] - now;
}
struct float3_ { float x, y, z; };
__device__ __forceinline__ void flux_contribution(float density, float3_ momentum, float energy, float pressure, float3_ v, float3_& fx,
                                                  float3_& fe) {
  fx = {v.x * momentum.x + pressure, v.x * momentum.y, v.x * momentum.z};
  float e = energy + pressure;
  fe = {v.x * e, v.y * e, v.z * e};
  fe.x += density * 0;
}
//! run unstructured_flux tol=1e-3 grid=2 block=32 : i32[256]<64 f32[768] f32[320]=2 f32[320]=0 64
extern "C" __global__ void unstructured_flux(const int* neighbours, const float* normals, const float* variables, float* fluxes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float density = variables[i], energy = variables[i + 4 * n];
  float3_ momentum{variables[i + n], variables[i + 2 * n], variables[i + 3 * n]};
  float3_ v{momentum.x / density, momentum.y / density, momentum.z / density};
  float speed2 = v.x * v.x + v.y * v.y + v.z * v.z, pressure = 0.4f * (energy - 0.5f * density * speed2);
  float sound = sqrtf(1.4f * fabsf(pressure) / density);
  float3_ fx, fe, other_fx, other_fe;
  flux_contribution(density, momentum, energy, pressure, v, fx, fe);
  float sum[5] = {0, 0, 0, 0, 0};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    int nb = neighbours[i + j * n] - 2;
    float3_ normal{normals[i + 3 * j * n], normals[i + (3 * j + 1) * n], normals[i + (3 * j + 2) * n]};
    float length = sqrtf(normal.x * normal.x + normal.y * normal.y + normal.z * normal.z);
    if (nb >= 0) {
      float3_ m{variables[nb + n], variables[nb + 2 * n], variables[nb + 3 * n]};
      float3_ w{m.x / variables[nb], m.y / variables[nb], m.z / variables[nb]};
      flux_contribution(variables[nb], m, variables[nb + 4 * n], pressure, w, other_fx, other_fe);
      float factor = -length * 0.1f * (sqrtf(speed2) + sound);
      sum[0] += factor * (density - variables[nb]);
      sum[4] += factor * (energy - variables[nb + 4 * n]) + 0.5f * normal.x * (fe.x + other_fe.x);
      sum[1] += 0.5f * normal.y * (fx.x + other_fx.x);
    } else if (nb == -1) {
      sum[1] += normal.x * pressure; sum[2] += normal.y * pressure; sum[3] += normal.z * pressure;
    } else {
      sum[0] += 0.5f * normal.x * (momentum.x + 1.0f);
    }
  }
  for (int k = 0; k < 5; ++k) fluxes[i + k * n] = sum[k];
}
struct Place { float latitude, longitude; };
//! run nearest_distance tol=1e-5 grid=2 block=64 : f32[256] f32[128]=0 128 0.5f -0.25f
extern "C" __global__ void nearest_distance(const Place* places, float* distance, int n, float latitude, float longitude) {
  int i = blockDim.x * (gridDim.x * blockIdx.y + blockIdx.x) + threadIdx.x;
  if (i < n)
    distance[i] = (float)sqrt((latitude - places[i].latitude) * (latitude - places[i].latitude) +
                              (longitude - places[i].longitude) * (longitude - places[i].longitude));
}
// Correlation of a template with a window, and where it is largest, per block.
//! run template_track tol=1e-4 grid=4 block=64 : f32[1600] f32[64] i32[8]<30 f32[4]=0 i32[4]=0
extern "C" __global__ void template_track(const float* frame, const float* pattern, const int* where, float* best, int* at) {
  __shared__ float values[64];
  __shared__ int places[64];
  int t = threadIdx.x, r0 = where[2 * blockIdx.x] % 24, c0 = where[2 * blockIdx.x + 1] % 24;
  int r = r0 + t / 8, c = c0 + t % 8;
  float sum = 0;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) sum += pattern[i * 8 + j] * frame[(r + i) * 40 + c + j];
  values[t] = sum;
  places[t] = r * 40 + c;
  __syncthreads();
  for (int s = 32; s > 0; s /= 2) {
    if (t < s && values[t + s] > values[t]) {
      values[t] = values[t + s];
      places[t] = places[t + s];
    }
    __syncthreads();
  }
  if (t == 0) {
    best[blockIdx.x] = values[0];
    at[blockIdx.x] = places[0];
  }
}
