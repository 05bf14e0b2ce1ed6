"""Sessions: where work is submitted, and the one that is used where none is named."""
from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Optional

from . import _call, _core, _interchange, _dtypes
from ._array import Array, _extents
from ._call import Stream
from ._dag import Dag
from ._graphs import Graphs
from ._kernel import Kernel, Module, only_kernel
from ._tasks import Executor, TaskPool, make_pool


Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def name_of(path: bytes) -> str:
    """A file's name in a message, which can be printed."""
    return path.decode(errors="backslashreplace")


class Device(NamedTuple):
    """A device, as its session sees it. Sizes in bytes."""

    id: str  # "cpu", "cuda:0"
    name: str
    driver: str
    compute_capability: tuple[int, int]
    sm_count: int
    warp_size: int
    max_threads_per_block: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    max_shared_bytes_per_block: int
    memory_bytes: int


Language = Optional[Literal["cuda", "ptx"]]
_LANGUAGES: dict[Any, int] = {None: 0, "cuda": 1, "ptx": 2}


def _language(name: Language) -> int:
    if name not in _LANGUAGES:
        raise ValueError(f"A language is 'cuda' or 'ptx', not {name!r}.")
    return _LANGUAGES[name]


def _flags(flags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(flags, (str, bytes)):
        raise TypeError(f"Flags are a sequence of strings, each one flag: flags=[{flags!r}].")
    return tuple(flags)


def _check_source(source: Any) -> None:
    """TypeError or InvalidArgument where a text of kernels is none, but a file's name, perhaps."""
    if isinstance(source, str):
        line = source.strip()
        if line.endswith((".cu", ".ptx")) and not any(each in line for each in "\n{};"):
            raise _core.InvalidArgument(f"A source is a text, and {source!r} looks like a file's name: pergola.load({source!r}) "
                                        "loads a file.")
    elif not isinstance(source, (bytes, bytearray, memoryview)):
        what = "a path: pergola.load(path) loads a file" if isinstance(source, os.PathLike) else _dtypes.short(source)
        raise TypeError(f"A source is a str, of CUDA C++ or PTX, and what is given is {what}.")


def _stream_number(stream: Any) -> int:
    if stream is None:
        raise TypeError("A stream is an object with __cuda_stream__, torch's or CuPy's, or a number; None is given.")
    return _interchange.stream_handle(stream)


class Session(_core.Session):
    """A device, and the work submitted to it, which gives the results of the order in which it was submitted.

    Thread-safe. Its arrays and modules keep it. `with session:` makes it the one that pergola.array() and so on use,
    in this thread or task."""

    __slots__ = ("__weakref__", "_info", "_left_on", "_recordings")
    _info: Device
    _recordings: dict[str, str]  # "trace", "history", "tuning": the file of the `with` that is on; guarded by _recordings_lock
    _left_on: set[str]  # those whose `with` Ctrl-C has ended before their work did

    @property
    def device(self) -> Device:
        """The device that it works on."""
        if not hasattr(self, "_info"):
            self._info = Device(**self._device())
        return self._info

    @property
    def _device_name(self) -> str:
        """Of repr(), which is also of use in a forked child."""
        try:
            return self.device.id
        except _core.FailedPrecondition:
            return "of the parent process"

    def dag(self) -> Dag:
        """The work submitted last, as a picture."""
        return Dag(self)

    def graphs(self) -> Graphs:
        """Which launches recurred and became graphs, since when and in which way, and why others did not; as text by str().
        Waits for nothing."""
        return Graphs(self)

    def trace(self, path: Path) -> Recording:
        """`with session.trace("run.json"):` records what is submitted within; its end waits for that and writes the file,
        which ui.perfetto.dev opens and `pergola trace` and `pergola explain` read. One at a time: FailedPrecondition. After
        Ctrl-C, and where a generator is closed within, the end waits for a second at most; where work goes on then, a warning says that nothing is written yet.
        `with` again writes the file anew."""
        return Recording(self, "trace", self._trace, path)

    def history(self, path: Path) -> Recording:
        """The same for kernels' times by size, which are added to what the file has."""
        return Recording(self, "history", self._history, path)

    def use_history(self, path: Path) -> None:
        """What an earlier run's history has of kernels is expected of them until they have been timed here. Records nothing."""
        self._use_history(os.fsencode(path))

    def tuning(self, path: Path) -> Recording:
        """`with session.tuning("tuning.json"):` in which way graphs of recurring launches ran fastest, kept from one program to
        the next: what the file has is made first instead of being found anew, and what is found within is added to it."""
        return Recording(self, "tuning", self._tuning, path)

    @contextlib.contextmanager
    def _record_to(self, kind: str, record: Callable[[Optional[bytes]], None], path: bytes) -> Iterator[None]:
        file = name_of(path)
        with _recordings_lock:
            if not hasattr(self, "_recordings"):
                self._recordings, self._left_on = {}, set()
            if kind in self._recordings:
                raise _core.FailedPrecondition(f"A {kind} to '{self._recordings[kind]}' is on, and a session has one at a "
                                               f"time: end it before that to '{file}'.")
            self._recordings[kind] = file
        try:
            if kind in self._left_on or os.environ.get(f"PERGOLA_{kind.upper()}"):
                record(None)  # by itself, as it can be interrupted
                self._left_on.discard(kind)
            record(path)
            is_patient = True
            try:
                yield
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                is_patient = False
                raise
            finally:
                self._end_recording(kind, record, file, is_patient)
        finally:
            del self._recordings[kind]

    def _end_recording(self, kind: str, record: Callable[[Optional[bytes]], None], file: str, is_patient: bool) -> None:
        """Waits as long as it takes, and where somebody wants to get away for a second, as the interpreter's end does."""
        if self._is_forked():  # the recording is the parent process's
            return
        if self._is_over() or not threading.main_thread().is_alive():  # by atexit, or in what goes as the interpreter ends
            self._finish_recording(kind)
            return
        is_left_on = True
        try:
            if not is_patient and kind != "tuning":
                self._wait_for_a_second()
            record(None)
            is_left_on = False
        except _core.Timeout:
            pass
        except _core.Error:
            is_left_on = False
            raise
        finally:
            if is_left_on:
                self._left_on.add(kind)
                warnings.warn(f"The {kind} to '{file}' is not written yet, as work that it records goes on: the session's "
                              f"next {kind}, or the program's end, writes it where that work has ended.", RuntimeWarning,
                              stacklevel=5)

    def _wait_for_a_second(self) -> None:
        """Timeout where work goes on then; what has failed has ended."""
        try:
            self.record().wait(timeout=1)
        except _core.Timeout:
            raise
        except _core.Error:
            pass

    # ── Kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def module(self, source: str, *, name: Optional[str] = None, language: Language = None,
               flags: Iterable[str] = ()) -> Module:
        """Compiles and loads CUDA C++ or PTX text. `name` is for messages, `flags` for the compiler ("-DN=4")."""
        _check_source(source)
        if isinstance(source, (bytearray, memoryview)):
            source = bytes(source)
        return Module(self, source, False, _language(language), name, _flags(flags))

    def kernel(self, source: str, kernel: Optional[str] = None, *, signature: Optional[str] = None,
               name: Optional[str] = None, language: Language = None, flags: Iterable[str] = ()) -> Kernel:
        """The kernel of a source text, which has one, or is told which. `signature` is that of Module.kernel()."""
        module = self.module(source, name=name, language=language, flags=flags)
        return only_kernel(self, module, signature) if kernel is None else module.kernel(kernel, signature)

    def load(self, path: Path, *, language: Language = None,
             flags: Iterable[str] = ()) -> Module:
        """Compiles and loads a file of CUDA C++ (.cu) or PTX (.ptx)."""
        return Module(self, os.fsencode(path), True, _language(language), None, _flags(flags))

    def task_pool(self, blocks: int = 0, park_after: Optional[float] = None,
                  executor: Executor = None, fences: bool = True, slices: bool = False) -> TaskPool:
        """The session's pool of narrow tasks: one, made by the first call, whose arguments count. `blocks` is how many
        are resident, or threads (0: as many as the device holds); without work for `park_after` seconds (None: 200
        microseconds) the resident kernel ends until the next task. `executor` is "resident", a resident kernel, or
        "threads", which the CPU device has; None: a resident kernel on a GPU, threads on the CPU device. With
        `fences` a task's wild access or trap on a resident kernel is its own failure; without, the device's. With
        `slices` traces have a slice for each task.
        Unsupported where the device cannot run it."""
        return make_pool(self, blocks, park_after, executor, fences, slices)

    # ── Other libraries ─────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, name: str, function: Callable[[Optional[Stream]], object], *, reads: Iterable[Array] = (),
             writes: Iterable[Array] = (), synchronous: bool = False) -> None:
        """A call of another library (cuBLAS, CuPy ...) as one piece of work, which uses the arrays as declared.

        `function(stream)` is called once, now, and queues the library's work on `stream`, a Stream that waits for what
        the work depends on. Without streams (on the device "cpu", and with synchronous=True for a library that takes
        none) that is waited for first, `stream` is None, and the work has been done when the function returns. What it
        raises comes out of here. It can launch, read and wait for nothing of this session (FailedPrecondition).
        `name` is for pictures and recordings: one for each kind of call."""
        _call.call(self, name, function, reads, writes, synchronous)

    def wait_stream(self, stream: Any) -> None:
        """Work submitted here from now on, and reads, come after what is on another library's stream now. Waits for narrow
        tasks that go on, and else for nothing.

        `stream` is of this GPU: torch.cuda.current_stream(), a CuPy stream, anything with __cuda_stream__, or a number
        (0 and 1 are the legacy default stream, 2 is this thread's). Unsupported on the device "cpu"."""
        self._wait_stream(_stream_number(stream))

    def make_stream_wait(self, stream: Any) -> None:
        """Later work on another library's stream comes after all that was submitted here. Waits as
        wait_stream() does."""
        self._make_stream_wait(_stream_number(stream))

    # ── Arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def array(self, source: Any, dtype: _dtypes.DTypeLike = None) -> Array:
        """A new array with a copy of `source`: a NumPy array, anything with the buffer protocol, a list, an Array.

        A `dtype` that does not hold a value (but for digits of a fraction) refuses it: OverflowError, TypeError."""
        return _interchange.array(self, source, dtype)

    def asarray(self, source: Any, *, stream: Any = None) -> Array:
        """`source` where it is an array of this session; its memory, held, where it lies on the same GPU (by
        __cuda_array_interface__ or DLPack); else a copy. `stream` (an int, or with __cuda_stream__) is what makes it, -1: nothing
        is to be waited for. Of memory that lies in an array of the session, a view of that array."""
        return _interchange.asarray(self, source, stream)

    def from_dlpack(self, source: Any, *, copy: Optional[bool] = None) -> Array:
        """The memory of an array of another library on the same GPU, or a copy of one in the host's memory; of memory that lies in
        an array of the session, a view of that array.

        copy=True always copies; copy=False raises BufferError where it would have to."""
        return _interchange.from_dlpack(self, source, copy)

    def empty(self, shape: Any, dtype: _dtypes.DTypeLike = None) -> Array:
        """A new array, uninitialised. The default dtype is NumPy's, float64."""
        return Array._make(self, _extents(shape), _dtypes.element_type(dtype))

    def full(self, shape: Any, value: Any, dtype: _dtypes.DTypeLike = None) -> Array:
        """A new array with every element `value`; the dtype is the value's unless it is given."""
        if dtype is None:
            dtype = type(value) if isinstance(value, (bool, int, float, complex)) else getattr(value, "dtype", None)
        return self.empty(shape, dtype).fill(value)

    def zeros(self, shape: Any, dtype: _dtypes.DTypeLike = None) -> Array:
        """A new array of zeros."""
        element = _dtypes.element_type(dtype)
        result = Array._make(self, _extents(shape), element)
        if result.size:
            result._fill(bytes(element.itemsize))
        return result

    def ones(self, shape: Any, dtype: _dtypes.DTypeLike = None) -> Array:
        """A new array of ones."""
        return self.empty(shape, dtype).fill(1)

    # ── The one in use ──────────────────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Session:
        _in_use.set((*_in_use.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        # Not always the last: a generator may have left its own on.
        stack = list(_in_use.get())
        for place in reversed(range(len(stack))):
            if stack[place] is self:
                del stack[place]
                break
        _in_use.set(tuple(stack))

    def __repr__(self) -> str:
        try:
            return f"<pergola.Session on {self.device.id} ({self.device.name})>"
        except _core.FailedPrecondition:
            return f"<pergola.Session {self._device_name}>"


class Recording(contextlib.ContextDecorator):
    """What trace(), history() and tuning() give: `with` records to its file, each time anew; `@` does so of a function's calls."""

    __slots__ = ("_begin", "_what", "_on")

    def __init__(self, session: Session, kind: str, record: Callable[[Optional[bytes]], None], path: Path) -> None:
        file = os.fsencode(path)
        self._begin: Callable[[], contextlib.AbstractContextManager[None]] = lambda: session._record_to(kind, record, file)
        self._what = f"<pergola: a {kind} of {session!r} to '{name_of(file)}'>"
        self._on: Optional[contextlib.AbstractContextManager[None]] = None

    def __enter__(self) -> None:
        begun = self._begin()
        begun.__enter__()  # a second one meanwhile it refuses
        self._on = begun

    def __exit__(self, *raised: Any) -> Optional[bool]:
        on, self._on = self._on, None
        return None if on is None else on.__exit__(*raised)

    def __repr__(self) -> str:
        return self._what


# Those of `with session:`, the innermost last. Immutable, so that each thread and task of asyncio has its own.
_in_use: contextvars.ContextVar[tuple[Session, ...]] = contextvars.ContextVar("pergola_sessions", default=())
_recordings_lock = threading.Lock()
_default: Optional[Session] = None
_default_lock = threading.Lock()


def current() -> Session:
    """The session of the innermost `with session:`, else the process's own, opened when it is first needed."""
    global _default
    stack = _in_use.get()
    session = stack[-1] if stack else _default
    if session is not None:
        return session
    with _default_lock:
        if _default is None:
            _default = Session()
        return _default
