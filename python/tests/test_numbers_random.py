"""Random programs of kernels that are given addresses as numbers, as arrays, or both, where an address may be one of
several parameters or a sum of them: nothing is declared, and results are the sequential order's.

PERGOLA_NUMBERS_SEED repeats a program."""
import os
import random

import pergola as pg
import pytest

np = pytest.importorskip("numpy")

# slow: x[i] += 1, in its time. pick: *(w ? b : a) = v. put: *(x + n) = v. either: *(w ? x + n : a) = v. get: *y = *(x + n).
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry slow(.param .u64 x, .param .u32 turns) {
  .reg .b64 %rd<4>; .reg .b32 %r<5>; .reg .pred %p;
  ld.param.u64 %rd0, [x]; ld.param.u32 %r0, [turns]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %rd0, %rd1;
  ld.global.u32 %r2, [%rd2]; mov.u32 %r3, 0;
AGAIN:
  add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, %r0; @%p bra AGAIN;
  add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2;
  ret;
}
.visible .entry pick(.param .u64 a, .param .u64 b, .param .u32 w, .param .u32 v) {
  .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u32 %r0, [w]; ld.param.u32 %r1, [v];
  setp.ne.u32 %p, %r0, 0; selp.b64 %rd2, %rd1, %rd0, %p; st.global.u32 [%rd2], %r1;
  ret;
}
.visible .entry put(.param .u64 x, .param .u64 n, .param .u32 v) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [n]; ld.param.u32 %r0, [v]; add.s64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r0;
  ret;
}
.visible .entry either(.param .u64 a, .param .u64 x, .param .u64 n, .param .u32 w, .param .u32 v) {
  .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; ld.param.u32 %r0, [w]; ld.param.u32 %r1, [v];
  add.s64 %rd3, %rd1, %rd2; setp.ne.u32 %p, %r0, 0; selp.b64 %rd4, %rd3, %rd0, %p; st.global.u32 [%rd4], %r1;
  ret;
}
.visible .entry get(.param .u64 y, .param .u64 x, .param .u64 n) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [y]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r0, [%rd3];
  st.global.u32 [%rd0], %r0;
  ret;
}
"""
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
            m.put[1, 1](*arguments, v)
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
        module = session.module(PTX, name="numbers.ptx")
        for seed in range(first, first + PROGRAMS):
            Program(session, module, seed).run()
