"""Other libraries on the GPU beside Pergola: cuBLAS by itself, CuPy's and PyTorch's through session.call, their streams.

    PYTHONPATH=build/dev/python python3 python/gpu/libraries.py

For a machine with a GPU; `./dev gpu-report` runs it. Each part is checked against NumPy many times over, with kernels
of Pergola before and behind it: an order that is missed shows. A library that is not installed is named and left out;
where none is there, that is an error.
"""
import ctypes
import ctypes.util
import importlib.util
import sys

import numpy as np
import pergola as pg

SOURCE = r"""
extern "C" __global__ void scale(float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}
extern "C" __global__ void set(float* x, const float* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int spin = 0; spin < 200; ++spin) __nanosleep(100);  // so that whoever does not wait is too early
  if (i < n) x[i] = from[i];
}
"""
N, ROUNDS = 256, 50


class Chain:
    """a = first; c = library(a @ b); c *= 2, on the GPU; the same with NumPy."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.first, self.second = (rng.random((N, N), "f4") for _ in range(2))
        self.source, self.a, self.b = pg.array(self.first), pg.zeros((N, N), "f4"), pg.array(self.second)
        self.c = pg.zeros((N, N), "f4")
        module = pg.module(SOURCE)
        self.scale, self.set = module.kernel("scale"), module.kernel("set")
        self.expected = 2 * (self.first @ self.second)

    def before(self):
        self.a.fill(0)
        self.c.fill(-1)
        self.set[N * N](self.a, self.source, N * N)

    def behind(self):
        self.scale[N * N](self.c, 2.0, N * N)
        np.testing.assert_allclose(self.c.numpy(), self.expected, rtol=1e-3)

    def run(self, name, multiply):
        for _ in range(ROUNDS):
            self.before()
            pg.call(name, multiply, reads=[self.a, self.b], writes=[self.c])
            self.behind()


def cublas(chain):
    names = ("libcublas.so.13", "libcublas.so.12", ctypes.util.find_library("cublas"))
    name = next((name for name in names if name and loads(name)), None)
    if name is None:
        return "libcublas is not installed"
    library, handle = ctypes.CDLL(name), ctypes.c_void_p()
    assert library.cublasCreate_v2(ctypes.byref(handle)) == 0
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    a, b, c = (ctypes.c_void_p(array.address) for array in (chain.a, chain.b, chain.c))

    def multiply(stream):  # row-major a @ b is column-major b @ a
        assert library.cublasSetStream_v2(handle, ctypes.c_void_p(stream.handle)) == 0
        assert 0 == library.cublasSgemm_v2(handle, 0, 0, N, N, N, ctypes.byref(one), b, N, a, N, ctypes.byref(zero), c, N)

    chain.run("cublasSgemm", multiply)
    library.cublasDestroy_v2(handle)


def loads(name):
    try:
        return ctypes.CDLL(name) is not None
    except OSError:
        return False


def cupy(chain):
    import cupy as cp

    a, b, c = (cp.from_dlpack(array) for array in (chain.a, chain.b, chain.c))

    def multiply(stream):
        with cp.cuda.ExternalStream(stream.handle):
            cp.matmul(a, b, out=c)

    chain.run("cupy.matmul", multiply)


def torch(chain):
    import torch as t

    a, b, c = (t.from_dlpack(array) for array in (chain.a, chain.b, chain.c))

    def multiply(stream):
        with t.cuda.stream(t.cuda.ExternalStream(stream.handle)):
            t.matmul(a, b, out=c)

    chain.run("torch.matmul", multiply)


def torch_streams(chain):
    """torch's own stream, ordered with the session's work by two calls that wait for nothing."""
    import torch as t

    a, b, c = (t.from_dlpack(array) for array in (chain.a, chain.b, chain.c))
    session, stream = pg.session(), t.cuda.Stream()
    for _ in range(ROUNDS):
        chain.before()
        session.make_stream_wait(stream)
        with t.cuda.stream(stream):
            t.matmul(a, b, out=c)
        session.wait_stream(stream)
        chain.behind()


def main():
    chain, ran = Chain(), 0
    for part, package in ((cublas, None), (cupy, "cupy"), (torch, "torch"), (torch_streams, "torch")):
        why = None
        if package is not None and importlib.util.find_spec(package) is None:
            why = f"{package} is not installed"
        why = why or part(chain)
        print(f"{part.__name__:14} {f'{ROUNDS} rounds as NumPy' if why is None else 'left out: ' + why}")
        ran += why is None
    if ran == 0:
        sys.exit("None of the libraries is installed.")


if __name__ == "__main__":
    main()
