"""Narrow tasks: launches of a few warps that together fill the device, spawned as they appear.

    PYTHONPATH=build/dev/python PERGOLA_DEVICE=cpu python3 examples/python/tasks.py
"""
import asyncio

import numpy as np
import pergola as pg

WIDTH, HEIGHT, LIMIT, STEP = 256, 256, 100, np.float32(3 / 256)
TILE = (32, 8)                                  # a block of one task: a pixel a thread

# The Mandelbrot set. Every operation is rounded on its own, as NumPy's are.
kernel = pg.kernel(r'''extern "C" __global__ void tile(
  unsigned short* image, int width, int left, int top, float x0, float y0, float step, int limit) {
  int column = left + threadIdx.x, row = top + threadIdx.y, n = 0;
  float cx = __fadd_rn(x0, __fmul_rn(step, (float)column)), cy = __fadd_rn(y0, __fmul_rn(step, (float)row)), x = 0, y = 0;
  while (n < limit) {
    float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y), xy = __fmul_rn(x, y);
    if (__fadd_rn(xx, yy) > 4.0f) break;
    x = __fadd_rn(__fadd_rn(xx, -yy), cx);
    y = __fadd_rn(__fadd_rn(xy, xy), cy);
    ++n;
  }
  image[row * width + column] = (unsigned short)n; }''')


def on_the_host(x0, y0):
    cx = np.float32(x0) + STEP * np.arange(WIDTH, dtype='f4')
    cy = (np.float32(y0) + STEP * np.arange(HEIGHT, dtype='f4'))[:, None]
    x, y, n = np.zeros((HEIGHT, WIDTH), 'f4'), np.zeros((HEIGHT, WIDTH), 'f4'), np.zeros((HEIGHT, WIDTH), 'u2')
    inside = np.ones((HEIGHT, WIDTH), bool)
    for _ in range(LIMIT):
        xx, yy, xy = x * x, y * y, x * y
        inside &= xx + yy <= 4
        n[inside] += 1
        x, y = np.where(inside, (xx - yy) + cx, x), np.where(inside, (xy + xy) + cy, y)
    return n


pool = pg.task_pool()
tile = pool.prepare(kernel, 1, TILE)            # compiles


def spawn(image, x0, y0):
    """The image's tiles, as tasks, many at once: `left` and `top` have a value for each. It returns at once, as
    `tile(image, WIDTH, 0, 0, x0, y0, STEP, LIMIT)` does for one."""
    top, left = np.mgrid[0:HEIGHT:TILE[1], 0:WIDTH:TILE[0]].reshape(2, -1)
    return tile.spawn_each(image, WIDTH, left, top, x0, y0, STEP, LIMIT)


image = pg.empty((HEIGHT, WIDTH), 'u2')
tasks = spawn(image, -2.2, -1.5)
done = sum(1 for task in pg.as_completed(tasks))  # each as it ends; image.numpy() alone would wait as well
print(pg.device().name, f'{done} tiles')
assert (image.numpy() == on_the_host(-2.2, -1.5)).all()


async def picture(x0):
    """One of several pictures that are made at the same time, by one event loop."""
    mine = pg.empty((HEIGHT, WIDTH), 'u2')
    await asyncio.gather(*spawn(mine, x0, -1.5))
    return mine.numpy()


async def pictures():
    return await asyncio.gather(*(picture(x0) for x0 in (-2.0, -1.0)))


for x0, made in zip((-2.0, -1.0), asyncio.run(pictures())):
    assert (made == on_the_host(x0, -1.5)).all()
pool.park()                                     # the device is free; the next task starts the pool again
print(pool.info)
