"""Annotations: that the words they list are those that are taken, and what a type checker says, where there is one."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap
import typing

import pergola as pg
import pytest

PACKAGE = pathlib.Path(pg.__file__).parent


def words(function, parameter):
    """Of a Literal, or a name of one, in the annotations of a method."""
    module = sys.modules["pergola._array" if function is pg.Array.host or function is pg.Array.prefetch else "pergola._tasks"]
    annotation = eval(function.__annotations__[parameter], vars(module))  # noqa: S307
    return [word for part in (annotation, *typing.get_args(annotation)) for word in typing.get_args(part)
            if isinstance(word, str)]


def test_the_words_that_are_listed_are_taken(saxpy):
    x, pool = pg.ones(4), pg.task_pool()
    assert [x.host(word).shape for word in words(pg.Array.host, "access")] == [(4,)] * 3
    assert [x.prefetch(word) is x for word in words(pg.Array.prefetch, "to")] == [True] * 2
    for word in words(pg.TaskPool.prepare, "priority"):
        pool.prepare(saxpy, 1, 32, priority=word)
    from pergola import _session, _tasks

    assert set(typing.get_args(typing.get_args(_session.Language)[0])) == {"cuda", "ptx"} == set(_session._LANGUAGES) - {None}
    assert set(typing.get_args(typing.get_args(_tasks.Executor)[0])) == set(_tasks._EXECUTORS) - {None}


def test_a_kernels_info_is_what_its_type_says(saxpy):
    assert set(pg.KernelInfo.__annotations__) == set(saxpy.info)
    assert saxpy.info["static_shared_bytes"] + 1 == 1 and saxpy.info["universal_access"] == "none"


def test_a_type_checker_agrees(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    (tmp_path / "user.py").write_text(textwrap.dedent("""
        import numpy as np
        import pergola as pg
        a = pg.array([(1, 2.5)], [("a", "i4"), ("b", "f4")])
        print(np.from_dlpack(a).shape)
        kernel = pg.module("", language="ptx").f
        used: int = kernel.info["static_shared_bytes"] + kernel.info["required_block"][0]
        session: pg.Session = a.session
        kind = session.task_pool(executor="threads").prepare(kernel, 1, 1, priority="high")
        kind_kernel: pg.Kernel = kind.kernel
        with pg.trace(b"a"), session.history("b"):
            a.host("r")
        a.host("q")  # type: ignore[arg-type]
        kernel[4](a), kernel[2, 32](a), kernel[(2, 2), [8, 8]](a), kernel[np.int64(4)](a, shared_bytes=16)
        kernel["4"](a)  # type: ignore[index]
        pg.trace("c")(print)
    """))
    result = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "user.py"],
                            cwd=tmp_path, capture_output=True, text=True, timeout=300,
                            env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})
    assert result.returncode == 0, result.stdout + result.stderr
