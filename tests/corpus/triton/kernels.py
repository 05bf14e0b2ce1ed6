"""Triton kernels whose PTX is part of the corpus (../ptx/triton-*). Needs `pip install triton`; no GPU.

    kernels.py FOLDER     writes FOLDER/triton-80/<kernel>.ptx and FOLDER/triton-90/<kernel>.ptx
"""
import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    tl.store(out + i, tl.load(x + i, mask=keep) + tl.load(y + i, mask=keep), mask=keep)


@triton.jit
def row_softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + i, e / tl.sum(e, axis=0), mask=i < n)


@triton.jit
def layer_norm(x, gain, bias, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    keep = i < n
    v = tl.load(x + row * n + i, mask=keep, other=0.0)
    mean = tl.sum(v, axis=0) / n
    d = tl.where(keep, v - mean, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, axis=0) / n + eps)
    tl.store(out + row * n + i, d * r * tl.load(gain + i, mask=keep) + tl.load(bias + i, mask=keep), mask=keep)


@triton.jit
def matrix_product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        s = start + tl.arange(0, BK)
        u = tl.load(a + i[:, None] * k + s[None, :], mask=(i[:, None] < m) & (s[None, :] < k), other=0.0)
        v = tl.load(b + s[:, None] * n + j[None, :], mask=(s[:, None] < k) & (j[None, :] < n), other=0.0)
        acc += tl.dot(u, v)
    tl.store(c + i[:, None] * n + j[None, :], acc, mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def column_sums(x, out, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    j = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros((BC,), dtype=tl.float32)
    for start in range(0, rows, BR):
        i = start + tl.arange(0, BR)
        acc += tl.sum(tl.load(x + i[:, None] * columns + j[None, :], mask=(i[:, None] < rows) & (j[None, :] < columns), other=0.0), axis=0)
    tl.store(out + j, acc, mask=j < columns)


@triton.jit
def histogram_atomics(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(bins + (v & 255), 1, mask=i < n)


@triton.jit
def prefix_sums(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i, mask=i < n, other=0), axis=0), mask=i < n)


@triton.jit
def seeded_dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, tl.load(x + i, mask=i < n, other=0.0) / (1 - p), 0.0), mask=i < n)


def one(block=1024, **types):
    return types, {"BLOCK": block}


KERNELS = {
    vector_add: one(x="*fp32", y="*fp32", out="*fp32", n="i32"),
    row_softmax: one(256, x="*fp32", out="*fp32", stride="i32", n="i32"),
    layer_norm: one(512, x="*fp32", gain="*fp32", bias="*fp32", out="*fp32", n="i32", eps="fp32"),
    matrix_product: ({"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"},
                     {"BM": 32, "BN": 32, "BK": 32}),
    column_sums: ({"x": "*fp32", "out": "*fp32", "rows": "i32", "columns": "i32"}, {"BR": 16, "BC": 64}),
    histogram_atomics: one(256, x="*i32", bins="*i32", n="i32"),
    prefix_sums: one(256, x="*i32", out="*i32", n="i32"),
    seeded_dropout: one(256, x="*fp32", out="*fp32", n="i32", p="fp32", seed="i32"),
}


def main():
    for arch in (80, 90):
        folder = pathlib.Path(sys.argv[1]) / f"triton-{arch}"
        folder.mkdir(parents=True, exist_ok=True)
        for kernel, (types, constants) in KERNELS.items():
            names = kernel.arg_names
            signature = {name: types.get(name, "constexpr") for name in names}
            source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
            made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"ptx_version": 87})
            (folder / f"{kernel.__name__}.ptx").write_text(made.asm["ptx"])


if __name__ == "__main__":
    main()
