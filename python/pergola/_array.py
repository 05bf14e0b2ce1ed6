"""Arrays on a device.

An Array is contiguous memory of one session's device, with a dtype and a shape. Everything that is done with it is
queued behind the work that it depends on; only reading waits. Slices of the first axis are views that share its memory.
"""
from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from . import _core, _dtypes
from ._dtypes import ElementType

if TYPE_CHECKING:
    import numpy as np

    from ._session import Session

Shape = Union[int, tuple[int, ...]]

_CAST_FORMATS = frozenset("bBhHiIlLqQfd?")  # memoryview.cast()'s
_HOST_ACCESS = {"r": 1, "w": 2, "rw": 3}
_SMALL_PART = 1024  # bytes; up to here a part is written from the host, which the CPU device does at once


def _extents(shape: Any) -> tuple[int, ...]:
    extents: tuple[int, ...]
    try:
        extents = (operator.index(shape),)
    except TypeError:
        try:
            extents = tuple(operator.index(extent) for extent in shape)
        except TypeError:
            raise TypeError(f"A shape is an int or a sequence of ints, one for each axis; {_dtypes.short(shape)} is "
                            "given.") from None
    if any(extent < 0 for extent in extents):
        raise ValueError(f"A shape has no negative extents; it is {extents}.")
    return extents


def _check_empty(shape: tuple[int, ...], itemsize: int) -> None:
    """ValueError where an array without elements has a shape that no other library's array can have, NumPy's neither; one
    with elements is refused for its size."""
    if 0 in shape and math.prod(extent for extent in shape if extent) * itemsize >= 2**63:
        raise ValueError(f"The shape {_dtypes.short(shape)} has no elements, and its other extents make up 2**63 bytes or more, "
                         f"in elements of {_dtypes.plural(itemsize, 'byte')}: no library's array has such a shape.")


class Array(_core.Memory):
    """An array on a device. Made by pergola.array(), zeros(), empty(), ...; never directly."""

    __slots__ = ("_element", "_shape", "__weakref__")
    _element: ElementType
    _shape: tuple[int, ...]
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    # ── Making ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def _make(cls, session: Session, shape: tuple[int, ...], element: ElementType) -> Array:
        _check_empty(shape, element.itemsize)
        self = cls.__new__(cls, session, element.code, element.itemsize, math.prod(shape))
        self._element, self._shape = element, shape
        return self

    def _view(self, first: int, shape: tuple[int, ...], element: Optional[ElementType] = None) -> Array:
        """A view of `shape` from element `first` on."""
        itemsize = self._element.itemsize
        view = Array.__new__(Array, self, first * itemsize, math.prod(shape) * itemsize)
        view._element, view._shape = element or self._element, shape
        return view

    # ── What it is ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements it has along each axis."""
        return self._shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self._shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._element.itemsize

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype (ImportError where NumPy is not installed; `dtype_name` always works)."""
        dtype: np.dtype[Any] = _dtypes.numpy_dtype(self._element)
        return dtype

    @property
    def dtype_name(self) -> str:
        """ "float32", ..."""
        return self._element.name

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, of each axis. Arrays are always contiguous, the last axis the innermost."""
        strides, step = [], self._element.itemsize
        for extent in reversed(self._shape):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("An array without axes has no length.")
        return self._shape[0]

    def __repr__(self) -> str:
        what = f"pergola.Array(shape={self._shape}, dtype={self._element.name}, device={self.session._device_name!r}, " \
               f"number={self.number}"
        return what + (", freed)" if self.freed else ")")

    def __eq__(self, other: object) -> bool:
        """Of the array itself, and of None; NumPy compares elements."""
        if other is self or other is None:
            return other is self
        raise TypeError("Arrays on a device are not compared, as that would wait for them: x.numpy() == y.numpy() compares "
                        "their elements on the host, `x is y` says whether they are one.")

    def __contains__(self, value: object) -> bool:
        """Of one axis, whether a value is among its elements, which are read; of more, rows would have to be compared."""
        if len(self._shape) == 1:
            return value in self.tolist()
        raise TypeError(f"`in` is of arrays with one axis, and this one has {len(self._shape)}: "
                        "(x.numpy() == value).any() looks at all elements.")

    def __bool__(self) -> bool:
        if self.size == 1:
            return bool(self.item())
        raise ValueError("The truth of an array of more than one element, or of none, is not defined.")

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    # ── To the host ─────────────────────────────────────────────────────────────────────────────────────────────────

    def numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy array with a copy of the contents, once the work that made them has ended. It is yours; it does not change."""
        numpy = _dtypes.numpy("Array.numpy()")
        result: np.ndarray[Any, Any] = numpy.empty(self._shape, self.dtype)
        if result.size:
            self._read(0, result.reshape(-1).view(numpy.uint8))
        else:
            self._wait()
        return result

    def tobytes(self) -> bytes:
        """A copy of the contents, once the work that made them has ended."""
        result = bytearray(self.nbytes)
        self._read(0, result)
        return bytes(result)

    def tolist(self) -> Any:
        """The contents as nested lists of Python's numbers."""
        data, size = self.tobytes(), self._element.itemsize
        values = [_dtypes.unpack(self._element, data[i:i + size]) for i in range(0, len(data), size)]

        def nest(first: int, shape: tuple[int, ...]) -> Any:
            if not shape:
                return values[first]
            inner = math.prod(shape[1:])
            return [nest(first + i * inner, shape[1:]) for i in range(shape[0])]

        return nest(0, self._shape)

    def item(self) -> Any:
        """The only element."""
        if self.size != 1:
            raise ValueError(f"item() is of arrays with one element; this one has {self.size}.")
        return _dtypes.unpack(self._element, self.tobytes())

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("An array on a device is always copied to become NumPy's; numpy.from_dlpack(x) shares the "
                             "memory of the cpu device.")
        result = self.numpy()
        return result if dtype is None or result.dtype == dtype else result.astype(dtype)

    def host(self, access: Literal["r", "w", "rw"] = "rw") -> np.ndarray[Any, Any]:
        """A NumPy array over memory that the host shares with the array: for reading ("r"), writing ("w"), or both ("rw").

        On a GPU that memory is page-locked and mirrors the device's: what is written goes up when the array is next used
        there, and nobody waits for it (with memory=managed it is the array itself); to read waits for the work that made the contents. Work on it until the array is next
        given to anything else, or a kernel runs whose accesses cannot be told; then ask again. With "w" all of it is to be written: what was there is not fetched. Views
        cannot be written by "w" alone, as they are not all of their array."""
        numpy = _dtypes.numpy("Array.host()")
        memory = self._host_memory(access, "host")
        result: np.ndarray[Any, Any] = numpy.ndarray(self._shape, _dtypes.numpy_dtype(self._element), memory)
        return result

    def host_buffer(self, access: Literal["r", "w", "rw"] = "rw") -> memoryview:
        """host() for whoever has no NumPy: a memoryview with the array's shape and format. Of elements that a memoryview
        can cast no bytes to (16-bit floating point, complex numbers, structs), and where an axis is empty, it is one of bytes."""
        view = memoryview(self._host_memory(access, "host_buffer")).cast("B")
        if 0 in self._shape or self._element.format not in _CAST_FORMATS:
            return view
        return view.cast(self._element.format, self._shape)  # type: ignore[call-overload, no-any-return, unused-ignore]

    def _host_memory(self, access: str, name: str) -> Any:
        if access not in _HOST_ACCESS:
            raise ValueError(f"{name}() takes 'r', 'w' or 'rw', not {access!r}.")
        if access == "w" and self._is_view:
            raise ValueError(f"{name}('w') would leave the rest of the array undefined: take {name}('rw') of a view.")
        if 0 not in self._shape:
            return self._host(_HOST_ACCESS[access])
        return bytearray() if access != "r" else b""

    def prefetch(self, to: Literal["device", "host"] = "device") -> Array:
        """Queues the copy that brings the contents to the "device" or the "host", if they are not there. Returns self."""
        sides = {"device": 1, "host": 2}
        if to not in sides:
            raise ValueError(f"prefetch() takes 'device' or 'host', not {to!r}.")
        self._prefetch(sides[to])
        return self

    # ── For other libraries ─────────────────────────────────────────────────────────────────────────────────────────

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[tuple[int, int]] = None,
                   dl_device: Optional[tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        """Shares the memory, once the work that made it has ended, so that a consumer's stream has nothing to wait for; with
        `stream=-1` at once. Work that is queued afterwards changes what the consumer sees: it is for the program to order."""
        from ._interchange import to_dlpack

        return to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from ._interchange import dlpack_device

        return dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Of arrays on a GPU alone; waits as __dlpack__() does."""
        from ._interchange import to_cuda_array_interface

        return to_cuda_array_interface(self)

    # ── From the host ───────────────────────────────────────────────────────────────────────────────────────────────

    def copy_from(self, source: Any) -> Array:
        """Queues a copy from `source` (an array of the same shape, on the device or the host) and returns self.

        The source may change as soon as this returns."""
        self[...] = source
        return self

    def fill(self, value: Any) -> Array:
        """Queues: every element becomes `value`. Returns self.

        A view of up to 1 KiB is written from the host, as by x[0] = value: that waits for tasks that have the array."""
        data = _dtypes.pack(self._element, value)
        if not self.size:
            return self
        if self._is_view and self.nbytes <= _SMALL_PART:
            self._write(0, data * self.size)
        else:
            self._fill(data)
        return self

    def copy(self) -> Array:
        """A new array of the same session with the same contents."""
        result = Array._make(self.session, self._shape, self._element)
        if self.size:
            result._copy(0, self)
        return result

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> Any:
        raise TypeError("An array on a device is not pickled: pickle x.numpy(), and pergola.array() of that.")

    def reshape(self, *shape: Any) -> Array:
        """A view with the same elements in another shape; one extent may be -1."""
        try:
            extents = [operator.index(extent) for extent in shape]
        except TypeError:
            given = shape[0] if len(shape) == 1 else shape
            try:
                extents = [operator.index(extent) for extent in given]
            except TypeError:
                raise TypeError(f"A shape is ints, or a sequence of ints; {_dtypes.short(given)} is given.") from None
        asked = list(extents)
        if extents.count(-1) == 1:
            rest = math.prod(extent for extent in extents if extent != -1)
            extents[extents.index(-1)] = self.size // rest if rest else 0
        if math.prod(extents) != self.size or any(extent < 0 for extent in extents):
            raise ValueError(f"{_dtypes.plural(self.size, 'element')} cannot have the shape {_dtypes.short(tuple(asked))}.")
        _check_empty(tuple(extents), self._element.itemsize)
        return self._view(0, tuple(extents))

    def wait(self) -> None:
        """Waits for the work that made the contents; raises what it failed with."""
        self._wait()

    # ── Indexing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _select(self, key: Any) -> tuple[int, tuple[int, ...], bool]:
        """The first element, the shape, and whether it is one element, that an index means."""
        keys = key if isinstance(key, tuple) else (key,)
        first, axes = 0, self._shape
        if len(keys) <= len(axes):  # ints alone, which should be quick
            for one, extent in zip(keys, axes):
                if type(one) is not int or not -extent <= one < extent:
                    break
                first = first * extent + one % extent
            else:
                rest = axes[len(keys):]
                return first * math.prod(rest), rest, bool(keys) and not rest
        return self._select_parts(self._keys(keys), any(one is Ellipsis for one in keys))

    def _select_parts(self, keys: tuple[Any, ...], has_ellipsis: bool) -> tuple[int, tuple[int, ...], bool]:
        """The same, of ints and slices, without the Ellipsis that was perhaps among them."""
        first, is_row, is_contiguous = 0, True, True  # a row: the axes so far select one place
        shape: list[int] = []
        for axis, one in enumerate(keys):
            extent, inner = self._shape[axis], math.prod(self._shape[axis + 1:])
            start, count, kept = self._place(axis, one)
            is_contiguous = is_contiguous and (is_row or count == extent)
            is_row = is_row and count == 1
            first += start * inner
            shape += kept
        result = (*shape, *self._shape[len(keys):])
        if 0 in result:  # at its place all the same: x[n:] is the end that a kernel stops at
            return min(first, math.prod(self._shape)), result, False
        if not is_contiguous:
            raise ValueError("What the index selects is not contiguous, which arrays on a device are: an index or part of an "
                             "axis comes before whole axes alone. Take it of x.numpy(), or let a kernel pick the elements.")
        return first, result, not result and not has_ellipsis

    def _keys(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """An index for each axis from the first on, with whole axes for an Ellipsis."""
        places = [place for place, one in enumerate(given) if one is Ellipsis]
        if len(given) - len(places) > len(self._shape):
            raise IndexError(f"{len(given) - len(places)} indices are given, and the array has "
                             f"{_dtypes.plural(len(self._shape), 'axis')}.")
        if len(places) > 1:
            raise IndexError("An index has one Ellipsis (...) at most.")
        if not places:
            return given
        whole = (slice(None),) * (len(self._shape) - len(given) + 1)
        return (*given[:places[0]], *whole, *given[places[0] + 1:])

    def _place(self, axis: int, one: Any) -> tuple[int, int, tuple[int, ...]]:
        """Where on an axis an index starts, how much of the axis it selects, and what is left of it in the shape."""
        extent = self._shape[axis]
        if isinstance(one, slice):
            start, stop, step = one.indices(extent)
            if step != 1:
                raise ValueError(f"A slice with step {step} is not contiguous: arrays on a device are. Take it of "
                                 "x.numpy(), or let a kernel pick the elements.")
            count = max(0, stop - start)
            return start, count, (count,)
        try:
            if isinstance(one, bool) or getattr(getattr(one, "dtype", None), "kind", "") == "b":
                raise TypeError
            index = operator.index(one)
        except TypeError:
            raise TypeError(f"An array on a device is indexed by integers and slices, not by {type(one).__name__}: "
                            "index x.numpy().") from None
        if not -extent <= index < extent:
            raise IndexError(f"Index {index} is outside axis {axis} of {_dtypes.plural(extent, 'element')}.")
        return index % extent, 1, ()

    def __getitem__(self, key: Any) -> Any:
        """A view of a part; of a single element its value, for which it waits."""
        first, shape, single = self._select(key)
        part = self._view(first, shape)
        return part.item() if single else part

    def __setitem__(self, key: Any, value: Any) -> None:
        """Queues a copy into a part: from an array of that part's shape, or of one value."""
        first, shape, single = self._select(key)
        part = self._view(first, shape)
        if isinstance(value, Array):
            part._copy_array(value)
        elif single:
            part._write(0, _dtypes.pack(self._element, value))
        elif isinstance(value, (int, float, complex)) or getattr(value, "shape", None) == ():
            part.fill(value)
        else:
            part._copy_host(value)

    def _copy_array(self, source: Array) -> None:
        if source._shape != self._shape or source._element != self._element:
            raise ValueError(f"{source!r} does not fit: shape {self._shape} and dtype {self._element.name} are needed.")
        if source.session is not self.session:
            source = self.session.array(source)
        if not self.size:
            return
        apart = self._apart(source)
        if apart >= self.nbytes:
            self._copy(0, source)
        elif apart:  # they overlap
            self._copy(0, source.copy())

    def _copy_host(self, source: Any) -> None:
        from ._interchange import host_bytes

        data, shape, element = host_bytes(source, self._element)
        if shape != self._shape or element != self._element:
            raise ValueError(f"The source has shape {shape} and dtype {element.name}; shape {self._shape} and dtype "
                             f"{self._element.name} are needed.")
        if self.size:
            self._write(0, data)

    def __iter__(self) -> Iterator[Any]:
        """Rows, as views; of one axis its values, read at once."""
        if not self._shape:
            raise TypeError("An array without axes cannot be iterated over.")
        if len(self._shape) == 1:
            return iter(self.tolist())
        return (self[i] for i in range(self._shape[0]))


def _refuse_arithmetic(self: Array, other: Any, *_: Any) -> Any:
    """x + y, x += y, and y + x of what does not know arrays on a device."""
    raise TypeError("Arrays on a device have no arithmetic: a kernel does it there, and x.numpy() is an array of NumPy's to do "
                    "it with on the host.")


def _refusal(reflected: str) -> Any:
    """x + y: refused where the other operand is none of another library's, whose y.__radd__() may do it. NumPy's would read x
    without a word."""
    def refuse(self: Array, other: Any, *more: Any) -> Any:
        np = sys.modules.get("numpy")
        ours = (np.ndarray, np.generic) if np is not None and hasattr(np, "generic") else ()
        if type(other).__module__ != "builtins" and not isinstance(other, (Array, *ours)) and hasattr(other, reflected):
            return NotImplemented
        return _refuse_arithmetic(self, other, *more)

    return refuse


for _name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor"):
    setattr(Array, f"__{_name}__", _refusal(f"__r{_name}__"))
    setattr(Array, f"__r{_name}__", _refuse_arithmetic)
    if _name != "divmod":
        setattr(Array, f"__i{_name}__", _refuse_arithmetic)
