"""The first five minutes: kernels from CUDA C++ text, arrays, launches that order themselves, what is known of a kernel.

    PYTHONPATH=build/dev/python PERGOLA_DEVICE=cpu python3 examples/python/first_five_minutes.py
"""
import numpy as np
import pergola as pg

saxpy = pg.kernel(r'''extern "C" __global__ void saxpy(
  float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i]; }''')            # signature and access modes come from the PTX
x = pg.array(np.ones(1 << 20, 'f4'))
y = pg.zeros_like(x)
saxpy[x.size](2.0, x, y, x.size)                # or [grid, block]
saxpy[x.size](3.0, x, y, x.size)                # ordered after the first, by itself
result = y.numpy()                              # the only wait
print(pg.device().name, result[:4])
assert (result == 5).all()

print(saxpy.explain())
print(pg.dag())                                 # Mermaid; in a notebook a picture

# Arguments are checked against the kernel's signature before anything runs.
try:
    saxpy[x.size](2.0, x, y, 0.5)
except TypeError as error:
    print(error)

# Several kernels in one text; a part of an array is an array, and views share its memory.
shapes = pg.module(r'''
extern "C" __global__ void scale(float* a, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] *= by; }
extern "C" __global__ void transpose(const float* in, float* out, int rows, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column]; }''')
matrix = pg.array(np.arange(12, dtype='f4').reshape(3, 4))
shapes.scale[4](matrix[1], 10.0, 4)             # the second row
turned = pg.empty((4, 3), 'f4')
shapes.transpose[(1, 1), (16, 16)](matrix, turned, 3, 4)
print(turned.numpy())
assert (turned.numpy() == matrix.numpy().T).all()
