"""Waits for narrow tasks beside what goes on: ordinary work without end, other event loops, other sessions."""
import asyncio
import textwrap

import pergola as pg
import pytest
from conftest import run_child
from test_tasks import kernels, pool, session  # noqa: F401  (fixtures)


def run_beside_a_launch(body, **how):
    """Where a resident kernel runs tasks, `task` beside ordinary work that goes on until let_it_end()."""
    return run_child("""
        import threading, time
        stop, done, other = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.zeros(8, "u4")
        pool = pg.task_pool(executor="resident")
        kind = pool.prepare(module.shape, 1, 1)
        pg.synchronize()
        def let_it_end():
            store(stop, 1)
        module.spin[1, 1](stop, done)
        task = kind(other)
        """ + textwrap.dedent(body).replace("\n", "\n        "), **how)


@pytest.mark.parametrize("wait", ["task.wait(0.2)", "pool.wait_all(0.2)", "list(pg.as_completed([task], 0.2))", "other[0]",
                                  "pool.park()"])
def test_a_wait_beside_a_launch_without_end_has_its_time_and_hears_signals(wait):
    result = run_beside_a_launch(f"""
        import signal
        def alarm(*_):
            raise TimeoutError("alarm")
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, 2)
        try:
            {wait}
        except (pg.Timeout, TimeoutError):
            print("heard")
        signal.setitimer(signal.ITIMER_REAL, 0)
        let_it_end()
        task.wait(60)
        print(done.tolist(), other.tolist() != [0] * 8)""")
    assert result.stdout == "heard\n[1] True\n"


def test_a_process_ends_while_a_task_waits_behind_a_launch_without_end():
    result = run_beside_a_launch("print('last')", environment={"PERGOLA_END_GRACE_MS": "300"})
    assert result.stdout == "last\n"


def test_an_await_beside_one_that_goes_on_ends():
    result = run_beside_a_launch("""
        import asyncio
        own = pg.session("cpu")
        x = own.zeros(8, "u4")
        ends = own.task_pool(executor="threads").prepare(own.module(PTX).shape, 1, 1)
        async def lost():
            try:
                await asyncio.wait_for(task, 0.2)
            except TimeoutError:
                print("lost")
        async def innocent():
            await asyncio.sleep(0.05)
            await asyncio.wait_for(ends(x), 30)
            print("ended")
        async def main():
            await asyncio.gather(lost(), innocent())
        asyncio.run(main())
        let_it_end()
        task.wait(60)""")
    assert sorted(result.stdout.split()) == ["ended", "lost"]


def test_what_a_pool_has_done_is_asked_for_without_the_gil():
    run_child("""
        import threading, time
        stop, done, other = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.zeros(8, "u4")
        pool = pg.task_pool(executor="resident")
        kind = pool.prepare(module.spin, 1, 1)
        module.shape[1, 1](other)
        pg.synchronize()
        task = kind(stop, done)
        time.sleep(0.1)
        threading.Thread(target=lambda: module.shape[1, 1](other), daemon=True).start()  # has the kernel leave
        def end():
            time.sleep(0.5)
            store(stop, 1)
        threading.Thread(target=end, daemon=True).start()
        time.sleep(0.1)
        assert pool.info.spawned == 1
        task.wait(60)
    """)


def test_a_session_that_a_lost_await_kept_does_not_hold_up_others():
    run_child("""
        import asyncio, gc, time
        pool, out = pg.task_pool(), pg.zeros(8, "u4")
        kind = pool.prepare(module.shape, 1, 1)
        kind(out).wait()
        async def other():
            own = pg.session("cpu")
            stop, done = own.zeros(1, "u4"), own.zeros(1, "u4")
            own.synchronize()
            task = own.task_pool().spawn(own.module(PTX).spin, 1, 1, stop, done)  # never ends
            try:
                await asyncio.wait_for(task, 0.05)
            except TimeoutError:
                pass
        async def main():
            await other()
            gc.collect()
            await asyncio.sleep(0.05)
            for _ in range(20):
                begin = time.monotonic()
                await asyncio.wait_for(kind(out), 60)
                assert time.monotonic() - begin < 10
        asyncio.run(main())
    """, environment={"PERGOLA_END_GRACE_MS": "15000"})


def test_a_loop_of_another_kind_is_its_own_affair(pool, kernels):
    class Odd(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *_, **__):
            raise ValueError("an odd loop")

    def run(loop, seconds):
        out = pg.zeros(1, "u4")

        async def main():
            for _ in range(20):  # some have ended before they are awaited
                await asyncio.wait_for(pool.spawn(kernels.shape, 1, 1, out), seconds)

        try:
            loop.run_until_complete(main())
        finally:
            loop.close()

    try:
        run(Odd(), 0.2)
    except (TimeoutError, asyncio.TimeoutError):
        pass
    run(asyncio.new_event_loop(), 60)


def test_as_completed_passes_on_what_its_argument_raises(pool, kernels):
    with pytest.raises(pg.ArgumentError, match="of kernel .shape. is of type str"):
        list(pg.as_completed(pool.spawn(kernels.shape, 1, 1, "not an array") for _ in range(5)))
    with pytest.raises(TypeError, match="takes a sequence of tasks; 5 is given"):
        pg.as_completed(5)
    with pytest.raises(TypeError, match="there is 5 in it"):
        pg.as_completed([5])


def test_dlpack_with_no_stream_waits_for_no_tasks():
    run_child("""
        stop, done = pg.zeros(1, "u4"), pg.zeros(1, "u4")
        pool = pg.task_pool()
        pg.synchronize()
        task = pool.spawn(module.spin, 1, 1, stop, done)
        assert done.__dlpack__(stream=-1) is not None
        assert not task.done()
        store(stop, 1)
        task.wait(60)
    """)
