// HS: the temperature of a chip from the power of its cells. A launch takes `steps` steps of time; a block loads 16 x 16
// cells, of which `steps` at each side are there only to compute the others. At the chip's edge a cell's neighbour
// beyond is the cell itself.
#define SIDE 16

extern "C" __global__ void hotspot(int steps, const float* power, const float* before, float* after, int columns,
                                   int rows, int border, float by_capacity, float x_conductance, float y_conductance,
                                   float z_conductance) {
  __shared__ float heat[SIDE][SIDE];
  __shared__ float source[SIDE][SIDE];
  __shared__ float next[SIDE][SIDE];
  const float ambient = 80.0f;
  int tx = threadIdx.x, ty = threadIdx.y;
  int inner = SIDE - 2 * steps;
  int first_row = inner * blockIdx.y - border;
  int first_column = inner * blockIdx.x - border;
  int row = first_row + ty;
  int column = first_column + tx;
  int index = columns * row + column;
  bool is_inside = row >= 0 && row < rows && column >= 0 && column < columns;

  if (is_inside) {
    heat[ty][tx] = before[index];
    source[ty][tx] = power[index];
  }
  __syncthreads();

  int north = max(ty - 1, max(0, -first_row));
  int south = min(ty + 1, min(SIDE - 1, rows - 1 - first_row));
  int west = max(tx - 1, max(0, -first_column));
  int east = min(tx + 1, min(SIDE - 1, columns - 1 - first_column));

  bool computed = false;
  for (int i = 0; i < steps; i++) {
    computed = false;
    if (tx > i && tx < SIDE - 1 - i && ty > i && ty < SIDE - 1 - i && is_inside) {
      computed = true;
      float here = heat[ty][tx];
      float change = source[ty][tx] + (heat[south][tx] + heat[north][tx] - 2.0f * here) * y_conductance +
                     (heat[ty][east] + heat[ty][west] - 2.0f * here) * x_conductance +
                     (ambient - here) * z_conductance;
      next[ty][tx] = here + by_capacity * change;
    }
    __syncthreads();
    if (i == steps - 1) break;
    if (computed) heat[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (computed) after[index] = next[ty][tx];
}
