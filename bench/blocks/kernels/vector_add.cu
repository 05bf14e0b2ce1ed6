// Two additions of vectors after each other, a thread an element, for dependencies of a chosen degree.

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// The same, where a block reads something of each block of its group of `degree`: thread t its element of block t of the
// group, t + 256 and so on. A block does nearly the same work whatever the degree.
extern "C" __global__ void vector_add_of_group(const float* c, const float* d, float* e, int n, int degree) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int first = blockIdx.x / degree * degree;
  int last = min(first + degree, (int)gridDim.x);
  if (i < n) {
    float sum = d[i];
    for (int k = first + threadIdx.x; k < last; k += blockDim.x) {
      int j = k * blockDim.x + threadIdx.x;
      if (j < n) sum += c[j];
    }
    e[i] = sum;
  }
}
