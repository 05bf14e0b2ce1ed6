"""Narrow tasks: spawning, waiting by threads and by coroutines, as they end."""
import array
import asyncio
import ctypes
import gc
import signal
import sys
import threading
import time

import numpy as np
import pergola as pg
import pytest
from conftest import CLEARED_FAULTS, PTX, on_cpu, run_child
from test_process import interrupt_child

# What a task and a few words of its own come to, as text that every test's child can have too.
KERNELS = PTX + """
// out[at] = sum over i < 32 of (value + i), by a warp of which each lane adds its part
.visible .entry work(.param .u64 out, .param .u32 at, .param .u32 value) {
  .reg .b64 %rd<4>; .reg .b32 %r<5>;
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r0, [at];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  atom.global.add.u32 %r4, [%rd2], %r3;
  ret;
}
// Writes far behind the array.
.visible .entry beyond(.param .u64 array) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [array];
  add.u64 %rd2, %rd1, 0x40000000;
  st.global.u64 [%rd2], %rd1;
  ret;
}
"""


def sum_of(value):
    return 32 * value + 32 * 31 // 2


@pytest.fixture(scope="module", autouse=True)
def session():
    """One of their own: launches of a session with a pool let the GIL go."""
    with pg.session(device="cpu") as made:
        yield made


@pytest.fixture(scope="module")
def kernels(session):
    return pg.module(KERNELS, name="tasks.ptx")


@pytest.fixture(scope="module")
def pool(session):
    return pg.task_pool()


class Spinning:
    """A task that goes on until end(), which stores into the array that it reads: on the CPU device the host can. Fills and
    launches wait for tasks that run, so `room`, for other tasks, is made before."""

    def __init__(self, pool, kernels):
        self.stop, self.out, self.room = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.zeros(20, "u4")
        pool.prepare(kernels.work, 1, 32)
        pg.synchronize()
        self.task = pool.spawn(kernels.spin, 1, 1, self.stop, self.out)

    def end(self):
        ctypes.c_uint32.from_address(self.stop.address).value = 1


@pytest.fixture
def spinning(pool, kernels):
    made = Spinning(pool, kernels)
    yield made
    made.end()
    made.task.wait(60)


# ── Spawning ────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_a_thousand_tasks(pool, kernels):
    out = pg.zeros(1000, "u4")
    pool.wait_all()
    before = pool.info.spawned
    kind = pool.prepare(kernels.work, 1, 32)
    tasks = [kind(out, i, 3 * i) for i in range(1000)]
    pool.wait_all()
    assert all(task.done() for task in tasks)
    assert out.tolist() == [sum_of(3 * i) for i in range(1000)]
    assert len({task.id for task in tasks}) == 1000 and all(task.id != 0 for task in tasks)
    assert pool.info.spawned == before + 1000


def test_reading_an_array_waits_for_its_tasks(pool, kernels):
    out = pg.zeros(100, "u4")
    for i in range(100):
        pool.spawn(kernels.work, 1, 32, out, i, i)
    assert out.tolist() == [sum_of(i) for i in range(100)]


def test_a_task_comes_after_launches_before_it_and_before_launches_after_it(pool, kernels):
    x, y = pg.ones(256, "f4"), pg.zeros(256, "f4")
    for _ in range(5):
        kernels.saxpy[256](1.0, x, y, 256)
        pool.spawn(kernels.saxpy, 8, 32, 10.0, x, y, 256)
        kernels.saxpy[256](100.0, x, y, 256)
    assert (y.numpy() == 5 * 111).all()


def test_views_are_arguments(pool, kernels):
    out = pg.zeros((4, 8), "u4")
    for row in range(4):
        pool.spawn(kernels.work, 1, 32, out[row], row, row)
    expected = np.zeros((4, 8), "u4")
    for row in range(4):
        expected[row, row] = sum_of(row)
    assert (out.numpy() == expected).all()


def test_numpy_scalars_and_structs_are_arguments(pool, kernels):
    out = pg.zeros(9, "u8")
    pair = np.array([(7, 8)], dtype=[("a", "i4"), ("b", "i4")])[0]
    pool.spawn(kernels.echo, 1, 1, out, np.uint8(1), np.int16(2), np.int64(3), 4, np.float32(5), 6.0, pair, b"\x09\x00")
    got = out.tolist()
    assert got[:4] == [1, 2, 3, 4] and got[6:] == [7, 8, 9]
    assert np.uint32(got[4]).view("f4") == 5 and np.uint64(got[5]).view("f8") == 6


def test_each_with_its_own_numbers(pool, kernels):
    kind = pool.prepare(kernels.work, 1, 32)
    count = 3000
    for numbers, values in [(range(count), 5), (np.arange(count), np.arange(count)),  # 8 bytes, for parameters of 4
                            (np.arange(count, dtype="u4"), list(range(count))),
                            (np.arange(2 * count, dtype="i4")[::2] // 2, np.arange(count, dtype="u2")),
                            (np.arange(count, dtype="u4")[::-1], 0)]:
        out = pg.zeros(count, "u4")
        tasks = kind.spawn_each(out, numbers, values)
        assert len(tasks) == count and len({task.id for task in tasks}) == count
        wanted = np.zeros(count, "u4")
        wanted[np.asarray(numbers)] = sum_of(np.asarray(values, "i8"))
        assert (out.numpy() == wanted).all()
        tasks[0].wait(60)
        assert all(task.done() for task in tasks)
    one = np.zeros((), "u4")
    one[()] = 7
    out = pg.zeros(5000, "u4")
    kind.spawn_each(out, np.broadcast_to(np.uint32(3), 5000), one)  # more than one look, a value without dimensions
    kind.spawn_each(out, np.array([1, 0], ">i4"), np.array([True, False]))
    with pytest.raises(ValueError, match="mask hides"):
        kind.spawn_each(out, np.ma.masked_array([0, 1], [0, 1]), 1)
    assert out.numpy()[[0, 1, 3]].tolist() == [sum_of(0), sum_of(1), 5000 * sum_of(7) % 2**32]
    before = pool.info.spawned
    assert kind.spawn_each(out, [], 5) == []
    shrinking = array.array("I", range(1000))

    class Shrinks:
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            if index == 1:
                del shrinking[1:]
            if index == 1000:
                raise IndexError
            return index

    with pytest.raises(ValueError, match="Argument 2 has 1 value and argument 1 has 1000"):
        kind.spawn_each(out, Shrinks(), shrinking)
    with pytest.raises(MemoryError):
        kind.spawn_each(out, np.broadcast_to(np.uint32(5), 10 ** 15), 1)
    with pytest.raises(ValueError, match="Argument 2 has 3 values and argument 1 has 2: they should be as many"):
        kind.spawn_each(out, [1, 2], (1, 2, 3))
    with pytest.raises(TypeError, match="takes a sequence of numbers for one parameter at least"):
        kind.spawn_each(out, 1, 2)
    with pytest.raises(OverflowError, match="Value 1 of argument 1 .* does not fit its 4 bytes"):
        kind.spawn_each(out, np.array([1, 2 ** 32]), 2)
    with pytest.raises(OverflowError, match="which cannot hold it"):
        kind.spawn_each(out, [1, 2 ** 32], 2)
    with pytest.raises(pg.Error, match="should be a 4-byte"):
        kind.spawn_each(out, np.array([1.5, 2.5]), 2)
    for arrays in ([out, out], [None, None], [b"12345678"]):
        with pytest.raises(pg.ArgumentError, match=r"Argument 0 \(parameter out\) of kernel 'work' .*which is no number"):
            kind.spawn_each(arrays, range(len(arrays)), 2)
    with pytest.raises(pg.Error, match="takes 3 arguments"):
        kind.spawn_each(out, [1, 2])
    assert pool.info.spawned == before


def test_many_threads_spawn(pool, kernels):
    out = pg.zeros(6 * 200, "u4")
    kind = pool.prepare(kernels.work, 1, 32)
    errors = []

    def spawn(number):
        try:
            for i in range(200):
                kind(out, 200 * number + i, number + i)
        except BaseException as error:  # told below
            errors.append(error)

    threads = [threading.Thread(target=spawn, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    assert out.tolist() == [sum_of(number + i) for number in range(6) for i in range(200)]


def test_kernels_are_added_together(pool, kernels):
    pool.add_kernels()
    pool.add_kernels(kernels.work, kernels.work)
    out = pg.zeros(1, "u4")
    pool.spawn(kernels.work, 1, 32, out, 0, 3).wait()
    assert out.tolist() == [sum_of(3)]
    with pytest.raises(TypeError, match="add_kernels.. takes kernels; .* is none"):
        pool.add_kernels(kernels.work, "work")
    with pytest.raises(TypeError, match="add_kernels"):
        pool._add_kernels(3)
    with pytest.raises(pg.InvalidArgument, match="session"):
        pg.session(device="cpu").task_pool().add_kernels(kernels.work)


def test_what_is_wrong_is_refused_before_anything_is_spawned(pool, kernels):
    out = pg.zeros(1, "u4")
    pool.wait_all()
    before = pool.info.spawned
    kind = pool.prepare(kernels.work, 1, 32)
    with pytest.raises(pg.ArgumentError):
        kind(out, 1)
    with pytest.raises(pg.ArgumentError, match="pergola.array"):
        kind(np.zeros(1, "u4"), 0, 0)
    with pytest.raises(OverflowError, match="work_param|at"):
        kind(out, 1 << 40, 0)
    with pytest.raises(pg.InvalidArgument, match="session"):
        kind(pg.session(device="cpu").zeros(1, "u4"), 0, 0)
    with pytest.raises(TypeError, match="prepare"):
        kind(out, 0, 0, shared_bytes=4)
    with pytest.raises(TypeError):
        pool.prepare(kernels, 1, 32)
    with pytest.raises(TypeError, match="the kernel, its grid and its block, and after them"):
        pool.spawn(kernels.work, out, 1)
    with pytest.raises(ValueError, match="extent of a block"):
        pool.prepare(kernels.work, 1, 0)
    with pytest.raises(OverflowError, match="4 GiB"):
        pool.prepare(kernels.work, 1, 32, shared_bytes=1 << 32)
    with pytest.raises(TypeError, match="shared_bytes is a number of bytes"):
        pool.spawn(kernels.work, 1, 32, out, 0, 0, shared_bytes=[])
    with pytest.raises(ValueError, match="priority is 'normal' or 'high'"):
        pool.spawn(kernels.work, 1, 32, out, 0, 0, priority=[])
    with pytest.raises(TypeError, match="A timeout is a number of seconds or None; 'x' is given"):
        pg.as_completed([], timeout="x")
    with pytest.raises(TypeError):
        pg.Task()
    assert pool.info.spawned == before


def test_an_executor_is_named():
    for executor in ([], "gpu", 1):
        with pytest.raises(ValueError, match="executor is 'resident', 'threads' or None"):
            pg.task_pool(executor=executor)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "x", []])
def test_a_time_to_park_is_above_0(seconds):
    with pytest.raises(ValueError, match="park_after"):
        pg.task_pool(park_after=seconds)


def test_a_session_has_one_pool(pool, kernels):
    other = pg.task_pool(blocks=1)
    out = pg.zeros(1, "u4")
    task = other.spawn(kernels.work, 1, 32, out, 0, 1)
    task.wait()  # while it is held it is not counted yet
    assert other.info.spawned == pool.info.spawned and other.session is pg.session()
    with pytest.raises(pg.InvalidArgument, match="session"):
        pg.session(device="cpu").task_pool().prepare(kernels.work, 1, 32)


# ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_waits_end_with_the_time(pool, spinning):
    assert not spinning.task.done()
    for wait in (spinning.task.wait, pool.wait_all):
        start = time.monotonic()
        with pytest.raises(pg.Timeout, match="on"):
            wait(timeout=0.1)
        assert 0.05 < time.monotonic() - start < 20
    with pytest.raises(TimeoutError):
        spinning.task.wait(0)
    with pytest.raises(ValueError):
        spinning.task.wait(float("nan"))
    with pytest.raises(TypeError):
        spinning.task.wait("soon")
    spinning.end()
    spinning.task.wait()
    assert spinning.task.done() and spinning.out.tolist() == [1]


def test_another_thread_runs_while_one_waits(spinning):
    waiter = threading.Thread(target=spinning.task.wait)
    waiter.start()
    count = 0
    while count < 1000:
        count += 1
    assert waiter.is_alive()
    spinning.end()
    waiter.join(60)
    assert not waiter.is_alive()


def test_as_completed_gives_tasks_as_they_end(pool, kernels, spinning):
    tasks = [spinning.task] + [pool.spawn(kernels.work, 1, 32, spinning.room, i, i) for i in range(20)]
    ended = pg.as_completed(tasks, timeout=60)
    first = [next(ended) for _ in range(20)]
    assert set(first) == set(tasks[1:]) and not spinning.task.done()
    spinning.end()
    assert list(ended) == [spinning.task]
    assert spinning.room.tolist() == [sum_of(i) for i in range(20)]


def test_as_completed_ends_with_the_time(pool, kernels, spinning):
    quick = pool.spawn(kernels.work, 1, 32, spinning.room, 0, 0)
    quick.wait()
    ended = pg.as_completed([spinning.task, quick, quick], timeout=0.1)
    assert next(ended) is quick
    with pytest.raises(pg.Timeout, match="1 task goes on"):
        next(ended)
    assert list(pg.as_completed([])) == []
    with pytest.raises(TypeError, match="a sequence of tasks, and there is 3 in it"):
        pg.as_completed([3])


def test_leaving_the_pool_waits_and_parks(kernels):
    out = pg.zeros(50, "u4")
    with pg.task_pool() as pool:
        tasks = [pool.spawn(kernels.work, 1, 32, out, i, i) for i in range(50)]
    assert all(task.done() for task in tasks) and not pool.info.is_running
    pool.spawn(kernels.work, 1, 32, out, 0, 0).wait(60)
    assert out.tolist()[:2] == [2 * sum_of(0), sum_of(1)]


# ── Coroutines ──────────────────────────────────────────────────────────────────────────────────────────────────────

def test_tasks_are_awaited_together(pool, kernels):
    out = pg.zeros(300, "u4")
    kind = pool.prepare(kernels.work, 1, 32)

    async def one(i):
        await kind(out, i, i)
        return i

    async def main():
        results = await asyncio.gather(*(one(i) for i in range(200)))
        assert await asyncio.gather(*(kind(out, i, i) for i in range(200, 300))) == [None] * 100
        return results

    assert asyncio.run(asyncio.wait_for(main(), 60)) == list(range(200))
    assert out.tolist() == [sum_of(i) for i in range(300)]


def test_the_loop_runs_while_a_task_is_awaited(pool, kernels, spinning):
    events = []

    async def wait():
        await spinning.task
        events.append("task")

    async def other():
        await pool.spawn(kernels.work, 1, 32, spinning.room, 0, 0)
        for i in range(3):
            await asyncio.sleep(0.01)
            events.append(i)
        spinning.end()

    async def main():
        await asyncio.gather(wait(), wait(), other())

    asyncio.run(asyncio.wait_for(main(), 60))
    assert events == [0, 1, 2, "task", "task"]


def test_a_cancelled_await_leaves_the_task(pool, kernels, spinning):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(spinning.task, 0.05)
        await pool.spawn(kernels.work, 1, 32, spinning.room, 0, 0)
        assert not spinning.task.done()
        spinning.end()
        await spinning.task

    asyncio.run(asyncio.wait_for(main(), 60))


def test_loops_of_several_threads_await(pool, kernels, spinning):
    async def main():
        await spinning.task

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(3)]
    for thread in threads:
        thread.start()
    spinning.end()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


# ── Failures, processes ─────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("executor, fences, match", [
    ("resident", False, r"tasks that had not ended are lost, 1 of 'wild' \(0x\w+\): Kernel"),
    ("resident", True, r"Task 0x\w+ has failed: Kernel 'wild'.* writes 4 bytes"),
    ("threads", True, r"Task 0x\w+ has failed: Kernel 'wild'.* writes 4 bytes"),
])
def test_what_a_task_does_wrong_is_raised_by_whoever_waits_for_it(executor, fences, match):
    session = pg.session(device="cpu")
    kernels, pool = session.module(KERNELS), session.task_pool(executor=executor, fences=fences)
    task = pool.spawn(kernels.wild, 1, 1)
    with pytest.raises(pg.DeviceFault, match=match):
        task.wait()
    assert task.done() and list(pg.as_completed([task])) == [task]

    async def main():
        await task

    with pytest.raises(pg.DeviceFault):
        asyncio.run(main())


@pytest.mark.parametrize("executor", ["resident", "threads"])
def test_a_task_fails_by_itself(executor):
    session = pg.session(device="cpu")
    kernels, pool = session.module(KERNELS), session.task_pool(executor=executor)
    out = session.zeros(4, "u4")
    good = pool.spawn(kernels.work, 1, 32, out, 0, 1)
    bad = pool.spawn(kernels.wild, 1, 1)
    later = pool.spawn(kernels.work, 1, 32, out, 1, 2)
    with pytest.raises(pg.DeviceFault, match="'wild'"):
        pool.wait_all()
    pool.wait_all()  # told once
    good.wait(), later.wait()
    with pytest.raises(pg.DeviceFault, match="'wild'"):
        bad.wait()
    assert list(out.numpy()[:2]) == [sum_of(1), sum_of(2)]


@pytest.mark.parametrize("executor", ["resident", "threads"])
def test_synchronize_raises_what_tasks_failed_with(executor):
    session = pg.session(device="cpu")
    kernels, pool = session.module(KERNELS), session.task_pool(executor=executor)
    out, x = session.zeros(4, "u4"), session.ones(4, "f4")
    for _ in range(2):
        task = pool.spawn(kernels.wild, 1, 1)
        with pytest.raises(pg.DeviceFault, match=f"Task {task.id:#x} has failed: Kernel 'wild'"):
            session.synchronize()
        session.synchronize()  # told once
        assert repr(task) == f"<pergola.Task {task.id:#x}>"
        kernels.saxpy[4](1.0, x, x, 4)
        pool.spawn(kernels.work, 1, 32, out, 0, 1)
        session.synchronize()
    assert x.tolist() == [4.0] * 4 and out.tolist() == [2 * sum_of(1), 0, 0, 0]


def test_synchronize_raises_and_clears_failures_of_launches_and_of_tasks():
    session = pg.session(device="cpu")
    kernels, pool = session.module(KERNELS), session.task_pool()
    x, y = session.ones(4, "f4"), session.ones(4, "f4")
    task = pool.spawn(kernels.beyond, 1, 1, x)
    kernels.beyond[1, 1](y)
    with pytest.raises(pg.DeviceFault, match="^Kernel 'beyond'") as raised:
        session.synchronize()
    assert f"Task {task.id:#x} has failed" in str(raised.value.__context__)
    session.synchronize()
    kernels.saxpy[4](1.0, x, x, 4)
    assert x.tolist() == [2.0] * 4
    session.synchronize()


def test_park_raises_what_tasks_failed_with():
    session = pg.session(device="cpu")
    kernels, pool = session.module(KERNELS), session.task_pool()
    pool.spawn(kernels.wild, 1, 1)
    with pytest.raises(pg.DeviceFault, match="'wild'"):
        pool.park()
    pool.park()
    session.synchronize()


def test_reading_an_array_raises_what_its_tasks_failed_with():
    session = pg.session(device="cpu")
    kernels, pool = session.module(KERNELS), session.task_pool()
    mine, other = session.zeros(4, "u4"), session.zeros(4, "u4")
    for read in (mine.numpy, mine.wait, lambda: mine[0:1].tolist(), mine.host, lambda: np.from_dlpack(mine), mine.prefetch,
                 lambda: mine.__setitem__(0, 1)):
        pool.spawn(kernels.beyond, 1, 1, mine)
        time.sleep(0.02)
        assert other.tolist() == [0] * 4
        with pytest.raises(pg.DeviceFault, match="'beyond'"):
            read()
        read()


@pytest.mark.parametrize("executor", [pytest.param("threads", marks=on_cpu("threads that run tasks")), "resident"])
def test_an_array_that_tasks_were_not_given_waits_for_none(kernels, executor):
    run_child(f"""
        stop, done, other = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.zeros(4, "u4")
        pg.synchronize()
        pool = pg.task_pool(executor={executor!r})
        pool.spawn(module.spin, 1, 1, stop, done)
        assert other.tolist() == [0] * 4 and other.host("rw").tolist() == [0] * 4
        other[0] = 7
        assert other[0] == 7
    """)


@pytest.mark.parametrize("numbers", [array.array("i", range(8)), bytearray(range(8)),
                                     (ctypes.c_int * 8)(*range(8)), memoryview(array.array("I", range(8)))])
def test_spawn_each_takes_every_exporter_of_numbers(kernels, pool, numbers):
    out = pg.zeros(8, "u4")
    pool.prepare(kernels.work, 1, 32).spawn_each(out, range(8), numbers)
    assert out.tolist() == [sum_of(n) for n in range(8)]


def test_a_session_goes_though_its_pool_keeps_kinds():
    session = pg.session(device="cpu")
    out, kernels = session.zeros(1, "u4"), session.module(KERNELS)
    pool = session.task_pool()
    task = pool.spawn(kernels.work, 1, 32, out, 0, 1)
    assert task.pool.session is session and task.session is session
    task.wait()
    alive = [thing for thing in gc.get_objects() if isinstance(thing, pg.TaskKind)]
    kinds = len(alive)
    del session, out, kernels, pool, task, alive
    assert len([thing for thing in gc.get_objects() if isinstance(thing, pg.TaskKind)]) == kinds - 1, "nothing had to be collected"


def test_as_completed_takes_the_timeouts_that_wait_does(kernels, pool):
    out = pg.zeros(1, "u4")
    for timeout in (float("inf"), 1e10, 60):
        task = pool.spawn(kernels.work, 1, 32, out, 0, 1)
        assert list(pg.as_completed([task], timeout)) == [task]
    with pytest.raises(ValueError, match="not a number"):
        pg.as_completed([], float("nan"))


def test_exit_tells_a_task_that_failed_and_that_nobody_waited_for():
    spawn = "task = pg.task_pool().spawn(module.wild, 1, 1)\n"
    told = run_child(spawn).stderr
    assert "pergola: work failed and nobody waited for it: Task 0x" in told and told.count("'wild'") == 1
    wait = "try:\n    {}\nexcept pg.DeviceFault:\n    pass\n"
    for waits in ("task.wait()", "pg.synchronize()", "pg.task_pool().wait_all()", "pg.task_pool().park()"):
        assert run_child(spawn + wait.format(waits)).stderr == ""
    # What was told of one task says nothing of another.
    assert run_child(spawn + wait.format("task.wait()") + spawn).stderr.count("'wild'") == 1


@on_cpu(CLEARED_FAULTS)
def test_exit_tells_that_an_executor_failed_and_that_nobody_waited_for_it():
    wait = "try:\n    {}\nexcept pg.DeviceFault:\n    pass\n"
    lost = "task = pg.task_pool(executor='resident', fences=False).spawn(module.wild, 1, 1)\n"
    nobody = "nobody waited for it: The executor of narrow tasks has failed"
    assert nobody in run_child(lost).stderr and nobody not in run_child(lost + wait.format("task.wait()")).stderr


def test_wrong_pools_are_refused():
    session = pg.session(device="cpu")
    for blocks in (-1, 1 << 32, 1 << 40, 1 << 70):
        with pytest.raises(OverflowError, match=f"blocks should be 0 .*; it is {blocks}"):
            session.task_pool(blocks)
    with pytest.raises(TypeError, match="blocks is an int; 'a' is given"):
        session.task_pool("a")
    assert session.task_pool(np.int64(2)).info.blocks == 2


def test_a_wait_outlives_further_objects_of_the_pool(kernels, session, spinning):
    failures = []

    def wait():
        try:
            session.synchronize()
        except pg.Error as error:
            failures.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    for _ in range(20):
        pg.task_pool()
        time.sleep(0.01)
    spinning.end()
    waiter.join(60)
    assert not waiter.is_alive() and failures == []


SPAWNS = PTX + """
.extern .func (.param .b32 spawned) pergola_task_spawn(.param .b64 handle, .param .b32 bytes, .param .b64 w0,
  .param .b64 w1, .param .b64 w2, .param .b64 w3, .param .b64 w4, .param .b64 w5);
// Each lane adds one to out[its number], by a task of its own.
.visible .entry one(.param .u64 out, .param .u32 at) {
  .reg .b64 %rd<4>; .reg .b32 %r<3>;
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r0, [at];
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  red.global.add.u32 [%rd2], 1;
  ret;
}
.visible .entry each(.param .u64 out, .param .u64 ones, .param .u64 refused) {
  .reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .pred %p;
  ld.param.u64 %rd0, [out];
  ld.param.u64 %rd1, [ones];
  mov.u32 %r0, %tid.x;
  cvt.u64.u32 %rd2, %r0;
  mov.u64 %rd3, 0;
  mov.u32 %r1, 12;
  {
  .param .b64 handle; .param .b32 bytes; .param .b64 w0; .param .b64 w1; .param .b64 w2; .param .b64 w3;
  .param .b64 w4; .param .b64 w5; .param .b32 spawned;
  st.param.b64 [handle], %rd1; st.param.b32 [bytes], %r1; st.param.b64 [w0], %rd0; st.param.b64 [w1], %rd2;
  st.param.b64 [w2], %rd3; st.param.b64 [w3], %rd3; st.param.b64 [w4], %rd3; st.param.b64 [w5], %rd3;
  call (spawned), pergola_task_spawn, (handle, bytes, w0, w1, w2, w3, w4, w5);
  ld.param.b32 %r2, [spawned];
  }
  setp.ne.u32 %p, %r2, 0;
  @%p ret;
  ld.param.u64 %rd4, [refused];
  red.global.add.u32 [%rd4], 1;
  ret;
}
"""


@pytest.mark.parametrize("executor", ["threads", "resident"])
def test_tasks_spawn_tasks(executor):
    with pg.session(device="cpu") as own:
        module = pg.module(SPAWNS, name="spawns.ptx")
        pool = own.task_pool(executor=executor)
        out, refused = pg.zeros(100, "u4"), pg.zeros(1, "u4")
        ones = pool.prepare(module.one, 1, 1)
        pool.spawn(module.each, 1, 100, out, ones.on_device, refused).wait(60)
        assert out.tolist() == [1] * 100 and refused.tolist() == [0]
        pool.park()
        assert pool.info.spawned == 1 and pool.info.spawned_by_tasks == 100
        module.each[1, 100](out, ones.on_device, refused)
        assert refused.tolist() == [100], "a launch spawns nothing"
        with pytest.raises(pg.Unsupported, match="56 bytes of parameters, and a task that tasks spawn has 48 at most"):
            pool.prepare(pg.module(PTX + ".visible .entry large(.param .b64 a[7]) { ret; }").large, 1, 1).on_device


def test_priorities_and_executors_are_checked(pool, kernels):
    out = pg.zeros(1, "u4")
    pool.spawn(kernels.work, 1, 32, out, 0, 5, priority="high").wait()
    assert out.numpy()[0] == sum_of(5)
    with pytest.raises(ValueError, match="'normal' or 'high'; it is 'urgent'"):
        pool.prepare(kernels.work, 1, 32, priority="urgent")
    with pytest.raises(ValueError, match="'resident', 'threads' or None; it is 'cuda'"):
        pg.session(device="cpu").task_pool(executor="cuda")


@pytest.mark.parametrize("wait", ["task.wait()", "pool.wait_all()", "list(pg.as_completed([task]))", "task.wait(1000)",
                                  "pool.park()", "pg.synchronize()", "import asyncio\nasync def main(): await task\nasyncio.run(main())"])
def test_ctrl_c_ends_a_wait(wait):
    status, _, err, seconds = interrupt_child("pool = pg.task_pool()\ntask = pool.spawn(module.spin, 1, 1, stop, done)\n"
                                              f"print('ready', flush=True)\n{wait}")
    assert status != 0 and "KeyboardInterrupt" in err, (status, err)
    assert seconds < 20


@pytest.mark.parametrize("wait, executor", [
    *((wait, None) for wait in [  # None: threads on the CPU device
        "done.wait()", "done.numpy()", "done[0]", "done[0:1].tolist()", "done.host()", "done.host('w')", "done.fill(1)\ndone.numpy()",
        "done[0] = 1", "done.copy_from(numpy.ones(1, 'u4'))", "done.copy().numpy()", "done.prefetch('host')"]),
    pytest.param("numpy.from_dlpack(done)", None, marks=on_cpu("memory that NumPy can share")),
    ("done.numpy()", "resident"), ("done[0] = 1", "resident"), ("done.fill(1)\ndone.numpy()", "resident")])
def test_ctrl_c_ends_a_wait_for_an_arrays_tasks(wait, executor):
    status, _, err, seconds = interrupt_child(f"pool = pg.task_pool(executor={executor!r})\n"
                                              "task = pool.spawn(module.spin, 1, 1, stop, done)\n"
                                              f"print('ready', flush=True)\n{wait}")
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err, (status, err)
    assert seconds < 20


@on_cpu(CLEARED_FAULTS)
def test_ctrl_c_ends_synchronize_where_a_launch_has_failed_and_a_task_goes_on():
    status, _, err, seconds = interrupt_child("""
        import time
        pool = pg.task_pool()
        task = pool.spawn(module.spin, 1, 1, stop, done)
        time.sleep(0.1)
        module.wild[1, 1]()
        print('ready', flush=True)
        pg.synchronize()""")
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err, (status, err)
    assert seconds < 20


@pytest.mark.parametrize("last", ["pass", "asyncio.run(main())"])
def test_a_process_ends_while_a_task_goes_on(last):
    run_child(f"""
        import asyncio
        stop, done, pool = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.task_pool()
        task = pool.spawn(module.spin, 1, 1, stop, done)
        async def main():
            waits = asyncio.ensure_future(task)
            await asyncio.sleep(0.05)
            assert not waits.done()
        {last}
    """)


def test_nothing_is_left_behind(kernels):
    session = pg.session(device="cpu")
    ours = session.module(KERNELS)
    pool = session.task_pool()
    out = session.zeros(4, "u4")

    async def main():
        await asyncio.gather(*(pool.spawn(ours.work, 1, 32, out, i % 4, i) for i in range(100)))

    def references():
        asyncio.run(main())
        time.sleep(0.1)  # the watcher lets go of what it looked at last
        return sys.getrefcount(pool)

    before = references()
    assert references() == before


def test_launches_and_their_failures_beside_a_task_that_goes_on(module):
    """More launches than the binding lets be in flight: none waits for a task that has nothing to do with them."""
    session = pg.session("cpu")
    kernels = session.module(PTX, name="m.ptx")
    stop, done = session.zeros(1, "u4"), session.zeros(1, "u4")
    x, y = session.ones(8, "f4"), session.ones(8, "f4")
    session.synchronize()
    task = session.task_pool().spawn(kernels.spin, 1, 1, stop, done)
    try:
        for _ in range(1000):
            kernels.saxpy[8](0.0, x, y, 8)
        session.record().wait(timeout=20)
        assert not task.done()
    finally:
        ctypes.c_uint32.from_address(stop.address).value = 1
    task.wait(timeout=20)


def test_a_failure_that_was_cleared_is_not_told_by_a_later_launch():
    session = pg.session("cpu")
    kernels = session.module(PTX, name="m.ptx")
    x, y = session.ones(8, "f4"), session.zeros(8, "f4")
    for _ in range(127):
        kernels.saxpy[8](1.0, x, y, 8)
    kernels.wild[1, 1]()
    with pytest.raises(pg.DeviceFault):
        session.synchronize()
    for _ in range(900):
        kernels.saxpy[8](1.0, x, y, 8)
    session.synchronize()
    assert y.tolist() == [1027] * 8
