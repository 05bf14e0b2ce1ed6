"""Whole processes: Ctrl-C, the interpreter's end, fork, what import needs."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pergola as pg
import pytest
from conftest import CLEARED_FAULTS, on_cpu, run_child
from fake_gpu import FAKE, needs_fake

TESTS = str(pathlib.Path(__file__).parent)


def interrupt_child(body, **environment):
    """Starts a child, sends SIGINT once it says ready, and returns how it ended and how long that took."""
    code = f"import sys, numpy\nsys.path.insert(0, {TESTS!r})\nimport pergola as pg\nfrom conftest import PTX, store\n" \
           f"module = pg.module(PTX)\nstop, done = pg.zeros(1, 'u4'), pg.zeros(1, 'u4')\n" + textwrap.dedent(body)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, **environment})
    assert child.stdout.readline() == "ready\n", child.communicate()
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    start = time.monotonic()
    try:
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    return child.returncode, out, err, time.monotonic() - start


@pytest.mark.parametrize("wait", ["pg.synchronize()", "done.numpy()", "done.tolist()", "pg.record().wait()", "done[0]",
                                  "[module.spin[1, 1](stop, done) for _ in range(5000)]", "print(done)\npg.device()\ndone.wait()",
                                  "[pg.record() for _ in range(40000)]", "[done.fill(1) for _ in range(40000)]",
                                  "[done.copy_from(stop) for _ in range(40000)]", "[pg.zeros(1) for _ in range(40000)]"])
def test_ctrl_c_ends_a_wait(wait):
    status, _, err, seconds = interrupt_child(f"module.spin[1, 1](stop, done)\nprint('ready', flush=True)\n{wait}")
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err, (status, err)
    assert seconds < 20


# A GPU's driver holds back who queues a 1,022nd piece in a stream. `wide` has no word to repeat.
@needs_fake
@pytest.mark.parametrize("queue", ["hold[1, 1](done, stop)", "pg.record()", "done.fill(1)", "wide.fill(1.1)", "done.copy_from(stop)",
                                   "done[0:1] = 1", "hold[1, 1](done, stop)\n            done.prefetch('host')",
                                   "done.fill(1)\n            pg.record()\n            done.prefetch('host')"])
def test_ctrl_c_is_heard_before_a_driver_holds_back(queue, tmp_path):
    (tmp_path / "libcuda.so.1").symlink_to(FAKE)
    status, _, err, seconds = interrupt_child(f"""
        assert pg.device().id == "cuda:0"
        hold = pg.module(PTX.replace(".entry spin(.param .u64 stop, .param .u64 done)",
                                     ".entry hold(.param .u64 done, .param .u64 stop)")).hold
        wide = pg.zeros(1 << 12, "f8")
        hold[1, 1](wide, stop)
        hold[1, 1](done, stop)
        print("ready", flush=True)
        while True:
            {queue}
    """, LD_LIBRARY_PATH=str(tmp_path), PERGOLA_DEVICE="cuda:0")
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err, (status, err)
    assert seconds < 20


@pytest.mark.parametrize("given", ["scheduler='graphs=off,execution=sync'", "'cpu'"])
@pytest.mark.parametrize("launch", ["spin[1, 1](stop, done)", "pg.launch(spin, 1, 1, (stop, done))"])
def test_ctrl_c_ends_a_launch_that_waits_for_its_end(launch, given, monkeypatch):
    if given == "'cpu'":
        monkeypatch.setenv("PERGOLA_SCHEDULER", "execution=sync")
    status, out, err, seconds = interrupt_child(f"""
        with pg.session({given}) as session:
            spin, stop, done = pg.module(PTX).spin, pg.zeros(1, "u4"), pg.zeros(1, "u4")
            print("ready", flush=True)
            try:
                {launch}
            except KeyboardInterrupt:
                print(session.record().done)
                store(stop, 1)
            print(done.tolist())
            spin[1, 1](stop, done)
            try:
                spin[1, 1](stop, 1.0)
            except pg.ArgumentError:
                print("refused")
    """)
    assert (status, out) == (0, "False\n[1]\nrefused\n"), err
    assert seconds < 20


def test_exit_under_a_launch_that_ctrl_c_has_left():
    status, out, err, seconds = interrupt_child("""
        with pg.session(scheduler="execution=sync"):
            print("ready", flush=True)
            pg.module(PTX).spin[1, 1](pg.zeros(1, "u4"), pg.zeros(1, "u4"))
    """)
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err and seconds < 20, (status, err)


def test_ctrl_c_can_be_caught_and_the_session_goes_on():
    status, out, err, _ = interrupt_child("""
        from conftest import PTX
        y = pg.zeros(4, "f4"); x = pg.ones(4, "f4")
        other = pg.session(device="cpu")
        print("ready", flush=True)
        module.spin[1, 1](stop, done)
        try:
            pg.synchronize()
        except KeyboardInterrupt:
            print(other.module(PTX).names[0])
    """)
    assert (status, out) == (0, "saxpy\n"), err


def test_reading_an_array_waits_for_no_other_work():
    run_child("""
        stop, done, y = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.zeros(4, "f4")
        pg.synchronize()
        module.spin[1, 1](stop, done)
        assert y.tolist() == [0] * 4 and pg.ones(4).numpy().tolist() == [1] * 4
        y.wait()
        assert not pg.record().done
    """)


def test_an_event_is_waited_for_as_long_as_asked():
    run_child("""
        import time
        before = pg.record()
        before.wait(timeout=60)
        before.wait(0)
        stop, done = pg.zeros(1, "u4"), pg.zeros(1, "u4")
        module.spin[1, 1](stop, done)
        event = pg.record()
        for arguments, least in (([0.1], 0.05), ([0], 0)):
            start = time.monotonic()
            try:
                event.wait(*arguments)
            except pg.Timeout as timeout:
                assert isinstance(timeout, TimeoutError) and "the work goes on" in str(timeout)
            else:
                raise AssertionError("the kernel has no end")
            assert least <= time.monotonic() - start < 20 and not event.done
        for wrong, error in ((float("nan"), ValueError), ("soon", TypeError)):
            try:
                event.wait(timeout=wrong)
            except error:
                pass
            else:
                raise AssertionError(wrong)
    """)


# ── The interpreter's end ─────────────────────────────────────────────────────────────────────────────────────────────

def test_exit_with_a_kernel_that_never_ends():
    start = time.monotonic()
    result = run_child("""
        stop, done = pg.zeros(1, "u4"), pg.zeros(1, "u4")
        module.spin[1, 1](stop, done)
        print("left")
    """)
    assert result.stdout == "left\n" and time.monotonic() - start < 20


def test_exit_with_a_kernel_that_never_ends_in_a_session_that_is_dropped():
    run_child("""
        session = pg.session(device="cpu")
        stop, done = session.zeros(1, "u4"), session.zeros(1, "u4")
        session.module(PTX).spin[1, 1](stop, done)
    """)


def test_exit_waits_for_short_work():
    source = r'''extern "C" int printf(const char*, ...);
                 extern "C" __global__ void hello() { printf("hello from %d\n", threadIdx.x); }'''
    result = run_child(f"pg.kernel({source!r})[1, 2]()")
    assert result.stdout == "hello from 0\nhello from 1\n", result.stderr


def test_exit_tells_a_failure_that_nobody_waited_for():
    assert "'wild'" in run_child("module.wild[1, 1]()").stderr


@on_cpu(CLEARED_FAULTS)
def test_exit_tells_each_failure_that_nobody_waited_for_and_no_other():
    told = run_child("""
        module.wild[1, 1]()
        try:
            pg.synchronize()
        except pg.DeviceFault:
            pass
    """)
    assert told.stderr == ""
    wait = "\ntry:\n    {}\nexcept pg.Error:\n    pass\n"
    launch, clear = "module.wild[1, 1]()", wait.format("pg.synchronize()")
    assert run_child(launch + clear + launch).stderr.count("'wild'") == 1, "one that was cleared says nothing of the next"
    for waits in ("y.numpy()", "pg.record().wait()"):
        body = "y = pg.zeros(4, 'f4')\n" + launch + "\nmodule.saxpy[4](1.0, y, y, 4)"
        assert run_child(body + wait.format(waits)).stderr == "", waits
    two = """
        apart = pg.session("cpu", scheduler="fork-cost=0")  # each on a stream of its own
        far = apart.module('''
            .version 7.8
            .target sm_75
            .address_size 64
            .visible .entry far(.param .u64 p) { .reg .b64 %rd; ld.param.u64 %rd, [p]; st.global.u32 [%rd+4096], 0; ret; }
        ''').far
        for x in (apart.empty(4, "f4"), apart.empty(4, "f4")):
            far[1, 1](x)
    """
    assert run_child(two).stderr.count("'far'") == 2, "the second of two that have nothing to do with each other, too"
    first = "with pg.session('cpu'):\n    other = pg.module(PTX)\n    other.wild[1, 1]()" + clear.replace("\n", "\n    ")
    assert run_child(first + "\n" + launch).stderr.count("'wild'") == 1


def test_exit_by_an_exception_keeps_its_message():
    result = run_child("""
        y = pg.zeros(4, "f4")
        module.saxpy[4](1.0, y, y, 4)
        raise RuntimeError("the program's own")
    """, check=False)
    assert result.returncode == 1 and "the program's own" in result.stderr


@pytest.mark.parametrize("body", ["pg.synchronize()", "done.numpy()",
                                  "exec('while True:\\n  module.saxpy[4](1.0, y, y, 4)')",
                                  "exec('while True:\\n  y.numpy()')", "exec('while True:\\n  pg.zeros(1000)')"])
def test_exit_under_daemon_threads(body):
    spin = "module.spin[1, 1](stop, done)" if "done" in body or body == "pg.synchronize()" else ""
    run_child(f"""
        import threading, time
        stop, done, y = pg.zeros(1, "u4"), pg.zeros(1, "u4"), pg.zeros(4, "f4")
        {spin}
        for _ in range(3):
            threading.Thread(target=lambda: {body}, daemon=True).start()
        time.sleep(0.2)
    """)


# ── Fork ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

FORK = """
import os, signal
signal.alarm(30)
x, y = pg.ones(4, "f4"), pg.zeros(4, "f4")
kind = pg.task_pool().prepare(module.saxpy, 1, 4)
pool = kind.pool
task, saxpy, event = kind(0.0, x, x, 4), module.saxpy, pg.record()
saxpy[4](1.0, x, y, 4)
BEFORE
child = os.fork()
if child == 0:
    for use in (lambda: y.numpy(), lambda: pg.synchronize(), lambda: module.saxpy[4](1.0, x, y, 4), lambda: pg.zeros(3),
                lambda: pg.session(device="cpu"), lambda: y[0], lambda: y.fill(1), lambda: pg.module(PTX),
                lambda: list(pg.as_completed([task])), lambda: y.free(), lambda: kind.pool):
        try:
            use()
            print("no error")
        except pg.FailedPrecondition as error:
            assert "spawn" in str(error)
    assert "shape=(4,), dtype=float32, device='of the parent process'" in repr(x)
    for what in (pg.session(), module, saxpy, event, kind, pool, task):
        assert repr(what).startswith("<pergola."), what
    del x, y, module, saxpy, what
    print("refused", flush=True)
    EXIT
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
print(y.tolist())
"""


@pytest.mark.parametrize("before", ["", "pg.synchronize()"])
@pytest.mark.parametrize("leave", ["os._exit(0)", "raise SystemExit(0)"])
def test_a_forked_child_is_refused_and_ends(before, leave):
    result = run_child(FORK.replace("BEFORE", before).replace("EXIT", leave))
    assert result.stdout == "refused\n[1.0, 1.0, 1.0, 1.0]\n"


def test_a_forked_child_with_a_session_says_nothing_of_recordings_that_are_none():
    result = run_child("""
import os, sys
x = pg.ones(3)
child = os.fork()
if child == 0:
    session = pg.session()
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""", arguments=("-W", "ignore::DeprecationWarning"))  # Python 3.12 has one where a process with threads forks
    assert (result.stdout, result.stderr) == ("0\n", "")


def test_fork_before_the_first_session_is_fine():
    run_child("""
        import os, pergola as pg
        child = os.fork()
        assert pg.ones(3).tolist() == [1.0] * 3
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """, prelude=False)


def test_multiprocessing_by_spawn(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import multiprocessing, pergola as pg
        def work(n):
            return pg.full(n, n).tolist()
        if __name__ == "__main__":
            assert work(1) == [1]
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                assert pool.map(work, [1, 2, 3]) == [[1], [2, 2], [3, 3, 3]]
    """))
    subprocess.run([sys.executable, tmp_path / "program.py"], check=True, timeout=120)


# ── What import needs ─────────────────────────────────────────────────────────────────────────────────────────────────

WITHOUT_NUMPY = "import sys\nsys.modules['numpy'] = None\n"


def test_import_opens_no_device_and_needs_no_numpy():
    run_child(WITHOUT_NUMPY + """
import os
import pergola as pg
assert len(os.listdir("/proc/self/task")) == 1
""", prelude=False, environment={"PERGOLA_DEVICE": "no such device"})


def test_without_numpy_everything_but_numpy_works():
    result = run_child(WITHOUT_NUMPY + f"sys.path.insert(0, {TESTS!r})\n" + """
import array
import pergola as pg
sys.modules['pytest'] = type(sys)('pytest')
sys.modules['pytest'].fixture = lambda *a, **k: (lambda f: f)
from conftest import PTX
x = pg.array(array.array("f", [1, 2, 3])); y = pg.zeros_like(x)
pg.module(PTX).saxpy[3](2.0, x, y, 3)
assert y.tolist() == [2.0, 4.0, 6.0] and bytes(y.tobytes()) == array.array("f", [2, 4, 6]).tobytes()
y[1] = 7
assert y[1] == 7.0 and y.dtype_name == "float32" and "float32" in repr(y)
view = y.host_buffer()
assert view.format == "f" and view.shape == (3,) and view.tolist() == [2.0, 7.0, 6.0]
view[2] = 8
assert y.tolist() == [2.0, 7.0, 8.0] and y.host_buffer("r").readonly
for use in (y.numpy, y.host, lambda: y.dtype, lambda: pg.array([1, 2]), lambda: pg.zeros(3, [("a", "i4")])):
    try:
        use()
        raise SystemExit("no error")
    except ImportError as error:
        assert "needs NumPy" in str(error) and "pip install numpy" in str(error)
""", prelude=False)
    assert result.stderr == ""


def test_a_device_that_is_not_there_is_refused_by_name():
    result = run_child("pg.zeros(3)", prelude=False, check=False,
                       environment={"PERGOLA_DEVICE": "tpu"})
    assert result.returncode == 1
    result = run_child("""
        import pergola as pg
        for wrong in (lambda: pg.zeros(3), lambda: pg.session(device="cpux")):
            try:
                wrong()
                raise SystemExit("no error")
            except pg.InvalidArgument as error:
                assert "'cpu', 'cuda:N'" in str(error)
        assert pg.session(device="cpu").zeros(3).tolist() == [0.0] * 3
        assert pg.session(device="null").device.id == "null"
    """, prelude=False, environment={"PERGOLA_DEVICE": "tpu"})


def test_doctor_is_the_programs():
    result = subprocess.run([sys.executable, "-m", "pergola", "doctor"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and "ran the check kernel" in result.stdout, result.stderr
    result = subprocess.run([sys.executable, "-m", "pergola", "version"], capture_output=True, text=True, timeout=60)
    assert pg.__version__ in result.stdout


def test_the_extension_is_of_the_stable_abi():
    path = pathlib.Path(pg._core.__file__)
    assert path.name == "_core.abi3.so"
    needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    assert "libpython" not in needed
    run_child("import pergola", prelude=False, environment={"LD_LIBRARY_PATH": ""})


@pytest.mark.parametrize("first", ["import pergola as pg; kept = pg.ones(2)", "pass"], ids=["after", "before"])
def test_a_subinterpreter_is_refused_before_it_has_anything(first):
    interpreters = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    run_child(f"""
        import {interpreters} as interpreters
        {first}
        for _ in range(2):
            sub = interpreters.create()
            failure = interpreters.run_string(sub, '''if True:
                import sys
                try:
                    import pergola
                except ImportError as error:
                    assert "subinterpreter" in str(error), error
                else:
                    raise AssertionError("imported")
                assert not [name for name in sys.modules if name.startswith("pergola")]
            ''')
            assert failure is None, failure
            interpreters.destroy(sub)
        import importlib, sys, pergola as pg
        x = pg.ones(2)
        assert x.tolist() == [1, 1]
        del sys.modules["pergola._core"]
        assert importlib.import_module("pergola._core").Event is pg.Event, "there is one"
        assert x.tolist() == [1, 1]
    """, prelude=False)


def test_numpy_at_the_interpreters_end():
    result = run_child("""
        import pergola as pg

        class Last:
            def __init__(self, x):
                self.x = x

            def __del__(self):
                try:
                    self.x.numpy()
                except ImportError as error:
                    print(error)

        pg.last = Last(pg.ones(2))
    """, prelude=False)
    assert "not installed" not in result.stdout and ("interpreter ends" in result.stdout or not result.stdout), result.stdout
