"""Pergola: GPU kernels, on a GPU or without one.

    import numpy as np, pergola as pg
    saxpy = pg.kernel('''extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] += a * x[i]; }''')
    x = pg.array(np.ones(1 << 20, "f4")); y = pg.zeros_like(x)
    saxpy[x.size](2.0, x, y, x.size)      # queued; or saxpy[grid, block](...)
    print(y.numpy()[:4])                  # waits

The environment's PERGOLA_DEVICE ("cpu", "cuda:0") chooses the device; without it the first GPU that works, else the CPU.
Work gives the results of the order in which it was submitted; what does not conflict may overlap. Only reading an array
and synchronize() wait. What a kernel does wrong while it runs is raised by the next call that waits for it, and
synchronize() clears it. Everything may be used from any
thread. NumPy is used where it is installed and is not needed for `import pergola`.
"""
from __future__ import annotations

import atexit as _atexit
from collections.abc import Callable as _Callable
from collections.abc import Iterable as _Iterable
from typing import Any as _Any
from typing import Optional as _Optional

from . import _core
from . import _session
from ._core import (ArgumentError, CallFailed, CompileError, DeviceFault, DeviceLost, Error, Event, FailedPrecondition, InternalError,
                    InvalidArgument, IoError, Launcher, NotFound, OutOfMemory, ParseError, Skipped, Timeout, Unavailable,
                    Unsupported)
from ._array import Array
from ._call import Stream
from ._dag import Dag
from ._graphs import Graph, Graphs, Region, Way
from ._dtypes import DTypeLike as _DTypeLike
from ._kernel import Kernel, KernelInfo, Module, Parameter
from ._session import Device, Session
from ._session import Language as _Language
from ._session import Path as _Path
from ._session import Recording as _Recording
from ._tasks import Executor as _Executor
from ._tasks import Task, TaskKind, TaskPool, TaskPoolInfo, as_completed

__version__: str = _core.version

__all__ = [
    "ArgumentError", "Array", "CallFailed", "CompileError", "Dag", "Device", "DeviceFault", "DeviceLost", "Error", "Event",
    "FailedPrecondition", "Graph", "Graphs", "InternalError", "InvalidArgument", "IoError", "Kernel", "KernelInfo", "Launcher", "Module", "NotFound",
    "OutOfMemory", "Parameter", "ParseError", "Region", "Session", "Skipped", "Stream", "Task", "TaskKind", "TaskPool",
    "TaskPoolInfo", "Timeout", "Unavailable", "Way",
    "Unsupported", "array", "as_completed", "asarray", "call", "dag", "device", "empty", "empty_like", "from_dlpack", "full", "full_like", "graphs",
    "history", "kernel", "launch", "load", "make_stream_wait", "module", "ones", "ones_like",
    "record", "session", "synchronize", "task_pool", "trace", "tuning", "use_history", "wait_stream", "zeros", "zeros_like"]


def session(device: _Optional[str] = None, *, scheduler: _Optional[str] = None) -> Session:
    """The session in use; with a device ("cpu", "cuda:1") or scheduling policies ("dependency=no-const,max-streams=4"), a
    new one, to be used by `with` or by its methods."""
    return _session.current() if device is None and scheduler is None else Session(device, scheduler)


def dag() -> Dag:
    """The work submitted last to the session in use, as a picture: .dot(), .mermaid(), and as it is in a notebook."""
    return _session.current().dag()


def graphs() -> Graphs:
    """Which launches of the session in use became graphs, in which way, and why others did not: print() it."""
    return _session.current().graphs()


def trace(path: _Path) -> _Recording:
    """`with pergola.trace("run.json"):` records what is submitted within to the session in use, for ui.perfetto.dev."""
    return _session.current().trace(path)


def history(path: _Path) -> _Recording:
    """`with pergola.history("kernels.json"):` adds how long kernels take within, by size, to what the file has."""
    return _session.current().history(path)


def use_history(path: _Path) -> None:
    """The session in use expects of kernels what an earlier run's history has of them, until they have been timed."""
    _session.current().use_history(path)


def tuning(path: _Path) -> _Recording:
    """`with pergola.tuning("tuning.json"):` in which way graphs of recurring launches ran fastest, kept from one program to the
    next: what the file has is made first instead of being found anew, and what is found within is added to it."""
    return _session.current().tuning(path)


def device() -> Device:
    """The device of the session in use."""
    return _session.current().device


def synchronize() -> None:
    """Waits for all work of the session in use; raises its first failure since the last time."""
    _session.current().synchronize()


def record() -> Event:
    """An event at the end of all launches, fills and copies of the session in use so far; tasks are awaited by themselves."""
    return _session.current().record()


def kernel(source: str, kernel: _Optional[str] = None, *, signature: _Optional[str] = None,
           name: _Optional[str] = None, language: _Language = None, flags: _Iterable[str] = ()) -> Kernel:
    """The kernel of a source text (CUDA C++ or PTX), which has one, or is told which. `signature` is that of
    Module.kernel()."""
    return _session.current().kernel(source, kernel, signature=signature, name=name, language=language, flags=flags)


def module(source: str, *, name: _Optional[str] = None, language: _Language = None,
           flags: _Iterable[str] = ()) -> Module:
    """The kernels of a source text."""
    return _session.current().module(source, name=name, language=language, flags=flags)


def load(path: _Path, *, language: _Language = None, flags: _Iterable[str] = ()) -> Module:
    """The kernels of a file of CUDA C++ (.cu) or PTX (.ptx)."""
    return _session.current().load(path, language=language, flags=flags)


def launch(kernel: Kernel, grid: _Any, block: _Any, args: _Iterable[_Any], *, shared_bytes: int = 0,
           cooperative: bool = False) -> None:
    """As kernel[grid, block](*args, ...)."""
    _core.launch(kernel, grid, block, args, shared_bytes, cooperative)


def call(name: str, function: _Callable[[_Optional[Stream]], object], *, reads: _Iterable[Array] = (),
         writes: _Iterable[Array] = (), synchronous: bool = False) -> None:
    """A call of another library as one piece of work of the session in use: Session.call()."""
    _session.current().call(name, function, reads=reads, writes=writes, synchronous=synchronous)


def task_pool(blocks: int = 0, park_after: _Optional[float] = None,
              executor: _Executor = None, fences: bool = True, slices: bool = False) -> TaskPool:
    """The pool of narrow tasks of the session in use: Session.task_pool()."""
    return _session.current().task_pool(blocks, park_after, executor, fences, slices)


def wait_stream(stream: _Any) -> None:
    """Work submitted to the session in use from now on comes after what is on another library's stream now."""
    _session.current().wait_stream(stream)


def make_stream_wait(stream: _Any) -> None:
    """Later work on another library's stream comes after all that was submitted to the session in use."""
    _session.current().make_stream_wait(stream)


def array(source: _Any, dtype: _DTypeLike = None) -> Array:
    """A new array with a copy of `source`: a NumPy array, anything with the buffer protocol, a list, an Array.

    A `dtype` that does not hold a value (but for digits of a fraction) refuses it: OverflowError, TypeError."""
    return _session.current().array(source, dtype)


def asarray(source: _Any, *, stream: _Any = None) -> Array:
    """`source` where it is an array of the session in use; its memory, held, where it lies on the same GPU (by
    __cuda_array_interface__ or DLPack); else a copy. `stream` (an int, or with __cuda_stream__) is what makes it, -1: nothing
    is to be waited for. Of memory that lies in an array of the session, a view of that array."""
    return _session.current().asarray(source, stream=stream)


def from_dlpack(source: _Any, *, copy: _Optional[bool] = None) -> Array:
    """The memory of an array of another library on the same GPU, or a copy of one in the host's memory; of memory that lies in
    an array of the session, a view of that array.

    copy=True always copies; copy=False raises BufferError where it would have to."""
    return _session.current().from_dlpack(source, copy=copy)


def empty(shape: _Any, dtype: _DTypeLike = None) -> Array:
    """A new array, uninitialised. The default dtype is NumPy's, float64."""
    return _session.current().empty(shape, dtype)


def zeros(shape: _Any, dtype: _DTypeLike = None) -> Array:
    """A new array of zeros. The default dtype is NumPy's, float64."""
    return _session.current().zeros(shape, dtype)


def ones(shape: _Any, dtype: _DTypeLike = None) -> Array:
    """A new array of ones. The default dtype is NumPy's, float64."""
    return _session.current().ones(shape, dtype)


def full(shape: _Any, value: _Any, dtype: _DTypeLike = None) -> Array:
    """A new array with every element `value`; the dtype is the value's unless it is given."""
    return _session.current().full(shape, value, dtype)


def _like(other: _Any, what: str) -> tuple[Session, tuple[int, ...], _Any]:
    if isinstance(other, Array):
        return other.session, other.shape, other._element
    if not hasattr(other, "shape") or not hasattr(other, "dtype"):
        raise TypeError(f"{what}() takes an array, whose shape and dtype the new one has, and a {type(other).__name__} has none: "
                        f"pergola.{what[:-len('_like')]}(shape, ...) takes a shape, pergola.array(x) makes an array.")
    return _session.current(), tuple(other.shape), other.dtype


def empty_like(other: _Any, dtype: _DTypeLike = None) -> Array:
    """As empty(), with the shape and dtype, and in the session, of another array."""
    where, shape, same = _like(other, "empty_like")
    return where.empty(shape, same if dtype is None else dtype)


def zeros_like(other: _Any, dtype: _DTypeLike = None) -> Array:
    """As zeros(), with the shape and dtype, and in the session, of another array."""
    where, shape, same = _like(other, "zeros_like")
    return where.zeros(shape, same if dtype is None else dtype)


def ones_like(other: _Any, dtype: _DTypeLike = None) -> Array:
    """As ones(), with the shape and dtype, and in the session, of another array."""
    where, shape, same = _like(other, "ones_like")
    return where.ones(shape, same if dtype is None else dtype)


def full_like(other: _Any, value: _Any, dtype: _DTypeLike = None) -> Array:
    """As full(), with the shape and dtype, and in the session, of another array."""
    where, shape, same = _like(other, "full_like")
    return where.full(shape, value, same if dtype is None else dtype)


for _name in __all__:  # where they are to be found, not where they are written
    if globals()[_name].__module__ != __name__:
        globals()[_name].__module__ = __name__

_atexit.register(_core.end)
