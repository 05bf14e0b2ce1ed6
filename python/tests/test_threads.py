"""Several Python threads, and what is left behind after many rounds."""
import asyncio
import ctypes
import gc
import sys
import threading
import time

import numpy as np
import pergola as pg
import pytest
from conftest import PTX, run_child


def run_threads(count, work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # noqa: B902  (told below)
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert errors == []


def test_threads_share_a_session_and_a_kernel(saxpy):
    def work(number):
        x, y = pg.full(100, number, "f4"), pg.zeros(100, "f4")
        for round_ in range(50):
            saxpy[100](1.0, x, y, 100)
            if round_ % 10 == 0:
                assert (y.numpy() == number * (round_ + 1)).all()
        assert (y.numpy() == 50 * number).all()

    run_threads(6, work)


def test_threads_past_the_bound_of_launches(saxpy):
    y, x = pg.zeros(8, "f4"), pg.ones(8, "f4")

    def work(number):
        for _ in range(1500):
            saxpy[1, 1](1.0, x, y[number:], 1)

    run_threads(4, work)
    assert y.tolist() == [1500.0] * 4 + [0.0] * 4


def test_another_thread_runs_while_one_waits(module):
    session = pg.session(device="cpu")
    from conftest import PTX
    spin, stop, end = session.module(PTX).spin, session.zeros(1, "u4"), session.zeros(1, "u4")
    spin[1, 1](stop, end)
    done = threading.Event()
    waiter = threading.Thread(target=lambda: (pytest.raises(pg.Error, session.synchronize), done.set()), daemon=True)
    waiter.start()
    assert not done.wait(0.2)
    assert pg.ones(4).tolist() == [1] * 4, "this thread works meanwhile"


def test_one_default_session_for_all_threads():
    seen = []
    run_threads(8, lambda _: seen.append(pg.session()))
    assert len({id(session) for session in seen}) == 1


def test_with_session_is_of_its_thread():
    with pg.session(device="cpu") as mine:
        seen = []
        run_threads(1, lambda _: seen.append(pg.session()))
        assert seen[0] is not mine and pg.session() is mine


def test_with_session_is_of_its_task_of_asyncio():
    async def use(session, seconds):
        outer = pg.session()
        for _ in range(3):
            with session as entered, session:
                assert entered is session is pg.session()
                await asyncio.sleep(seconds)
                assert pg.session() is session
            assert pg.session() is outer
            await asyncio.sleep(seconds)

    async def main():
        a, b = pg.session(device="cpu"), pg.session(device="cpu")
        with b:
            await asyncio.gather(use(a, 0.01), use(a, 0.015), use(b, 0.007), use(a, 0))
            assert pg.session() is b

    asyncio.run(main())


def test_with_session_is_of_many_threads_at_once():
    session = pg.session(device="cpu")

    def work(number):
        for _ in range(200):
            with session:
                assert pg.session() is session
                time.sleep(0)
            assert pg.session() is not session

    run_threads(6, work)


def test_a_generator_leaves_the_session_that_it_entered():
    a, b = pg.session(device="cpu"), pg.session(device="cpu")

    def enter(session):
        with session:
            yield

    first, second = enter(a), enter(b)
    next(first), next(second)
    assert pg.session() is b
    first.close()
    assert pg.session() is b
    second.close()
    assert pg.session() is not b and pg.session() is not a


def test_freeing_in_one_thread_while_another_launches(saxpy):
    x = pg.ones(64, "f4")
    arrays = [pg.zeros(64, "f4") for _ in range(200)]

    def work(number):
        for y in arrays:
            if number == 0:
                y.free()
                continue
            try:
                saxpy[64](1.0, x, y, 64)
            except pg.FailedPrecondition:
                pass

    run_threads(3, work)
    pg.synchronize()


@pytest.mark.parametrize("use", [lambda x: x.numpy(), lambda x: x[0], lambda x: x[1:].tolist(), lambda x: x.host("r")])
def test_an_array_that_another_thread_frees_while_one_waits_for_it_is_told_to_be_freed(use):
    with pg.session("cpu"):
        spin, stop, done = pg.module(PTX).spin, pg.zeros(1, "u4"), pg.zeros(4, "u4")
        pg.synchronize()
        word = ctypes.c_uint32.from_address(stop.address)
        spin[1, 1](stop, done)
        raised = []

        def wait():
            try:
                use(done)
            except Exception as error:  # another one fails the test, here as well
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        try:
            done.free()
        except BufferError:  # host() keeps it while it waits
            word.value = 1
            thread.join()
            assert not raised
            return
        time.sleep(0.1)
        word.value = 1
        thread.join()
        assert [type(error) for error in raised] == [pg.FailedPrecondition]
        assert "freed" in str(raised[0])
        pg.synchronize()


# ── What is left behind ───────────────────────────────────────────────────────────────────────────────────────────────

def one_round(module, x, y):
    saxpy = module.saxpy
    saxpy[100](1.0, x, y, 100)
    saxpy[(1, 1), (64,)](1, x[10:], y[10:], np.int32(90))
    pg.launch(saxpy, 1, 1, (1.0, x, y, 1))
    for wrong in ((1.0, x, y), (1.0, x, y, 0.5), (1.0, x.numpy(), y, 1), (1e300, x, y, 1), (1.0, x, y, 2**40)):
        try:
            saxpy[1](*wrong)
        except (TypeError, OverflowError):
            pass
    module.echo[1, 1](pg.zeros(9, "u8"), 1, 2, 3, 4, 5, 6, b"12345678", np.float16(1))
    z = pg.array(y)
    z[3:5] = z[1:3]
    z[0] = 5
    z.numpy(), z.tolist(), z[0], repr(z), z.shape, z.dtype, z.address, z.reshape(2, -1)[1].tobytes()
    z.free()
    pg.record().wait()
    saxpy.explain(), saxpy.parameters, saxpy.info
    try:
        module["no such kernel"]
    except LookupError:
        pass
    pg.Session("null").device


class MallocInfo(ctypes.Structure):
    """mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                                                     "uordblks", "fordblks", "keepcost")]


def kept_bytes():
    """Resident, but for what malloc has got back and keeps, which comes and goes by ten megabytes."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallocInfo
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 - mallinfo().fordblks


def test_nothing_is_left_behind(module):
    x, y = pg.ones(100, "f4"), pg.zeros(100, "f4")
    watched = [module, module.saxpy, x, y, pg.session(), pg.Array, pg._core.Memory, pg.Launcher, pg.Event, pg.Kernel,
               pg.ArgumentError, None]
    for _ in range(300):  # the library keeps the last 256 freed buffers aside
        one_round(module, x, y)
    gc.collect()
    counts, objects, start = [sys.getrefcount(o) for o in watched], len(gc.get_objects()), kept_bytes()
    rounds = 1000
    for _ in range(rounds):
        one_round(module, x, y)
    gc.collect()
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(b - a) < 20 for a, b in zip(counts, after)), list(zip(watched, counts, after))
    assert abs(len(gc.get_objects()) - objects) < 50
    assert kept_bytes() - start < 64 * rounds * 16, "less than a kilobyte a round"


def test_numpy_may_be_imported_by_another_thread_meanwhile():
    run_child("""
        import pergola as pg, sys, threading
        assert "numpy" not in sys.modules
        arrays = [pg.zeros(8, "f4") for _ in range(4)]
        imported, failures = threading.Event(), []

        def fill(x):
            try:
                while not imported.is_set():
                    x.fill(1.0)
                x.fill(2.0)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=fill, args=(x,)) for x in arrays]
        for thread in threads:
            thread.start()
        arrays[0].numpy()
        imported.set()
        for thread in threads:
            thread.join()
        assert not failures, failures
        import numpy as np
        assert all((x.numpy() == 2).all() for x in arrays)
        try:
            arrays[0].fill(np.ma.masked_array(1.0, True))
        except ValueError as error:
            assert "mask" in str(error)
        else:
            raise AssertionError("taken")
    """, prelude=False)


def test_a_launch_that_waits_for_its_end_lets_other_threads_run():
    with pg.session("cpu", scheduler="execution=sync"):
        spin, stop, done = pg.module(PTX).spin, pg.zeros(1, "u4"), pg.zeros(1, "u4")
        word = ctypes.c_uint32.from_address(stop.address)
        thread = threading.Thread(target=lambda: (time.sleep(0.1), setattr(word, "value", 1)))
        thread.start()
        spin[1, 1](stop, done)
        assert done.tolist() == [1]
        thread.join()
