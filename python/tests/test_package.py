"""What is promised of the package: its names, its stubs, its exceptions."""
import ast
import inspect
import pathlib
import re

import pergola as pg
import pytest
from conftest import PTX

PACKAGE = pathlib.Path(pg.__file__).parent


def names_of(tree):
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id, node


def test_the_stub_says_what_the_extension_has():
    stub = dict(names_of(ast.parse((PACKAGE / "_core.pyi").read_text())))
    assert set(stub) == {name for name in dir(pg._core) if not name.startswith("__")}
    for name, node in stub.items():
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(pg._core, name), Exception):
            described = {n for n, _ in names_of(node) if not n.startswith("__")}
            assert described == {n for n in vars(getattr(pg._core, name)) if not n.startswith("__")}, name
        elif isinstance(node, ast.ClassDef):
            assert [base.id for base in node.bases] == [base.__name__ for base in getattr(pg._core, name).__bases__]


@pytest.mark.parametrize("make, instead", [
    (lambda: pg.Array(), "pergola.array(x), empty(shape)"), (lambda: pg.Array((3,), "f4"), "pergola.array(x)"),
    (lambda: pg.Array(pg.ones(3)), "pergola.array(x)"), (lambda: pg.Array(pg.session(), 3), "pergola.array(x)"),
    (lambda: pg.Module("source"), "pergola.module(source), pergola.load(path)"), (lambda: pg.Kernel("source"), "pergola.kernel(source)"),
    (lambda: pg.TaskPool(), "pergola.task_pool()"), (lambda: pg.TaskPool(pg.session()), "pergola.task_pool()"), (lambda: pg.TaskKind(3), "pool.prepare(kernel, grid, block)")])
def test_a_class_that_is_not_to_be_called_says_what_is(make, instead):
    with pytest.raises(TypeError, match="is not made by calling its class, but by " + re.escape(instead)):
        make()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_source_may_be_bytes_of_any_kind(kind):
    assert pg.module(kind(PTX.encode()))["saxpy"].name == "saxpy"


def test_messages_name_no_private_functions():
    module = pg.module(PTX)
    for wrong, says in ((lambda: module[3], "A kernel's name is a str; 3 is given"),
                        (lambda: module.kernel("saxpy", 3), "A signature is a str or None; 3 is given"),
                        (lambda: pg.Session(3), "A session's device is a str or None; 3 is given"),
                        (lambda: pg.task_pool().prepare(3, 1, 1), r"prepare\(\) takes a kernel, .*; 3 is no kernel"),
                        (lambda: pg.as_completed(3), r"as_completed\(\) takes a sequence of tasks; 3 is given"),
                        (lambda: pg.session().record().wait("x"), "A timeout is a number of seconds or None; 'x' is given")):
        with pytest.raises(TypeError, match=says):
            wrong()


def test_it_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_all_is_all():
    public = {name for name in vars(pg) if not name.startswith("_") and name != "annotations"}
    assert public == set(pg.__all__)


@pytest.mark.parametrize("name", [n for n in pg.__all__ if isinstance(getattr(pg, n), type)
                                  and issubclass(getattr(pg, n), Exception)])
def test_every_exception_is_an_error_with_a_doc(name):
    exception = getattr(pg, name)
    assert issubclass(exception, pg.Error) and exception.__doc__ and exception.__module__ == "pergola"


def test_everything_public_says_what_it_is_and_takes():
    for name in pg.__all__:
        thing = getattr(pg, name)
        assert thing.__doc__, name
        if not isinstance(thing, type) or issubclass(thing, BaseException):
            continue
        for base in (base for base in thing.__mro__ if base.__module__.startswith("pergola")):
            for attribute, value in vars(base).items():
                if attribute.startswith("_") or attribute in getattr(base, "__slots__", ()):  # those are described in the source
                    continue
                assert getattr(thing, attribute).__doc__, f"{name}.{attribute}"
                if callable(getattr(thing, attribute)):
                    inspect.signature(getattr(thing, attribute))


def test_every_function_and_method_of_the_package_has_a_type_of_its_result():
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.returns is not None, f"{path.name}: {node.name}"


def test_device():
    device = pg.device()
    assert device.warp_size == 32 and device.max_threads_per_block == 1024 and device.memory_bytes > 0
    assert device.id == pg.session().device.id and repr(pg.session()).startswith(f"<pergola.Session on {device.id}")
