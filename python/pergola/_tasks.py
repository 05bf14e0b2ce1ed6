"""Narrow tasks: a session's pool, and tasks that threads and coroutines wait for."""
from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional

from . import _core, _dtypes
from ._kernel import Kernel

if TYPE_CHECKING:
    from ._session import Session


class Task(_core.Task):
    """A task that was spawned. `wait()` waits for it, `await task` lets the event loop run meanwhile; both raise what it
    failed with. It may be dropped at any time: it is run all the same."""

    __slots__ = ("__weakref__",)

    @property
    def pool(self) -> TaskPool:
        """The pool that it was spawned to."""
        return _pool_of(self.session)

    def __await__(self) -> Generator[Any, None, None]:
        if not self.done():
            yield from _watcher.future(self).__await__()
        self.wait()

    def __repr__(self) -> str:
        return f"<pergola.Task {self.id:#x}>"


class TaskKind(_core.TaskKind):
    """A kernel with a shape, ready to be spawned: `task = kind(arguments)`, which are those of a launch.

    A call lets other threads of Python run, for it waits where too many tasks are under way, and for earlier work on the
    arrays; Ctrl-C is seen once it returns."""

    __slots__ = ()

    @property
    def pool(self) -> TaskPool:
        """The pool that it spawns to."""
        return _pool_of(self.session)

    if TYPE_CHECKING:
        def __call__(self, *args: Any) -> Task: ...

    @property
    def on_device(self) -> int:
        """What stands for the kind on the device: an argument (64 bits) of kernels that spawn tasks of it while they run
        as tasks (`#include <pergola/device/tasks.h>`). Unsupported where the kernel has more than 48 bytes of
        parameters. A task is done when all that it has spawned, and they, are done."""
        return self._on_device()

    def spawn_each(self, *args: Any) -> list[Task]:
        """Many tasks at once, in a fraction of the time of a call each. Arguments are those of a launch; what is a
        sequence of numbers (a list, a range, a NumPy array of one dimension) has one for each task, the others are the
        same for all: `tile.spawn_each(image, range(tiles), width)`. Checked, and ordered with the session's other work,
        as calls are. It waits as calls do; other threads run meanwhile, and Ctrl-C is seen every 4,096 tasks. Where an
        error is raised while it spawns, some have been, and go on. An array of numbers is read until it returns."""
        for arg in args:
            _dtypes.refuse_mask(arg)
        return self._spawn_each(*args)

    def __repr__(self) -> str:
        return f"<pergola.TaskKind of {self.kernel!r}>"


class TaskPoolInfo(NamedTuple):
    """What a pool has done, and what it runs on."""

    blocks: int  # of the resident kernel; else threads, and what is said of the kernel is 0
    registers_per_thread: int  # of it, with all kinds so far; 0 before the first launch
    local_bytes_per_thread: int  # what it spills, and the kernels' own local memory
    most_threads: int  # of a block of a task
    most_shared_bytes: int  # of a block of a task
    memory_bytes: int  # of the pool, on host and device
    launches: int  # of the resident kernel: the first, after parking, for new kinds
    spawned: int  # by the host; those in `held` come to it when they are spawned
    spawned_by_tasks: int  # of a resident kernel: as it was when it last parked
    is_running: bool  # the resident kernel is on the device now
    held: int  # tasks that wait, on the host, for ordinary work before them
    streams_wait: bool  # for tasks; else the host does before it launches what comes after some


def _extents(shape: Any) -> Any:
    return tuple(shape) if isinstance(shape, list) else shape


class TaskPool(_core.TaskPool):
    """A session's pool of narrow tasks: launches of a few warps that together fill the device. session.task_pool() makes
    it; all objects of one session are the same pool.

    A task comes after the session's work so far on the arrays it is given, and the session's later work on an array,
    numpy() too, after all tasks that were given it. Tasks are in no order with each other. Thread-safe.

    `with session.task_pool() as pool:` waits for its tasks at the end, and parks it."""

    __slots__ = ("_kinds",)
    _kinds: dict[tuple[Any, ...], TaskKind]

    def prepare(self, kernel: Kernel, grid: Any, block: Any, *, shared_bytes: int = 0,
                priority: Literal["normal", "high"] = "normal") -> TaskKind:
        """Compiles while tasks run; those under way end then, others may be spawned. The same kernel and shape again are
        ready at once. Unsupported says where and why a kernel cannot be a task (docs/tasks.md). Tasks of `priority`
        "high" go first where several wait: on the host for room, on the CPU device for a thread too."""
        _check_options(shared_bytes, priority)
        if not isinstance(kernel, Kernel):
            raise TypeError(f"prepare() takes a kernel, its grid and its block; {_dtypes.short(kernel)} is no kernel.")
        return TaskKind(self, kernel, grid, block, shared_bytes, priority == "high", Task)

    def add_kernels(self, *kernels: Kernel) -> None:
        """Compiles what prepare() would for the first shape of each, together, in about the time of one: all, or none.
        `pool.add_kernels(module.tile, module.edge)`"""
        for kernel in kernels:
            if not isinstance(kernel, Kernel):
                raise TypeError(f"add_kernels() takes kernels; {_dtypes.short(kernel)} is none.")
        self._add_kernels(*kernels)

    def spawn(self, kernel: Kernel, grid: Any, block: Any, *args: Any, shared_bytes: int = 0,
              priority: Literal["normal", "high"] = "normal") -> Task:
        """As prepare(kernel, grid, block)(*args); the kind is kept for the next time."""
        if not hasattr(self, "_kinds"):
            self._kinds = {}
        key = (kernel, _extents(grid), _extents(block), shared_bytes, priority)
        try:
            kind = self._kinds.get(key)
        except TypeError:  # it has no hash
            _check_options(shared_bytes, priority)
            raise TypeError("spawn() takes the kernel, its grid and its block, and after them the kernel's arguments: "
                            f"pool.spawn(kernel, grid, block, ...); the grid is {_dtypes.short(grid)}, the block "
                            f"{_dtypes.short(block)}.") from None
        if kind is None:
            kind = self._kinds[key] = self.prepare(kernel, grid, block, shared_bytes=shared_bytes,
                                                    priority=priority)
        return kind(*args)

    @property
    def info(self) -> TaskPoolInfo:
        """What it has done so far, and what it runs on."""
        return TaskPoolInfo(**self._info())

    def __enter__(self) -> TaskPool:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        if kind is None:
            self.wait_all()
            self.park()

    def __repr__(self) -> str:
        return f"<pergola.TaskPool of {self.session!r}>"


def _check_options(shared_bytes: Any, priority: Any) -> None:
    if priority not in ("normal", "high"):
        raise ValueError(f"priority is 'normal' or 'high'; it is {priority!r}.")
    if not hasattr(shared_bytes, "__index__"):
        raise TypeError(f"shared_bytes is a number of bytes; it is {_dtypes.short(shared_bytes)}.")


def _pool_of(session: Session) -> TaskPool:
    """A session's pool where there is one: its first call's arguments count."""
    return TaskPool(session, 0, 0, 0, True, False)


Executor = Optional[Literal["resident", "threads"]]
_EXECUTORS: dict[Any, int] = {None: 0, "resident": 1, "threads": 2}


def make_pool(session: Session, blocks: int, park_after: Optional[float], executor: Executor,
              fences: bool, slices: bool) -> TaskPool:
    """Session.task_pool()."""
    number = _EXECUTORS.get(executor) if executor is None or isinstance(executor, str) else None
    if number is None:
        raise ValueError(f"executor is 'resident', 'threads' or None; it is {executor!r}.")
    if park_after is None:
        return TaskPool(session, blocks, 0, number, fences, slices)
    if not hasattr(park_after, "__float__") or not 0 < park_after < 9e9:
        raise ValueError(f"park_after is a number of seconds above 0, or None; it is {park_after!r}.")
    return TaskPool(session, blocks, math.ceil(park_after * 1e9), number, fences, slices)


def as_completed(tasks: Iterable[Task], timeout: Optional[float] = None) -> Iterator[Task]:
    """The tasks, each as soon as it has ended, well or not: its wait() says which. Timeout where the next has not ended
    `timeout` seconds after this was called."""
    try:
        given = iter(tasks)
    except TypeError:
        raise TypeError(f"as_completed() takes a sequence of tasks; {_dtypes.short(tasks)} is given.") from None
    pending: dict[Task, None] = {}
    for each in given:
        if not isinstance(each, Task):
            raise TypeError(f"as_completed() takes a sequence of tasks, and there is {_dtypes.short(each)} in it.")
        pending[each] = None
    wait_ns = _core.timeout_ns(timeout)
    end = None if wait_ns < 0 else time.monotonic() + wait_ns * 1e-9
    return _as_completed(pending, end)


def _as_completed(pending: dict[Task, None], end: Optional[float]) -> Iterator[Task]:
    while pending:
        left = -1 if end is None else max(0, math.ceil((end - time.monotonic()) * 1e9))
        ended = _core.wait_any(list(pending), left)
        if not ended:
            raise _core.Timeout(f"The time to wait is over, and {_dtypes.plural(len(pending), 'task')} "
                                f"{'goes' if len(pending) == 1 else 'go'} on.")
        for task in ended:
            del pending[task]
        yield from ended


class _Watcher:
    """Waits for what coroutines await: one thread for all pools and event loops, which sleeps while nothing is awaited and
    holds nothing then."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._futures: dict[Task, list[asyncio.Future[None]]] = {}  # guarded by _changed
        self._has_thread = False  # likewise

    def future(self, task: Task) -> asyncio.Future[None]:
        """One that ends with the task, in the running event loop."""
        future = asyncio.get_running_loop().create_future()
        with self._changed:
            if not self._has_thread:
                threading.Thread(target=self._run, name="pergola tasks", daemon=True).start()
                self._has_thread = True
            self._futures.setdefault(task, []).append(future)
            self._changed.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._futures)
                pending = list(self._futures)
            try:
                ended = _core.wait_any(pending, 5_000_000)  # then those that were added meanwhile are among them
            except Exception:  # memory is short, say: those that have ended, or raise it themselves, are told
                ended = [task for task in pending if _is_over(task)]
                if not ended:
                    time.sleep(0.005)
            self._tell(pending, ended)

    def _tell(self, pending: list[Task], ended: list[Task]) -> None:
        """Empties both. The last reference to a task may be its session's, whose end waits for what goes on: it is not
        this thread that lets go of it."""
        loops: dict[asyncio.AbstractEventLoop, list[tuple[Task, asyncio.Future[None]]]] = {}
        with self._changed:
            for task in ended:
                for future in self._futures.pop(task):
                    loops.setdefault(future.get_loop(), []).append((task, future))
            left = [task for task, futures in self._futures.items() if all(f.done() for f in futures)]  # cancelled
            for task in left:
                del self._futures[task]
        task = future = None  # type: ignore[assignment]
        pending.clear()
        ended.clear()
        for loop, told in loops.items():
            try:
                loop.call_soon_threadsafe(_end, told)
            except Exception:  # the loop was closed, or is of another kind: that is its own affair
                left.extend(task for task, _ in told)
                told.clear()
        if left:
            try:
                threading.Thread(target=left.clear, name="pergola tasks that nobody awaits", daemon=True).start()
            except RuntimeError:
                left.clear()  # the interpreter ends


def _is_over(task: Task) -> bool:
    try:
        return task.done()
    except Exception:  # its wait raises it, too
        return True


def _end(told: list[tuple[Task, asyncio.Future[None]]]) -> None:
    for _, future in told:
        if not future.done():
            future.set_result(None)
    told.clear()  # here, and not where it was told


_watcher = _Watcher()
