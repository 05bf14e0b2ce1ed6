"""Random programs of kernels that are given addresses as numbers, as arrays, or both, where an address may be one of
several parameters or a sum of them: nothing is declared, and results are the sequential order's.

PERGOLA_NUMBERS_SEED repeats a program."""
import os
import random

import pergola as pg
import pytest
from conftest import NUMBERS

np = pytest.importorskip("numpy")

ARRAYS, COUNT, PROGRAMS = 4, 4, 60
POLICIES = ["execution=async", "graphs=always", "graphs=off", "dependency=no-const", "max-streams=2", "tasks=small"]


class Program:
    def __init__(self, session, module, seed):
        self.session, self.module, self.seed = session, module, seed
        self.arrays = [session.zeros(COUNT, "u4") for _ in range(ARRAYS)]
        self.host = [np.zeros(COUNT, "u4") for _ in range(ARRAYS)]
        session.synchronize()

    def step(self, seed, turn):
        draw = random.Random(seed)
        a, b, e, w, v = draw.randrange(ARRAYS), draw.randrange(ARRAYS), draw.randrange(COUNT), draw.randrange(2), draw.randrange(999) + turn
        m, arrays, host = self.module, self.arrays, self.host

        def given(which):
            return arrays[which] if draw.random() < 0.5 else arrays[which].address

        kind = draw.randrange(7)
        if kind <= 1:
            m.slow[1, COUNT](arrays[a], draw.choice([10, 20_000, 200_000]))
            host[a] += 1
        elif kind == 2:
            m.pick[1, 1](given(a), given(b), w, v)
            host[b if w else a][0] = v
        elif kind == 3:
            arguments = (given(a), 4 * e) if draw.random() < 0.7 else (4 * e, given(a))
            m.sum[1, 1](*arguments, v)
            host[a][e] = v
        elif kind == 4:
            m.either[1, 1](given(a), given(b), 4 * e, w, v)
            host[b if w else a][e if w else 0] = v
        elif kind == 5:
            m.get[1, 1](arrays[b], given(a), 4 * e)
            host[b][0] = host[a][e]
        elif draw.random() < 0.3:
            self.check(a)

    def check(self, which):
        got = self.arrays[which].numpy()
        assert np.array_equal(got, self.host[which]), f"PERGOLA_NUMBERS_SEED={self.seed}: array {which}"

    def run(self):
        draw = random.Random(self.seed)
        steps = [draw.random() for _ in range(20)]
        for turn in range(draw.choice([1, 1, 12])):
            for step in steps:
                self.step(step, turn)
        for which in range(ARRAYS):
            self.check(which)


@pytest.mark.parametrize("policy", POLICIES)
def test_random_programs_have_the_sequential_orders_results(policy):
    given = os.environ.get("PERGOLA_NUMBERS_SEED")
    first = int(given) if given else random.SystemRandom().randrange(1 << 30)
    print(f"PERGOLA_NUMBERS_SEED={first}")
    with pg.session(scheduler=policy) as session:
        module = session.module(NUMBERS, name="numbers.ptx")
        for seed in range(first, first + PROGRAMS):
            Program(session, module, seed).run()
