// PATH: the cheapest way down a grid of costs, one column left or right a row at most. A launch takes `steps` rows; a
// block loads 256 columns, of which `steps` at either side are there only to compute the others.
#define WIDTH 256

extern "C" __global__ void pathfinder(int steps, const int* costs, const int* before, int* after, int columns,
                                      int first_row, int border) {
  __shared__ int best[WIDTH];
  __shared__ int next[WIDTH];
  int tx = threadIdx.x;
  int first_column = (WIDTH - 2 * steps) * blockIdx.x - border;
  int column = first_column + tx;

  // Of the block's columns, those that the grid has; at its edges a cell has no neighbour beyond.
  int low = max(0, -first_column);
  int high = min(WIDTH - 1, columns - 1 - first_column);
  int west = max(tx - 1, low);
  int east = min(tx + 1, high);
  bool is_inside = tx >= low && tx <= high;

  if (column >= 0 && column < columns) best[tx] = before[column];
  __syncthreads();

  bool computed = false;
  for (int i = 0; i < steps; i++) {
    computed = false;
    if (tx > i && tx < WIDTH - 1 - i && is_inside) {
      computed = true;
      int shortest = min(best[tx], min(best[west], best[east]));
      next[tx] = shortest + costs[columns * (first_row + i) + column];
    }
    __syncthreads();
    if (i == steps - 1) break;
    if (computed) best[tx] = next[tx];
    __syncthreads();
  }
  if (computed) after[column] = next[tx];
}
