"""What sessions, kernels, events, tasks and the like do as Python's objects: repr, copies, weak references, pickling."""
import copy
import gc
import pickle
import weakref

import pergola as pg
import pytest
from conftest import PTX


@pytest.fixture
def handles(module, saxpy):
    session = pg.session()
    x = pg.ones(4, "f4")
    pool = session.task_pool()
    kind = pool.prepare(saxpy, 1, 32)
    task = kind(1.0, x, x, 4)
    task.wait()
    return {"session": session, "module": module, "kernel": saxpy, "launcher": saxpy[4, 32], "event": session.record(),
            "pool": pool, "kind": kind, "task": task}


def test_a_copy_of_a_handle_is_the_handle(handles):
    for name, handle in handles.items():
        assert copy.copy(handle) is handle and copy.deepcopy({"a": [handle]})["a"][0] is handle, name


def test_a_handle_is_not_pickled_and_says_so(handles):
    for name, handle in handles.items():
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match=f"A {type(handle).__name__} is a handle of this process"):
                pickle.dumps(handle, protocol)
    assert pickle.loads(pickle.dumps(pg.device())) == pg.device(), "values are"


def test_handles_have_weak_references(handles):
    for name in ("session", "module", "kernel", "event", "task"):
        assert weakref.ref(handles[name])() is handles[name], name
    gone = []
    event = pg.record()
    weakref.finalize(event, gone.append, "event")
    module = pg.module(PTX)
    weakref.finalize(module, gone.append, "module")
    session = pg.session(device="cpu")
    weakref.finalize(session, gone.append, "session")
    del event, module, session
    gc.collect()
    assert gone == ["event", "module", "session"]
    assert len(weakref.WeakKeyDictionary({handles["task"]: 1})) == 1


def test_repr_says_what_it_is(handles):
    assert repr(handles["launcher"]) == f"<pergola.Launcher of {handles['kernel']!r}, grid (4, 1, 1), block (32, 1, 1)>"
    event = handles["event"]
    event.wait()
    assert repr(event) == f"<pergola.Event of {pg.session()!r}: done>"
    with pg.session(device="cpu") as session:
        x = pg.ones(4)
        y = x.copy()
        assert repr(pg.dag()) == "<pergola.Dag of 2 pieces of work and 1 dependency: dot() and mermaid() are its text>"
        assert repr(pg.graphs()).startswith("<pergola.Graphs of 0 launches")
        assert "run.json" in repr(pg.trace("run.json")) and "trace" in repr(session.trace(b"run.json"))
    with pg.session(device="cpu", scheduler="graphs=off"):
        assert "graphs=off" in repr(pg.graphs())
    del y


def test_public_names_are_of_the_package():
    for name in pg.__all__:
        assert getattr(pg, name).__module__ == "pergola", name
    assert repr(pg.Array) == "<class 'pergola.Array'>"
