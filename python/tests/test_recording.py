"""Traces and histories: written at the end of `with`, and at the end of the program."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pergola as pg
import pytest
from conftest import PTX, run_child
from test_process import interrupt_child

N = 1000


def launch_twice(saxpy):
    x, y = pg.ones(N, "f4"), pg.zeros(N, "f4")
    saxpy[N](2.0, x, y, N)
    saxpy[N](2.0, x, y, N)


def kernels(path):
    return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "kernel"]


def test_a_relative_path_is_of_the_folder_in_which_the_recording_began(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir(), (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    session = pg.Session()
    saxpy = session.module(PTX, language="ptx").saxpy
    for record, name in ((session.trace, "run.json"), (session.history, "times.json")):
        with record(name):
            assert "saxpy" not in pathlib.Path(name).read_text(), "it is there from the beginning, and empty"
            saxpy[4](1.0, session.zeros(4, "f4"), session.zeros(4, "f4"), 4)
            session.synchronize()
            monkeypatch.chdir(tmp_path / "elsewhere")
        assert not (tmp_path / "elsewhere" / name).exists()
        assert "saxpy" in (tmp_path / "there" / name).read_text()
        monkeypatch.chdir(tmp_path / "there")


def test_with_trace(saxpy, tmp_path):
    with pg.trace(tmp_path / "run.json"):
        launch_twice(saxpy)
    launch_twice(saxpy)
    found = kernels(tmp_path / "run.json")
    assert [e["args"]["block"][0] for e in found] == [256, 256]
    assert all(e["dur"] > 0 and "f32 2, array" in e["args"]["arguments"] for e in found)


def test_a_read_is_recorded_once(tmp_path):
    x = pg.ones(N, "f4")
    with pg.trace(tmp_path / "run.json"):
        for read in (x.numpy, x.tobytes, x.tolist, lambda: x[3]):
            x.fill(2)
            read()
        x.wait()
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert [e["args"]["bytes"] for e in events if e["ph"] == "X" and e["name"].startswith("read array")] == [4 * N] * 3 + [4]


def test_tasks_have_slices_where_their_pool_is_made_for_it(tmp_path):
    with pg.Session("cpu") as session:
        pool, x = session.task_pool(slices=True), pg.zeros(N, "f4")
        saxpy, y = pg.module(PTX).saxpy, pg.ones(N, "f4")
        session.synchronize()
        with pg.trace(tmp_path / "run.json"):
            tasks = [pool.spawn(saxpy, 1, 128, 2.0, y, x, 100) for _ in range(5)]
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    slices = [e for e in events if e.get("cat") == "task"]
    assert {e["args"]["task"] for e in slices} == {f"{task.id:#x}" for task in tasks}
    assert all(e["name"] == "saxpy" and e["dur"] > 0 for e in slices)


def test_with_history(saxpy, tmp_path):
    path = tmp_path / "kernels.json"
    for _ in range(2):
        with pg.history(path):
            launch_twice(saxpy)
    (device,) = json.loads(path.read_text())["devices"].values()
    ((row,),) = device.values()
    assert row["count"] == 4 and 0 < row["min_ns"] <= row["mean_ns"]


def test_use_history(saxpy, tmp_path):
    path = tmp_path / "kernels.json"
    with pytest.raises(pg.NotFound, match="There is no file"):
        pg.use_history(path)
    with pg.history(path):
        launch_twice(saxpy)
    before = path.read_text()
    with pg.session("cpu") as session:
        session.use_history(path)
        pg.use_history(str(path))
        launch_twice(pg.module(PTX).saxpy)
    assert path.read_text() == before
    path.write_text("{}")
    with pytest.raises(pg.ParseError):
        pg.use_history(path)


def test_arrays_go_by_their_numbers():
    with pg.Session() as session:
        x, y = pg.ones(N, "f4"), pg.zeros(N, "f4")
        y.host()[0] = 5
        z = pg.zeros(N, "f4")
        assert [x.number, y.number, z.number, z[2:].number] == [1, 2, 3, 3]
        assert repr(z).endswith("number=3)")
        pg.module(PTX).saxpy[N](2.0, x, z, N)
        assert "array 3" in session.dag().mermaid()


def test_with_tuning(saxpy, tmp_path):
    path = tmp_path / "tuning.json"
    for sessions in (1, 2):
        with pg.tuning(path):
            launch_twice(saxpy)
        assert json.loads(path.read_text()) == {"pergola_tuning": 1, "sessions": sessions, "devices": {}}  # the CPU has one way
    path.write_text("{}")
    with pytest.raises(pg.ParseError, match="no tuning of Pergola"):
        with pg.tuning(path):
            pass
    assert path.read_text() == "{}"


def test_the_environments_tuning_is_written_at_the_end(tmp_path):
    path = tmp_path / "tuning.json"
    run_child("pg.zeros(4, 'f4')[0]", environment={"PERGOLA_TUNING": str(path), "PERGOLA_DEVICE": "cpu"})
    assert json.loads(path.read_text())["sessions"] == 1


def test_a_file_that_is_no_history(tmp_path):
    path = tmp_path / "kernels.json"
    path.write_text("{}")
    with pytest.raises(pg.ParseError, match="no history"):
        with pg.history(path):
            pass
    assert path.read_text() == "{}"


def test_a_trace_that_cannot_be_written(tmp_path):
    with pytest.raises(pg.IoError):
        with pg.trace(tmp_path):
            pass


def test_one_recording_at_a_time(saxpy, tmp_path):
    for record, kind in ((pg.trace, "trace"), (pg.history, "history"), (pg.tuning, "tuning")):
        with record(tmp_path / "outer"):
            launch_twice(saxpy)
            with pytest.raises(pg.FailedPrecondition, match=f"A {kind} to '.*outer' is on, .* before that to '.*inner'"):
                with record(tmp_path / "inner"):
                    pass
            with pg.session(device="cpu") as other, record(tmp_path / f"other {kind}"):
                launch_twice(other.module(PTX).saxpy)
            launch_twice(saxpy)
        assert not (tmp_path / "inner").exists() and (tmp_path / f"other {kind}").exists()
        if kind == "trace":
            assert len(kernels(tmp_path / "outer")) == 4
        (tmp_path / "outer").unlink()
    with pg.trace(tmp_path / "a"), pg.history(tmp_path / "b"):
        launch_twice(saxpy)
    with pg.trace(tmp_path / "a"):
        pass
    with pytest.raises(ValueError, match="zero character"):
        with pg.trace(str(tmp_path / "a\0b")):
            pass


def test_a_trace_to_the_file_of_another_sessions_is_refused(saxpy, tmp_path):
    with pg.trace(tmp_path / "run"):
        launch_twice(saxpy)
        with pytest.raises(pg.FailedPrecondition, match="A trace to '.*run' is on, .* end that first, or name another file"):
            with pg.session(device="cpu") as other, other.trace(tmp_path / "run"):
                pass
        launch_twice(saxpy)
    assert len(kernels(tmp_path / "run")) == 4
    with pg.session(device="cpu") as other, other.trace(tmp_path / "run"):
        launch_twice(other.module(PTX).saxpy)
    assert len(kernels(tmp_path / "run")) == 2, "the other has been written"


@pytest.mark.parametrize("kind", ["trace", "history"])
@pytest.mark.parametrize("wait", ["pg.synchronize()", "done.numpy()", "time.sleep(60)", "'the end of with'"])
def test_ctrl_c_ends_a_recording_of_a_kernel_that_goes_on(kind, wait, tmp_path):
    status, _, err, seconds = interrupt_child(f"""
        import time
        with pg.{kind}({str(tmp_path / 'file')!r}):
            module.spin[1, 1](stop, done)
            print("ready", flush=True)
            {wait}
    """)
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err, (status, err)
    assert f"RuntimeWarning: The {kind} to '{tmp_path / 'file'}' is not written yet" in err and seconds < 20


def test_after_ctrl_c_the_next_recording_ends_the_one_that_was_left_on(tmp_path):
    status, out, err, _ = interrupt_child(f"""
        try:
            with pg.trace({str(tmp_path / 'one')!r}):
                module.spin[1, 1](stop, done)
                print("ready", flush=True)
                pg.synchronize()
        except KeyboardInterrupt:
            pass
        store(stop, 1)
        with pg.trace({str(tmp_path / 'two')!r}):
            module.saxpy[1](1.0, pg.ones(1, "f4"), pg.ones(1, "f4"), 1)
    """)
    assert status == 0, err
    assert [e["name"] for e in kernels(tmp_path / "one")] == ["spin"]
    assert [e["name"] for e in kernels(tmp_path / "two")] == ["saxpy"]


@pytest.mark.parametrize("work", ["module.spin[1, 1](stop, done)", "pg.task_pool().spawn(module.spin, 1, 1, stop, done)"])
def test_exit_with_an_open_recording_of_work_that_goes_on(work, tmp_path):
    run_child(f"""
        stop, done = pg.zeros(1, "u4"), pg.zeros(1, "u4")
        pg.trace({str(tmp_path / 'file')!r}).__enter__()
        {work}
    """)


OPEN = {
    "stack": "stack = contextlib.ExitStack()\nstack.enter_context(pg.{kind}({file!r}))",
    "bare": "record = pg.{kind}({file!r})\nrecord.__enter__()",
    "generator": "def records():\n    with pg.{kind}({file!r}):\n        yield\nheld = records()\nnext(held)",
    "atexit": "stack = contextlib.ExitStack()\natexit.register(stack.close)\nstack.enter_context(pg.{kind}({file!r}))"}


@pytest.mark.parametrize("how, kind", [*((how, "trace") for how in OPEN), ("stack", "history")])
def test_exit_with_a_recording_that_no_with_has_ended(how, kind, tmp_path):
    file = str(tmp_path / "file")
    prelude = "import atexit, contextlib\nx = pg.ones(4, 'f4')\nstop, done = pg.zeros(1, 'u4'), pg.zeros(1, 'u4')\n"
    body = prelude + OPEN[how].format(kind=kind, file=file) + "\nmodule.saxpy[4](1.0, x, x, 4)\n"
    assert run_child(body).stderr == ""
    assert "saxpy" in pathlib.Path(file).read_text(), "what has ended is written"
    pathlib.Path(file).unlink()
    start = time.monotonic()
    result = run_child(body + "module.spin[1, 1](stop, done)")
    assert result.stderr == ("pergola: the program's end gave work a second, and what goes on is left behind; without it is "
                             f"written: the {kind} to '{file}'.\n")
    assert time.monotonic() - start < 20
    written = pathlib.Path(file).read_text()
    assert "saxpy" in written and "spin" not in written, "what has ended is written all the same"
    assert kind == "history" or json.loads(written)["otherData"]["without_time"] == 1


def test_a_generator_that_is_closed_waits_for_its_recording_for_a_second(tmp_path):
    file = str(tmp_path / "file")
    result = run_child("import time\n" + "stop, done = pg.zeros(1, 'u4'), pg.zeros(1, 'u4')\n" + OPEN["generator"].format(
        kind="trace", file=file) + "\nmodule.spin[1, 1](stop, done)\nstart = time.monotonic()\nheld.close()\n"
        "assert time.monotonic() - start < 20\nprint('closed')")
    assert result.stdout == "closed\n" and f"RuntimeWarning: The trace to '{file}' is not written yet" in result.stderr


def test_exit_says_that_a_recording_of_the_environments_is_without_what_goes_on(tmp_path):
    file = str(tmp_path / "run.json")
    body = "stop, done = pg.zeros(1, 'u4'), pg.zeros(1, 'u4')\n"
    assert run_child(body + "done.numpy()", environment={"PERGOLA_TRACE": file}).stderr == ""
    result = run_child(body + "module.spin[1, 1](stop, done)", environment={"PERGOLA_TRACE": file})
    assert "what goes on is left behind; without it is written: the trace that " \
           f"PERGOLA_TRACE={file} asked for.\n" in result.stderr
    assert "left behind.\n" in run_child(body + "module.spin[1, 1](stop, done)").stderr
    assert "left behind.\n" in run_child(body + "pg.task_pool().spawn(module.spin, 1, 1, stop, done)").stderr


@pytest.mark.parametrize("leave, status", [("sys.exit(5)", 5), ("pass", 0), ("raise ZeroDivisionError('its own')", 1)])
def test_a_forked_child_leaves_a_recording_with_its_own_status(leave, status, tmp_path):
    result = run_child(f"""
        import os
        x = pg.ones(4, "f4")
        child = 0
        with pg.trace({str(tmp_path / 'trace')!r}), pg.history({str(tmp_path / 'history')!r}):
            module.saxpy[4](1.0, x, x, 4)
            child = os.fork()
            if child == 0:
                {leave}
            else:
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if child == 0:
            os._exit(0)
    """)
    assert result.stdout == f"{status}\n" and "FailedPrecondition" not in result.stderr
    assert ("its own" in result.stderr) == (status == 1)
    assert [e["name"] for e in kernels(tmp_path / "trace")] == ["saxpy"]


def test_the_programs_end_writes_what_the_environment_asked_for(tmp_path):
    program = """
import pergola as pg
k = pg.kernel('.version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry k() { ret; }')
k[1, 32]()
"""
    environment = {**os.environ, "PERGOLA_TRACE": str(tmp_path / "run.json"), "PERGOLA_HISTORY": str(tmp_path / "h.json"),
                   "PERGOLA_DOT_FILE": str(tmp_path / "dag.dot")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
    assert len(kernels(tmp_path / "run.json")) == 1
    assert (tmp_path / "dag.dot").read_text().count("c1 [label=\"k") == 1
    assert "k" in next(iter(json.loads((tmp_path / "h.json").read_text())["devices"].values()))


@pytest.mark.skipif("PERGOLA_FAKE_NVTX" not in os.environ, reason="the fake tool is of builds with tests")
@pytest.mark.parametrize("environment, expected", [({}, True), ({"PERGOLA_NVTX": "1"}, True), ({"PERGOLA_NVTX": "0"}, False)])
def test_nvtx_ranges_are_of_what_is_submitted(environment, expected):
    tool = os.environ["PERGOLA_FAKE_NVTX"]
    run_child(f"""
        import ctypes
        log = ctypes.CDLL({tool!r}).fake_nvtx_log
        log.restype = ctypes.c_char_p
        x, y = pg.ones(4, "f4"), pg.zeros(4, "f4")
        log()
        module.saxpy[4](1.0, x, y, 4)
        y.fill(3)
        pg.call("gemm", lambda stream: None, reads=[x])
        told = log().decode()
        assert told == ("+saxpy;-;+fill;-;+gemm;-;" if {expected} else ""), told
    """, environment={"NVTX_INJECTION64_PATH": tool, **environment})


def test_nvtx_asked_for_without_a_tool_is_told():
    result = run_child("pg.ones(4).numpy()", environment={"PERGOLA_NVTX": "1", "NVTX_INJECTION64_PATH": "",
                                                          "LD_LIBRARY_PATH": ""})
    assert "no NVTX ranges" in result.stderr or os.path.exists("/usr/lib/x86_64-linux-gnu/libnvToolsExt.so.1")
    assert "NVTX" not in run_child("pg.ones(4).numpy()", environment={"NVTX_INJECTION64_PATH": ""}).stderr


def test_graphs_tell_what_recurred_and_in_which_way(tmp_path):
    session = pg.session("cpu", scheduler="graphs=always")
    saxpy = session.module(PTX).saxpy
    x, y = session.ones(N, "f4"), session.zeros(N, "f4")
    with session.trace(tmp_path / "run.json"):
        for _ in range(20):  # graphs are made beside these, and launched where this thread is quick enough
            for _ in range(200):
                saxpy[N](2.0, x, y, N)
            session.synchronize()
    told = session.graphs()
    assert told.off == "" and told.launches == 4000
    region = told.regions[0]
    assert region.number == 1 and region.kernels == {"saxpy": region.period}
    for graph in [graph for region in told.regions for graph in region.graphs]:
        assert graph.launches and bool(graph.refusal) == (graph.state == "refused")
        assert [way.name for way in graph.ways if way.state != "refused"] == (["plain"] if graph.made_after else [])
    assert "region 1: " in str(told) and "saxpy" in str(told)
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    graphs = [event for event in events if event.get("cat") == "graph"]
    for event in graphs:
        (kernel,) = event["args"]["kernels"]
        assert event["name"] == f"graph of {kernel['count']} launches ({event['args']['way']})"
    replaced = sum(event["args"]["kernels"][0]["count"] for event in graphs)
    assert replaced == sum(region.replaced for region in told.regions)
    assert len(kernels(tmp_path / "run.json")) + replaced == 4000
    assert y[0] == 8000


@pytest.mark.parametrize("fails", ["the program", "an argument", "a freed array"])
def test_an_exception_in_the_middle_of_a_region_loses_and_repeats_nothing(fails):
    session = pg.session("cpu", scheduler="graphs=always")
    saxpy = session.module(PTX).saxpy
    x, y, freed = session.ones(N, "f4"), session.zeros(N, "f4"), session.zeros(N, "f4")
    freed.free()

    def fail():
        if fails == "the program":
            raise KeyError("in the middle")
        saxpy[N](1.0, x, freed if fails == "a freed array" else "y", N)

    def turn(until=40):
        for _ in range(until):
            saxpy[N](1.0, x, y, N)
        if until < 40:
            fail()

    for _ in range(100):  # it is a region by now, of which launches are held back
        turn()
        session.synchronize()
    launched = 100 * 40
    for until in (0, 1, 17, 31, 39):
        with pytest.raises((KeyError, pg.ArgumentError, pg.Error)):
            turn(until)
        launched += until
        assert (y.numpy() == launched).all(), "what came before it has run, once"
        for _ in range(3):
            turn()
        launched += 3 * 40
    assert (y.numpy() == launched).all()
    assert session.graphs().regions[0].kernels == {"saxpy": session.graphs().regions[0].period}


@pytest.mark.parametrize("launches", [50, 112, 120, 200])
@pytest.mark.parametrize("reads", [lambda y: y[0], lambda y: y.numpy()], ids=["element", "array"])
def test_what_keeps_launches_bounded_disturbs_no_turn_that_is_waited_for(reads, launches):
    session = pg.session("cpu", scheduler="graphs=always")
    saxpy = session.module(PTX).saxpy
    x, y = session.ones(N, "f4"), session.zeros(N, "f4")

    def turns(count):
        for _ in range(count):
            for at in range(launches):
                saxpy[N](float(at % 7), x, y, N - at)
            reads(y)

    turns(40)
    before = sum(region.interrupted for region in session.graphs().regions)
    turns(40)
    assert sum(region.interrupted for region in session.graphs().regions) - before <= 2
    assert y[0] == 80 * sum(at % 7 for at in range(launches))


def test_graphs_say_when_there_are_none():
    with pg.session("cpu", scheduler="graphs=off"):
        assert "graphs=off" in pg.graphs().off and pg.graphs().regions == ()


def test_a_recording_may_be_used_again_and_decorates(saxpy, tmp_path):
    file = tmp_path / "run.json"
    trace = pg.trace(file)
    for launches in (1, 2):
        with trace:
            for _ in range(launches):
                launch_twice(saxpy)
        assert len(kernels(file)) == 2 * launches
    with trace:
        with pytest.raises(pg.FailedPrecondition, match="is on"):
            with trace:
                pass
        launch_twice(saxpy)
    assert len(kernels(file)) == 2
    file.unlink()
    trace(launch_twice)(saxpy)
    assert len(kernels(file)) == 2


def test_a_name_that_is_not_utf_8(saxpy, tmp_path):
    folder = os.fsencode(tmp_path)
    for name in (folder + b"/a\xff.json", os.fsdecode(folder + b"/b\xff.json")):
        with pg.trace(name), pg.history(os.fsencode(name) + b".history"):
            launch_twice(saxpy)
        assert os.path.getsize(name) and os.path.getsize(os.fsencode(name) + b".history")
    source = folder + b"/a\xff.ptx"
    with open(source, "w") as file:
        file.write(PTX)
    for name in (source, os.fsdecode(source)):
        assert "saxpy" in pg.load(name).names
    with pytest.raises(pg.Error, match=r"c\\xff.ptx"):
        pg.load(folder + b"/c\xff.ptx")
    with pytest.raises(pg.IoError, match=r"\\xff"):
        with pg.trace(folder + b"/none\xff/run.json"):
            pass
