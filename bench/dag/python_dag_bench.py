"""The six problems of dag_bench from Python, form pergola-python: README.md beside this file says what they are.

    PYTHONPATH=build/dev/python python_dag_bench.py [--small] [--only VEC,IMG] [--bytes 10M,100M] [--block 256] [--runs 30]
                                                    [--pageable] [--against REPORT.json,REPORT.json] [--driver-chain PATH]
                                                    [--report PATH]

The same kernels, sizes and measures, and what goes before a timed turn; results are compared with NumPy's in double
precision. Inputs and outputs are in the host's sides of the arrays, which are page-locked, as in dag_bench; with
--pageable in NumPy's own memory. PERGOLA_DEVICE chooses the device.
`chain` and `fork-join` are what a launch costs the host, as task_bench has it for the driver and for C++: one that depends
on the one before it, and two chains that meet every third launch. With --driver-chain build/dev/lib/libdriver_chain.so for
the driver too, by turns in the same processes.
"""
import argparse
import ctypes
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import pergola as pg

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import report  # noqa: E402

KERNELS = pathlib.Path(__file__).with_name("kernels.cu")


class Problem:
    """Host inputs, device arrays and kernels of one problem; subclasses say what an iteration is, as if sequential."""

    pageable = False

    def __init__(self, kernels, block):
        self.k, self.block = kernels, block
        self.filled = set()
        self.inputs = {}  # name: a NumPy array that write() brings to the device's array of that name
        self.rng = np.random.default_rng(1)

    def uniform(self, name, shape, low=0.0, high=1.0, dtype="f4"):
        self.add(name, self.rng.uniform(low, high, shape).astype(dtype))

    def add(self, name, values):
        self.inputs[name] = values
        setattr(self, name, pg.empty(values.shape, values.dtype))

    def scratch(self, n):
        """A reduction's grid, and its arguments: partial sums, counter, result."""
        blocks = min(max(1, -(-n // (self.block * 8))), 132 * 2048 // self.block)
        return (blocks, self.block), (pg.empty(blocks, "f8"), pg.zeros(1, "u4"), pg.empty(1, "f8"))

    def each(self, n):
        return -(-n // self.block), self.block

    def send(self, name):
        if self.pageable:
            getattr(self, name).copy_from(self.inputs[name])
            return
        host = getattr(self, name).host("w")
        if name not in self.filled:
            host[...] = self.inputs[name]
            self.filled.add(name)

    def announce(self, array):
        if not self.pageable:
            array.prefetch("host")

    def receive(self):
        return [array.numpy() if self.pageable else array.host("r") for array in self.outputs]

    def write(self):
        for name in self.inputs:
            self.send(name)

    def read(self):
        for array in self.outputs:
            self.announce(array)
        return self.receive()

    def run(self):
        """An iteration with its copies, in the order in which a program would have them."""
        self.write()
        self.launch()
        return self.read()

    def host(self, name):
        return self.inputs[name].astype("f8")


class Vec(Problem):
    def __init__(self, kernels, size, block):
        super().__init__(kernels, block)
        self.n = n = size // 16
        self.uniform("x", n)
        self.uniform("y", n, 1, 2)
        self.x2, self.y2 = pg.empty(n, "f4"), pg.empty(n, "f4")
        self.shape, self.sum = self.scratch(n)
        self.each_element = self.each(n)
        self.outputs = self.sum[2:]

    def launch(self):
        k, n, each = self.k, self.n, self.each_element
        k.square[each](self.x, self.x2, n)
        k.square[each](self.y, self.y2, n)
        k.sum_of_differences[self.shape](self.x2, self.y2, n, *self.sum)

    def is_right(self, result):
        x, y = self.host("x") ** 2, self.host("y") ** 2
        return abs(result[0][0] - (x - y).sum()) <= 1e-7 * (x + y).sum()


class BlackScholes(Problem):
    STRIKE, RATE, VOLATILITY, YEARS = 60.0, 0.035, 0.2, 1.0

    def __init__(self, kernels, size, block):
        super().__init__(kernels, block)
        self.n = size // 160
        for i in range(10):
            self.uniform(f"price{i}", self.n, 40, 80, "f8")
        self.outputs = [pg.empty(self.n, "f8") for _ in range(10)]
        self.options = [(getattr(self, f"price{i}"), call) for i, call in enumerate(self.outputs)]
        self.each_option = self.each(self.n)
        self.market = self.n, self.STRIKE, self.RATE, self.VOLATILITY, self.YEARS

    def launch(self):
        black_scholes, each, market = self.k.black_scholes, self.each_option, self.market
        for price, call in self.options:
            black_scholes[each](price, call, *market)

    def run(self):  # stock by stock
        black_scholes, each, market = self.k.black_scholes, self.each_option, self.market
        for name, (price, call) in zip(self.inputs, self.options):
            self.send(name)
            black_scholes[each](price, call, *market)
            self.announce(call)
        return self.receive()

    def is_right(self, result):
        spread, discounted = self.VOLATILITY * self.YEARS ** 0.5, self.STRIKE * np.exp(-self.RATE * self.YEARS)
        for i, got in enumerate(result):
            price = self.host(f"price{i}")
            d = (np.log(price / self.STRIKE) + (self.RATE + self.VOLATILITY ** 2 / 2) * self.YEARS) / spread
            if not np.allclose(got, price * normal(d) - discounted * normal(d - spread), rtol=0, atol=1e-5):
                return False
        return True


def normal(d):
    """The normal distribution up to d, within 1e-7: NumPy has no erf (Abramowitz and Stegun, 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(d))
    tail = np.exp(-d * d / 2) / np.sqrt(2 * np.pi) * t * np.polyval(
        [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530], t)
    return np.where(d > 0, 1 - tail, tail)


class Img(Problem):
    def __init__(self, kernels, size, block):
        super().__init__(kernels, block)
        self.side = side = int((size / 36) ** 0.5)
        self.n = side * side
        self.tiles = (-(-side // 8), -(-side // 8)), (8, 8)
        self.each_pixel = self.each(self.n)
        self.blurs = []
        for name, diameter, sigma in (("small", 3, 1), ("large", 5, 10), ("unsharpen", 3, 5)):
            axis = np.arange(diameter) - diameter // 2
            weights = np.exp(-(axis[:, None] ** 2 + axis ** 2) / (2 * sigma ** 2))
            self.add("weights_" + name, (weights / weights.sum()).astype("f4"))
            setattr(self, "blurred_" + name, pg.empty((side, side), "f4"))
            self.blurs.append([getattr(self, "blurred_" + name), getattr(self, "weights_" + name), diameter])
        self.uniform("image", (side, side))
        for name in ("mask_small", "mask_large", "sharp", "combined", "picture"):
            setattr(self, name, pg.empty((side, side), "f4"))
        self.shape, self.max = self.scratch(self.n)
        _, self.min = self.scratch(self.n)
        self.outputs = [self.picture]

    def launch(self):
        k, side, n, each = self.k, self.side, self.n, self.each_pixel
        for blurred, weights, diameter in self.blurs:
            k.gaussian_blur[self.tiles](self.image, blurred, side, side, weights, diameter)
        k.sobel[self.tiles](self.blurred_small, self.mask_small, side, side)
        k.sobel[self.tiles](self.blurred_large, self.mask_large, side, side)
        k.maximum[self.shape](self.mask_large, n, *self.max)
        k.minimum[self.shape](self.mask_large, n, *self.min)
        k.extend[each](self.mask_large, self.min[2], self.max[2], n)
        k.unsharpen[each](self.image, self.blurred_unsharpen, self.sharp, 0.5, n)
        k.combine[each](self.sharp, self.blurred_large, self.mask_large, self.combined, n)
        k.combine[each](self.combined, self.blurred_small, self.mask_small, self.picture, n)

    def is_right(self, result):
        def blur(name):
            weights = self.host("weights_" + name)
            return sum(w * moved(image, dy - len(weights) // 2, dx - len(weights) // 2)
                       for dy, line in enumerate(weights) for dx, w in enumerate(line))

        def edges(x):
            across = sum(w * (moved(x, dy, 1) - moved(x, dy, -1)) for dy, w in ((-1, 1), (0, 2), (1, 1)))
            down = sum(w * (moved(x, 1, dx) - moved(x, -1, dx)) for dx, w in ((-1, 1), (0, 2), (1, 1)))
            return np.sqrt(across ** 2 + down ** 2)

        image = self.host("image")
        small, large = blur("small"), blur("large")
        mask = edges(large)
        mask = np.minimum(1, 5 * (mask - mask.min()) / (mask.max() - mask.min()))
        sharp = np.clip(image * 1.5 - blur("unsharpen") * 0.5, 0, 1)
        combined = sharp * mask + large * (1 - mask)
        mask = edges(small)
        return np.allclose(result[0], combined * mask + small * (1 - mask), rtol=1e-4, atol=1e-4)


def moved(x, dy, dx):
    """Of each element the one that many further; zeros outside. The last two axes are y and x."""
    out = np.zeros_like(x)
    height, width = x.shape[-2:]
    out[..., max(0, -dy):height - max(0, dy), max(0, -dx):width - max(0, dx)] = \
        x[..., max(0, dy):height - max(0, -dy), max(0, dx):width - max(0, -dx)]
    return out


class Ml(Problem):
    FEATURES, CATEGORIES, CLASSES = 200, 4, 10

    def __init__(self, kernels, size, block):
        super().__init__(kernels, block)
        f, c = self.FEATURES, self.CLASSES
        self.rows = rows = size // ((2 * f + 2 * c + 3) * 4)
        self.add("samples", self.rng.integers(0, self.CATEGORIES, (rows, f)).astype("f4"))
        self.uniform("mean", f, 1.4, 1.6)
        self.uniform("deviation", f, 1, 1.2)
        self.uniform("coefficients", (c, f), -0.1, 0.1)
        self.uniform("intercept", c, -0.1, 0.1)
        self.add("log_probability", np.log(self.rng.uniform(0.2, 0.3, (f, self.CATEGORIES, c))).astype("f4"))
        self.normalised = pg.empty((rows, f), "f4")
        self.ridge, self.bayes = pg.empty((rows, c), "f4"), pg.empty((rows, c), "f4")
        self.largest, self.log_sum, self.chosen = pg.empty(rows, "f4"), pg.empty(rows, "f4"), pg.empty(rows, "i4")
        self.outputs = [self.chosen]
        self.each_cell, self.each_score, self.each_row = self.each(rows * f), self.each(rows * c), self.each(rows)

    def launch(self):
        k, f, c, rows, scores = self.k, self.FEATURES, self.CLASSES, self.rows, self.rows * self.CLASSES
        cells, each_score, each_row = rows * f, self.each_score, self.each_row
        k.rr_normalise[self.each_cell](self.samples, self.mean, self.deviation, self.normalised, f, cells)
        k.rr_product[each_score](self.normalised, self.coefficients, self.ridge, f, c, scores)
        k.rr_intercept[each_score](self.ridge, self.intercept, c, scores)
        k.softmax[each_row](self.ridge, c, rows)
        k.nb_likelihood[each_score](self.samples, self.log_probability, self.bayes, f, self.CATEGORIES, c, scores)
        k.nb_maximum[each_row](self.bayes, self.largest, c, rows)
        k.nb_log_sum[each_row](self.bayes, self.largest, self.log_sum, c, rows)
        k.nb_posterior[each_score](self.bayes, self.log_sum, c, scores)
        k.softmax[each_row](self.bayes, c, rows)
        k.argmax[each_row](self.ridge, self.bayes, self.chosen, c, rows)

    def is_right(self, result):
        def softmax(x):
            x = np.exp(x - x.max(axis=1, keepdims=True))
            return x / x.sum(axis=1, keepdims=True)

        samples, table = self.host("samples"), self.host("log_probability")
        ridge = (samples - self.host("mean")) / self.host("deviation") @ self.host("coefficients").T + self.host("intercept")
        bayes = sum((samples == category) @ table[:, category] for category in range(self.CATEGORIES))
        scores = softmax(ridge) + softmax(softmax(bayes))
        if result[0].min() < 0 or result[0].max() >= self.CLASSES:
            return False
        return bool((scores[np.arange(self.rows), result[0]] >= scores.max(axis=1) - 1e-4).all())


class Hits(Problem):
    ROUNDS, DEGREE = 10, 16

    def __init__(self, kernels, size, block):
        super().__init__(kernels, block)
        self.n = n = size // (self.DEGREE * 16 + 32)
        # R-MAT: each bit of an edge's two ends is drawn from four quadrants; ends beyond n wrap.
        self.source = np.zeros(n * self.DEGREE, "i4")
        self.target = np.zeros_like(self.source)
        for _ in range((n - 1).bit_length()):
            draw = self.rng.random(len(self.source), "f4")
            self.source = 2 * self.source + (draw >= 0.67)
            self.target = 2 * self.target + (((draw >= 0.45) & (draw < 0.67)) | (draw >= 0.89))
        self.source, self.target = (self.source % n).astype("i4"), (self.target % n).astype("i4")
        for of, row, column in (("", self.source, self.target), ("_transposed", self.target, self.source)):
            order = np.argsort(row, kind="stable")
            self.add("rows" + of, np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype("i4"))
            self.add("columns" + of, column[order])
            self.add("values" + of, np.ones(len(row), "f4"))
        self.add("start", np.ones(n, "f4"))
        self.hub, self.authority, self.new_hub, self.new_authority = (pg.empty(n, "f4") for _ in range(4))
        self.shape, self.hub_sum = self.scratch(n)
        _, self.authority_sum = self.scratch(n)
        self.outputs = [self.hub, self.authority]
        self.warps, self.each_vertex = self.each(32 * n), self.each(n)

    def launch(self):
        k, n, warps, each = self.k, self.n, self.warps, self.each_vertex
        hub = authority = self.start
        for _ in range(self.ROUNDS):
            k.sparse_product[warps](self.rows_transposed, self.columns_transposed, self.values_transposed, hub,
                                    self.new_authority, n)
            k.sparse_product[warps](self.rows, self.columns, self.values, authority, self.new_hub, n)
            k.sum[self.shape](self.new_authority, n, *self.authority_sum)
            k.sum[self.shape](self.new_hub, n, *self.hub_sum)
            k.divide[each](self.new_authority, self.authority, self.authority_sum[2], n)
            k.divide[each](self.new_hub, self.hub, self.hub_sum[2], n)
            hub, authority = self.hub, self.authority

    def is_right(self, result):
        hub = authority = np.ones(self.n)
        for _ in range(self.ROUNDS):
            hub, authority = (np.bincount(self.source, authority[self.target], self.n),
                              np.bincount(self.target, hub[self.source], self.n))
            hub, authority = hub / hub.sum(), authority / authority.sum()
        return np.allclose(result[0], hub, rtol=1e-4, atol=0) and np.allclose(result[1], authority, rtol=1e-4, atol=0)


class Dl(Problem):
    FIRST, SECOND, FACTOR = 8, 16, 4

    def __init__(self, kernels, size, block):
        super().__init__(kernels, block)
        self.side = side = int((size / 100) ** 0.5) // 4 * 4
        self.pooled = pooled = side // self.FACTOR
        self.uniform("first_weights", (self.FIRST, 1, 3, 3), -0.3, 0.5)
        self.uniform("second_weights", (self.SECOND, self.FIRST, 3, 3), -0.1, 0.2)
        self.uniform("image0", (1, side, side))
        self.uniform("image1", (1, side, side))
        self.embedding = self.SECOND * pooled * pooled
        self.uniform("dense_weights", 2 * self.embedding, -1, 1)
        self.convolved = [pg.empty((self.FIRST, side, side), "f4") for _ in range(2)]
        self.pool = [pg.empty((self.FIRST, pooled, pooled), "f4") for _ in range(2)]
        self.embedded = [pg.empty(self.embedding, "f4") for _ in range(2)]
        self.embeddings = pg.empty(2 * self.embedding, "f4")
        self.shape, self.sum = self.scratch(2 * self.embedding)
        self.outputs = self.sum[2:]

        def cubes(side, depth):
            return (-(-side // 4), -(-side // 4), depth // 4), (4, 4, 4)

        self.first_cubes, self.pool_cubes = cubes(side, self.FIRST), cubes(pooled, self.FIRST)
        self.second_cubes = cubes(pooled, self.SECOND)
        self.each_number = self.each(self.embedding)

    def launch(self):
        k, side, pooled = self.k, self.side, self.pooled
        for b, image in enumerate((self.image0, self.image1)):
            k.convolution[self.first_cubes](image, self.first_weights, self.convolved[b], side, 1, self.FIRST)
            k.pooling[self.pool_cubes](self.convolved[b], self.pool[b], pooled, self.FIRST, self.FACTOR)
            k.convolution[self.second_cubes](self.pool[b], self.second_weights, self.embedded[b], pooled,
                                             self.FIRST, self.SECOND)
        k.concatenate[self.each_number](*self.embedded, self.embeddings, self.embedding)
        k.dense[self.shape](self.embeddings, self.dense_weights, 2 * self.embedding, *self.sum)

    def is_right(self, result):
        def convolution(x, weights):
            shifted = {(dy, dx): moved(x, dy - 1, dx - 1) for dy in range(3) for dx in range(3)}
            return np.stack([np.maximum(0, sum(np.tensordot(w[:, dy, dx], shifted[dy, dx], 1) for dy, dx in shifted))
                             for w in weights])

        embedded = []
        for name in ("image0", "image1"):
            first = convolution(self.host(name), self.host("first_weights"))
            pool = first.reshape(self.FIRST, self.pooled, self.FACTOR, self.pooled, self.FACTOR).mean(axis=(2, 4))
            embedded.append(convolution(pool, self.host("second_weights")).ravel())
        terms = np.concatenate(embedded) * self.host("dense_weights")
        return abs(result[0][0] - terms.sum()) <= 1e-6 * np.abs(terms).sum()


PROBLEMS = {"VEC": Vec, "B&S": BlackScholes, "IMG": Img, "ML": Ml, "HITS": Hits, "DL": Dl}


class Steady:
    """When what is tried of the session's graphs, and what stays, has been the same for a while: as bench/support/steady.h."""

    LEAST_S, LOOK_EVERY_S, FOR_SO_LONG_S, AT_MOST_S = 0.5, 0.05, 2.0, 8.0

    def __init__(self):
        self.begun = self.since = self.looked = time.perf_counter()
        self.ways = None

    def is_reached(self):
        now = time.perf_counter()
        if now - self.begun < self.LEAST_S or now - self.looked < self.LOOK_EVERY_S:
            return False
        self.looked = now
        ways = [(way.name, way.state) for region in pg.graphs().regions
                for way in (*region.forms, *(way for graph in region.graphs for way in graph.ways))]
        if ways != self.ways:
            self.ways, self.since = ways, now
        return now - self.since > self.FOR_SO_LONG_S or now - self.begun > self.AT_MOST_S


MOST_GONE_OVER = 256_000_000  # bytes: no cache of a host has so much


def go_over(sides):
    """Reads and writes each line of `sides`, as a program does that made the inputs and used the outputs (dag_bench's form.h).

    Of the memory itself: asked for anew by host("rw"), the arrays would have changed."""
    if sum(side.nbytes for side in sides) <= MOST_GONE_OVER:
        for side in sides:
            side.reshape(-1)[::max(1, 64 // side.itemsize)] += 0


def measure(problem, cold, runs):
    """Milliseconds of each run, and until resident runs had only their end to wait for; the last run's results."""
    times, submits, result = [], [], None

    def turn():
        """When it began, had only its end to wait for (of a resident one), and had ended; what it read."""
        start = time.perf_counter()
        if cold:
            read = problem.run()
            ended = time.perf_counter()
            return start, ended, ended, read
        problem.launch()
        submitted = time.perf_counter()
        pg.synchronize()
        return start, submitted, time.perf_counter(), None

    problem.write()
    sides = []
    if cold and not problem.pageable:
        sides = [getattr(problem, name).host("rw") for name in problem.inputs] + [out.host("rw") for out in problem.outputs]
    pg.synchronize()
    steady = Steady()
    turn()
    while runs > 1 and not steady.is_reached():
        turn()
    for run in range(runs + 1):
        if cold:
            go_over(sides)
        turn()
        if run == runs:  # no result of an earlier run passes for this one's
            for array in problem.outputs:
                array.fill(-1)
            pg.synchronize()
        start, submitted, ended, result = turn()
        submits.append((submitted - start) * 1e3)
        times.append((ended - start) * 1e3)
    return times[:-1], submits[:-1], result if cold else problem.read()


# task_bench's `chain` and `fork-join`: each launch depends on the one before it, or on two of other streams.
CHAINS = ("chain", "fork-join")
CHAIN = """.version 7.0
.target sm_70
.address_size 64
// x[0] += 1.
.visible .entry next(.param .u64 px) {
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [px]; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.u32 [%rd1], %r2;
  ret;
}
// x[0] += y[0].
.visible .entry join(.param .u64 px, .param .u64 py) {
  .reg .b64 %rd<3>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [py]; ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2];
  add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3;
  ret;
}
"""


def chain_times(name, batch, runs, driver=None):
    """Milliseconds of the host's time a launch, of batches of launches one by one, and whether all were run.

    And the same of the driver's own launches, by turns in this process, where `driver` is the path of libdriver_chain.so.
    """
    by_hand = None
    if driver:
        library = ctypes.CDLL(driver)
        by_hand = library.driver_chain_ms if name == "chain" else library.driver_fork_join_ms
        by_hand.restype = ctypes.c_double
    with pg.Session(scheduler="graphs=recurring"):  # one by one while little is queued, as in task_bench
        module, x, y = pg.module(CHAIN, language="ptx"), pg.zeros(1, "u4"), pg.zeros(1, "u4")
        kernel, join = module.next, module.join

        def run():
            if name == "chain":
                for _ in range(batch):
                    kernel[1, 1](x)
                return
            for _ in range(batch // 3):
                kernel[1, 1](x)
                kernel[1, 1](y)
                join[1, 1](x, y)

        times, driver_times, is_right = [], [], True
        for _ in range(runs + 1):
            if by_hand:
                driver_times.append(by_hand(batch))
                if driver_times[-1] < 0:
                    sys.exit("the driver's own launches failed, as said above")
            x.fill(0)
            y.fill(0)
            pg.synchronize()
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3 / batch)
            is_right = is_right and int(x[0]) == expected_of(name, batch)
        return times[1:], driver_times[1:], is_right


def expected_of(name, batch):
    if name == "chain":
        return batch
    x = y = 0
    for _ in range(batch // 3):
        x, y = x + 1 + y + 1, y + 1
    return x % 2**32


def chain(name, batch, runs, processes, driver):
    """Rows. Where the system puts a process, and beside whom, makes it up to half as fast again: so it is of several."""
    times, driver_times, right = [], [], True
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)}
    call = f"chain_times({name!r}, {batch}, {runs}, {str(driver.resolve()) if driver else None!r})"
    for number in range(processes):
        code = f"import json, python_dag_bench; print(json.dumps(python_dag_bench.{call}))"
        done = subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent, env=env, capture_output=True,
                              text=True, timeout=300)
        if done.returncode != 0:
            sys.exit(f"{name} failed:\n{done.stderr}")
        some, some_by_hand, are_right = json.loads(done.stdout.splitlines()[-1])
        if driver:
            ours, theirs = statistics.median(some) * 1e3, statistics.median(some_by_hand) * 1e3
            print(f"{name}, process {number + 1}: {ours:.2f} us a launch, the driver's {theirs:.2f}, {ours - theirs:.2f} above")
        times, driver_times, right = times + some, driver_times + some_by_hand, right and are_right
    params = {"batch": batch, "processes": processes}
    rows = [report.row(name, "driver", params, driver_times, right)] if driver else []
    return [*rows, report.row(name, "pergola-python", params, times, right)]


def against(rows, paths):
    """Prints how many times as fast each row is as the best form by hand, and as Pergola's in C++, in dag_bench's reports."""
    medians = {}
    for path in paths:
        for row in json.loads(path.read_text())["rows"]:
            params = row["params"]
            if "graph" not in params or params["graph"].startswith("R-MAT"):
                key = row["problem"], params.get("measure"), params.get("bytes"), params.get("block")
                medians.setdefault(key, {})[row["form"]] = row["median_ms"]
    print("\n| problem | bytes | measure | over the best form by hand | over Pergola in C++ |\n|---|---|---|---|---|")
    logs = []
    for row in rows:
        params = row["params"]
        forms = medians.get((row["problem"], params.get("measure"), params.get("bytes"), params.get("block")), {})
        by_hand = [forms[name] for name in ("streams", "capture", "graph") if name in forms]
        if params.get("measure") not in ("cold", "resident") or not by_hand or "pergola" not in forms:
            continue
        best, cpp = min(by_hand) / row["median_ms"], forms["pergola"] / row["median_ms"]
        logs.append((math.log(best), math.log(cpp)))
        print(f"| {row['problem']} | {params['bytes']} | {params['measure']} | {best:.3f} | {cpp:.3f} |")
    if logs:
        means = [math.exp(sum(column) / len(logs)) for column in zip(*logs)]
        print(f"| geometric mean of {len(logs)} | | | {means[0]:.3f} | {means[1]:.3f} |")


def size_of(text):
    units = {"K": 1e3, "M": 1e6, "G": 1e9}
    value = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    if not 1e6 <= value <= 16e9:
        raise argparse.ArgumentTypeError("1M to 16G")
    return int(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*CHAINS, *PROBLEMS])
    parser.add_argument("--bytes", type=lambda text: [size_of(part) for part in text.split(",")], default=None)
    parser.add_argument("--block", type=int, default=256)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--processes", type=int, default=7, help="in which chains are measured, one after the other")
    parser.add_argument("--driver-chain", type=pathlib.Path,
                        help="libdriver_chain.so, for chains of the driver's own launches in the same processes")
    parser.add_argument("--pageable", action="store_true")
    parser.add_argument("--explain", action="store_true", help="what became graphs, and which ways of them were tried")
    parser.add_argument("--against", type=lambda text: [pathlib.Path(part) for part in text.split(",")], default=[],
                        help="reports of dag_bench on this machine, to compare with")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    for name in options.only:
        if name not in PROBLEMS and name not in CHAINS:
            parser.error(f"there is no problem '{name}', but {', '.join(PROBLEMS)}, {', '.join(CHAINS)}")
    if options.block % 32 or not 32 <= options.block <= 1024:
        parser.error("--block takes a multiple of 32 up to 1024")
    sizes = options.bytes or ([1_000_000] if options.small else [10_000_000, 100_000_000])
    Problem.pageable = options.pageable
    rows = []
    for name in options.only:
        if name in CHAINS:
            how_often = (30, 1, 1) if options.small else (3000, options.runs, options.processes)
            rows += chain(name, *how_often, options.driver_chain)
            continue
        for size in sizes:
            for kind in ("cold", "resident"):
                with pg.Session():  # each its own, as a program does one or the other
                    problem = PROBLEMS[name](pg.load(KERNELS), size, options.block)
                    times, submits, result = measure(problem, kind == "cold", 1 if options.small else options.runs)
                    params = {"block": options.block, "bytes": size, "measure": kind}
                    right = problem.is_right(result)
                    rows.append(report.row(name, "pergola-python", params, times, right))
                    if kind == "resident":
                        rows.append(report.row(name, "pergola-python", {**params, "measure": "submit"}, submits, right))
                    if options.explain:
                        print(f"{name}, {size} bytes, {kind}:\n{pg.graphs()}")
                    del problem, result
    if options.against:
        against(rows, options.against)
    return report.finish("python-dag", rows, options.report)


if __name__ == "__main__":
    sys.exit(main())
