"""Calls of other libraries as pieces of work, and their streams: on the CPU device, and on a GPU that a fake driver plays."""
import ctypes
import gc
import json
import struct
import textwrap
import threading

import numpy as np
import pergola as pg
import pytest

from conftest import PTX, cuda_driver, on_cpu, run_child
from fake_gpu import needs_fake, run_on_fake_gpu


def as_numpy(array):
    """The CPU device's memory itself, as a library that is called would use it."""
    address, count = array.address, array.size
    return np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * count).from_address(address))


needs_as_numpy = on_cpu("memory that NumPy can use")


def fill(array, number, stream):
    """What a library does with floats on either device: on a GPU on the stream that it is given."""
    if stream is None:
        as_numpy(array)[:] = number
        return
    bits, = struct.unpack("I", struct.pack("f", number))
    assert cuda_driver(array.session.device).cuMemsetD32Async(ctypes.c_uint64(array.address), ctypes.c_uint(bits),
                                                              ctypes.c_size_t(array.size), ctypes.c_void_p(stream.handle)) == 0


@needs_as_numpy
def test_the_function_sees_what_was_queued_before_and_later_work_sees_its_own(saxpy):
    x, y = pg.ones(1000, "f4"), pg.zeros(1000, "f4")
    saxpy[1000](2.0, x, y, 1000)

    def library(stream):
        assert stream is None
        as_numpy(y)[:] = as_numpy(y) * 10

    assert pg.call("scale", library, reads=[y], writes=[y]) is None
    saxpy[1000](1.0, x, y, 1000)
    assert (y.numpy() == 21).all()
    assert "scale" in pg.dag().dot()


def test_a_view_counts_with_its_bytes_and_one_array_needs_no_list():
    x = pg.zeros((4, 8), "f4")
    row = x[1]
    pg.call("fill", lambda stream: fill(row, 5, stream), writes=row)
    assert x.numpy().sum() == 40 and (x[1].numpy() == 5).all()


def test_exceptions_travel_through_and_hold_nothing(saxpy):
    x = pg.zeros(4, "f4")

    class Mine(Exception):
        pass

    def fails(stream):
        raise Mine("of the library")

    for synchronous in (False, True):
        with pytest.raises(Mine, match="of the library") as caught:
            pg.call("fails", fails, writes=[x], synchronous=synchronous)
        assert any(entry.name == "fails" for entry in caught.traceback)
    saxpy[4](1.0, x, x, 4)
    assert x.tolist() == [0] * 4


def test_a_launch_that_waits_for_its_end_is_refused_in_a_call_too():
    with pg.session("cpu", scheduler="execution=sync"):
        saxpy, x = pg.module(PTX).saxpy, pg.zeros(4, "f4")

        def launches(stream):
            with pytest.raises(pg.FailedPrecondition, match="call"):
                saxpy[4](1.0, x, x, 4)

        pg.call("launches", launches, writes=[x])
        saxpy[4](1.0, x, x, 4)


def test_what_is_no_array_is_refused():
    x = pg.zeros(4, "f4")
    for wrong in ([np.zeros(4)], [None], 5):
        with pytest.raises(TypeError, match="reads (has Arrays|is an Array or a sequence of some; 5 is given)"):
            pg.call("f", lambda stream: None, reads=wrong)
    with pytest.raises(TypeError, match=r"^call\(\) takes a function after the name, .*; 5 is given"):
        pg.call("f", 5, writes=[x])
    with pytest.raises(TypeError, match=r"^call\(\) takes a name .* first, a str; 3 is given: call\("):
        pg.call(3, lambda stream: None)
    with pytest.raises(pg.InvalidArgument, match="A call's name has no zero character in it; there is one at byte 1"):
        pg.call("f\0g", lambda stream: None)
    with pytest.raises(pg.InvalidArgument, match="has a name"):
        pg.call("", lambda stream: None)
    with pytest.raises(pg.InvalidArgument, match="another session"):
        pg.session(device="cpu").call("f", lambda stream: None, reads=[x])
    x.free()
    with pytest.raises(pg.FailedPrecondition, match="freed"):
        pg.call("f", lambda stream: None, reads=[x])


def test_inside_its_function_the_session_is_refused_and_garbage_may_go(saxpy):
    x, y = pg.zeros(4, "f4"), pg.zeros(4, "f4")
    refused = []

    def function(stream):
        for attempt in (lambda: saxpy[4](1.0, x, y, 4), x.numpy, lambda: y.fill(1), pg.synchronize, pg.record,
                        lambda: pg.call("inner", lambda stream: None)):
            with pytest.raises(pg.FailedPrecondition, match="inside the function of a library call"):
                attempt()
            refused.append(attempt)
        assert x.address != 0
        nonlocal garbage
        garbage = None
        gc.collect()

    garbage = pg.zeros(1000, "f4")
    pg.call("outer", function, reads=[x])
    assert len(refused) == 6
    saxpy[4](1.0, x, y, 4)
    assert y.tolist() == [0] * 4


def test_other_threads_launch_while_a_function_runs(saxpy):
    """A launch that conflicts waits for the function, which needs the GIL: it must let go of it."""
    x, y, z = pg.ones(64, "f4"), pg.zeros(64, "f4"), pg.zeros(64, "f4")
    started, launched = threading.Event(), []

    def other():
        started.wait()
        saxpy[64](1.0, x, z, 64)
        launched.append("free")
        saxpy[64](1.0, x, y, 64)
        launched.append("conflicting")

    thread = threading.Thread(target=other)
    thread.start()

    def function(stream):
        started.set()
        while launched != ["free"]:
            thread.join(0.001)
        thread.join(0.1)
        assert launched == ["free"]
        fill(y, 7, stream)

    pg.call("slow", function, writes=[y])
    thread.join(60)
    assert launched == ["free", "conflicting"] and (y.numpy() == 8).all() and (z.numpy() == 1).all()


@needs_as_numpy
def test_many_threads_call_and_launch(saxpy):
    x, sums = pg.ones(256, "f4"), [pg.zeros(256, "f4") for _ in range(2)]

    def work(number):
        for i in range(100):
            a, b = (sums[0], sums[1]) if (number + i) % 2 else (sums[1], sums[0])

            def add(stream):
                as_numpy(a)[:] += 1
                as_numpy(b)[:] += 1

            pg.call("add", add, reads=[a, b], writes=[b, a])
            saxpy[256](1.0, x, a, 256)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert sum(int(each.numpy()[0]) for each in sums) == 4 * 100 * 3


@pytest.mark.parametrize("synchronous", [pytest.param(False, marks=on_cpu("a wait before every call")), True])
def test_ctrl_c_ends_the_wait_before_a_call(synchronous):
    run_child(f"""
        import os, signal, threading, time
        stop, end = pg.zeros(1, "u4"), pg.zeros(1, "u4")
        module.spin[1, 1](stop, end)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            pg.call("after", lambda stream: print("called"), reads=[end], synchronous={synchronous})
            raise SystemExit("no KeyboardInterrupt")
        except KeyboardInterrupt:
            assert time.monotonic() - start < 5
        os._exit(0)
    """)


# For children: hold(call, array) begins a library's function in another thread, which has the array until leave.set().
HOLD = """
import numpy as np, os, signal, threading, time
leave = threading.Event()
def hold(call, array):
    inside = threading.Event()
    def slow(stream):
        inside.set()
        leave.wait()
    thread = threading.Thread(target=call, args=("slow", slow), kwargs=dict(writes=[array]))
    thread.start()
    inside.wait()
    return thread
"""


# What another thread's call is at, by whichever way it is used: nothing of it is queued.
@pytest.mark.parametrize("use", ["x.fill(2)", "x[:] = 2", "x[:] = np.full(4, 2, 'u4')", "x[0]", "x.numpy()", "y[:] = x", "x.wait()",
                                 "module.spin[1, 1](x, y)", "pg.call('after', lambda stream: print('called'), reads=[x])"])
def test_ctrl_c_ends_the_wait_for_another_threads_call(use):
    run_child(HOLD + textwrap.dedent(f"""
        x, y = pg.ones(4, "u4"), pg.zeros(4, "u4")
        other = hold(pg.call, x)
        start = time.monotonic()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            {use}
            raise SystemExit("no KeyboardInterrupt")
        except KeyboardInterrupt:
            assert 0.2 < time.monotonic() - start < 5
        leave.set()
        other.join()
        assert x.tolist() == [1] * 4 and y.tolist() == [0] * 4
        x.fill(3)
        assert x[0] == 3
        print("done")
    """))


# With execution=sync a launch waits on a thread of its own: it is not to run behind what came after it.
def test_a_synchronous_launch_that_ctrl_c_ended_before_its_turn_does_not_run():
    run_child(HOLD + textwrap.dedent("""
        with pg.session("cpu", scheduler="execution=sync") as session:
            m, x, y = pg.module(PTX), pg.ones(4, "f4"), pg.zeros(4, "f4")
            other = hold(session.call, x)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                m.saxpy[1, 4](2.0, x, y, 4)
                raise SystemExit("no KeyboardInterrupt")
            except KeyboardInterrupt:
                y.fill(9)
            leave.set()
            other.join()
            session.synchronize()
            assert y.tolist() == [9] * 4
    """))


# A handler may use the array itself, once the call that it lets return has.
@pytest.mark.parametrize("outer, inner", [("x.fill(2)", "x[0]"), ("x[:] = np.full(4, 2, 'f4')", "x.numpy()"), ("x.host()", "x.host()"),
                                          ("x.host()", "x.fill(5)"), ("x.numpy()", "pg.call('f', lambda stream: None, writes=[x])")])
@pytest.mark.parametrize("device", ["cpu", pytest.param("fake", marks=needs_fake)])
def test_a_signals_handler_may_use_what_is_waited_for(tmp_path, device, outer, inner):
    program = HOLD + textwrap.dedent(f"""
        import faulthandler
        faulthandler.dump_traceback_later(30, exit=True)
        x = pg.ones(4, "f4")
        seen, other = [], hold(pg.call, x)
        def handle(number, frame):
            leave.set()
            other.join()
            {inner}
            seen.append(number)
        signal.signal(signal.SIGUSR1, handle)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        {outer}
        assert seen == [signal.SIGUSR1]
        pg.synchronize()
    """)
    run_child(program) if device == "cpu" else run_on_fake_gpu(tmp_path, program)


# Nor does another thread that waits for the array keep anybody from hearing it.
@pytest.mark.parametrize("others, use", [("x.host()", "x.host()"), ("x.prefetch('host')", "x[:] = np.full(4, 2, 'f4')"),
                                         ("x.host()", "x.prefetch('host')")])
@needs_fake
def test_ctrl_c_is_heard_beside_another_thread_that_waits(tmp_path, others, use):
    run_on_fake_gpu(tmp_path, HOLD + textwrap.dedent(f"""
        x = pg.ones(4, "f4")
        other = hold(pg.call, x)
        waits = threading.Thread(target=lambda: {others})
        waits.start()
        time.sleep(0.2)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            {use}
            raise SystemExit("no KeyboardInterrupt")
        except KeyboardInterrupt:
            assert time.monotonic() - start < 5
        leave.set()
        other.join()
        waits.join()
        assert x.tolist() == [1] * 4
    """))


@needs_fake
def test_on_a_gpu_the_function_is_given_the_stream(tmp_path):
    run_on_fake_gpu(tmp_path, """
        import ctypes
        driver = ctypes.CDLL("libcuda.so.1")
        x, y = pg.zeros(8, "f4"), pg.zeros(8, "f4")
        x.fill(3)
        seen = []
        def copy(stream):
            version, handle = stream.__cuda_stream__()
            assert version == 0 and handle == stream.handle != 0 and f"{handle:#x}" in repr(stream)
            seen.append(handle)
            assert driver.cuMemcpyAsync(ctypes.c_uint64(y.address), ctypes.c_uint64(x.address), ctypes.c_size_t(32),
                                        ctypes.c_void_p(handle)) == 0
        for _ in range(3):
            x.fill(3)
            pg.call("copy", copy, reads=[x], writes=[y])
            x.fill(0)
            assert y.tolist() == [3] * 8
        pg.call("copy", lambda stream: seen.append(stream), reads=[x], writes=[y], synchronous=True)
        assert seen[-1] is None and len(seen) == 4
    """)


# ── Other libraries' streams ────────────────────────────────────────────────────────────────────────────────────────


def test_the_cpu_device_has_no_streams():
    with pg.session("cpu"):
        for order in (pg.wait_stream, pg.make_stream_wait):
            with pytest.raises(pg.Unsupported, match="'cpu' has no streams"):
                order(1)
            with pytest.raises(TypeError):
                order(None)
            with pytest.raises(TypeError, match="A stream is an object with __cuda_stream__, .* CUstream; 'stream' is given"):
                order("stream")
            with pytest.raises(OverflowError):
                order(-1)


@needs_fake
def test_another_librarys_stream_is_waited_for_and_made_to_wait(tmp_path):
    run_on_fake_gpu(tmp_path, """
        import ctypes
        driver = ctypes.CDLL("libcuda.so.1")
        u64, size, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
        made = pointer()
        assert driver.cuStreamCreate(ctypes.byref(made), 1) == 0
        class Torch:
            cuda_stream = made.value
        class Cupy:
            ptr = made.value
        n = 4 << 20  # long enough to be overtaken
        x, y, z = pg.zeros(n, "u4"), pg.zeros(n, "u4"), pg.zeros(n, "u4")
        pg.synchronize()
        def fill(value):
            assert driver.cuMemsetD32Async(u64(x.address), ctypes.c_uint(value), size(n), made) == 0
        for round_, stream in enumerate((made.value, Stream(made.value), Torch, Cupy)):
            fill(round_ + 1)
            pg.wait_stream(stream)
            assert x[n - 1] == round_ + 1, "a read waits"
            fill(round_ + 10)
            pg.wait_stream(stream)
            y[:] = x                              # work waits, on whichever stream it goes
            z.fill(5)
            pg.make_stream_wait(stream)
            fill(99)                              # behind the copy
            assert driver.cuMemcpyAsync(u64(y.address), u64(z.address), size(4), made) == 0
            assert y[n - 1] == round_ + 10
            assert driver.cuStreamSynchronize(made) == 0
            assert y[0] == 5 and x.numpy()[n - 1] == 99
        for default in (0, 1, 2, Stream(0)):
            pg.wait_stream(default)
            pg.make_stream_wait(default)
        assert "wait for a stream" in pg.dag().dot()
    """)


@needs_fake
def test_waits_for_streams_are_recorded_and_count_as_neither_computation_nor_transfer(tmp_path):
    trace = tmp_path / "trace.json"
    run_on_fake_gpu(tmp_path, f"""
        x = pg.zeros(4, "f4")
        with pg.trace({str(trace)!r}):
            pg.wait_stream(1)
            x.fill(1)
    """)
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["cat"] for event in events if event.get("name") == "wait for a stream"] == ["stream wait"]
