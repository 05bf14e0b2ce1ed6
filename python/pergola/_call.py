"""Calls of other libraries as pieces of a session's work, and the stream that they are given."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Optional

from . import _dtypes
from ._array import Array

if TYPE_CHECKING:
    from ._session import Session


class Stream:
    """A session's CUDA stream, for another library: by `__cuda_stream__` (cuda.core), or by its number, `handle`
    (cupy.cuda.ExternalStream(stream.handle), torch.cuda.ExternalStream(stream.handle), cublasSetStream).

    It is for the function of one Session.call(): what is queued on it later is in no order with the session's work.
    It keeps the session, and so the stream, alive."""

    __slots__ = ("_handle", "_session")

    def __init__(self, session: Session, handle: int) -> None:
        self._session, self._handle = session, handle

    @property
    def handle(self) -> int:
        """The CUstream (or cudaStream_t) as a number."""
        return self._handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle

    def __repr__(self) -> str:
        return f"<pergola.Stream {self._handle:#x} of {self._session.device.id}>"


def _arrays(given: Any, what: str) -> list[Array]:
    try:
        arrays = [given] if isinstance(given, Array) else list(given)
    except TypeError:
        raise TypeError(f"{what} is an Array or a sequence of some; {_dtypes.short(given)} is given.") from None
    for each in arrays:
        if not isinstance(each, Array):
            raise TypeError(f"{what} has Arrays; a {type(each).__name__} is none: pergola.asarray(x) makes one.")
    return arrays


def call(session: Session, name: str, function: Callable[[Optional[Stream]], object], reads: Iterable[Array],
         writes: Iterable[Array], synchronous: bool) -> None:
    """Session.call()."""
    if not isinstance(name, str):
        raise TypeError(f"call() takes a name for pictures and recordings first, a str; {_dtypes.short(name)} is given: "
                        "call(\"gemm\", function).")
    if not callable(function):
        raise TypeError("call() takes a function after the name, which queues the other library's work on the stream that it "
                        f"is given; {_dtypes.short(function)} is given.")
    read, written = _arrays(reads, "reads"), _arrays(writes, "writes")
    accesses = [(each, True, False) for each in read] + [(each, False, True) for each in written]
    if synchronous or not session.device.id.startswith("cuda:"):
        for each in read + written:
            each.wait()  # the call would do it, but not end it at Ctrl-C

    def run(handle: Optional[int]) -> None:
        function(None if handle is None else Stream(session, handle))

    session._call(name, run, tuple(accesses), synchronous)
