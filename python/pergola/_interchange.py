"""From and to other libraries' arrays.

`array()` copies; `asarray()` and `from_dlpack()` share memory where both lie on the same GPU, and copy what lies in the
host's memory. Whoever shares memory orders the two libraries' work: what is handed over here is waited for first.
"""
from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Optional

from . import _core, _dtypes
from ._array import Array, _extents
from ._dtypes import ElementType

if TYPE_CHECKING:
    from ._session import Session

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
_LEGACY_STREAM, _NO_STREAM = 1, -1


def _refuse(source: Any, element: ElementType, bad: Any) -> None:
    """Raises what an array's first bad value, of those marked in `bad`, is refused with."""
    if not bad.any():
        return
    np = _dtypes.numpy("An array's dtype")
    place = np.unravel_index(int(bad.argmax()), bad.shape)
    value = source[place] if source.dtype == object else source[place].item()
    where = "The source" if not place else f"Element {', '.join(str(int(i)) for i in place)} of the source"
    what = f"{where} (dtype {source.dtype.name}) is {_dtypes.short(value)}, which {element.name}"
    if element.name == "bool":
        raise OverflowError(f"{what} does not hold, but 0 and 1: compare first (x != 0).")
    if source.dtype.kind == "f" and not (np.isfinite(value) and value == np.trunc(value)) and _is_integer(element):
        raise TypeError(f"{what} does not hold, being an integer: round the source first (numpy.rint(x), "
                        "numpy.nan_to_num(x)).")
    raise OverflowError(f"{what} does not hold: clip the source first (numpy.clip), or take a wider dtype.")


def _is_integer(element: ElementType) -> bool:
    return element.name.startswith(("int", "uint"))


def _finite_lost(source: Any, converted: Any) -> Any:
    """Where a finite value has become an infinity."""
    np = _dtypes.numpy("An array's dtype")
    return np.isfinite(source) & ~np.isfinite(converted)


def _to_odd(wide: Any) -> Any:
    """float32 of wider values; where bits are lost the neighbour whose last bit is set, so that to round once more, to
    fewer bits, rounds what was given."""
    np = _dtypes.numpy("Converting an array")
    narrow = wide.astype("f4")
    bits, back = narrow.view("u4"), narrow.astype(wide.dtype)
    moves = np.isfinite(wide) & np.isfinite(narrow) & (back != wide) & (bits & 1 == 0)
    away = np.abs(back) > np.abs(wide)
    moved = np.where(moves, np.where(away, bits - np.uint32(1), bits + np.uint32(1)), bits)
    return moved.astype("u4").view("f4").reshape(wide.shape)


def _bfloat16_bits(source: Any, element: ElementType) -> Any:
    """The bits of a NumPy array's values, rounded once, to the nearest, of two as near to the even one."""
    np = _dtypes.numpy("An array of bfloat16")
    wide = source.astype("g" if source.itemsize >= 8 and source.dtype.kind in "iuf" else "f8")
    with np.errstate(all="ignore"):
        _refuse(source, element, _finite_lost(wide, wide.astype("f4")))
        bits = _to_odd(wide).view("u4")
        rounded = (bits + np.uint32(0x7fff) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        rounded = np.where(np.isnan(wide), bits >> np.uint32(16) | np.uint32(0x40), rounded)
    _refuse(source, element, np.isfinite(wide) & (rounded & np.uint32(0x7fff) == 0x7f80))
    return rounded.astype("u2")


def _values_of(source: Any, bits: Any) -> Any:
    """float32 of the bits of bfloat16."""
    return (bits.astype("u4") << 16).view("f4").reshape(source.shape)


def _converted(source: Any, element: ElementType) -> Any:
    """A NumPy array's values as `element` has them, of which only digits of a fraction may be lost. bfloat16 is its bits,
    as uint16."""
    np = _dtypes.numpy("Converting an array")
    is_bfloat16 = element.name == "bfloat16"
    if is_bfloat16 and (source.dtype.name == "bfloat16" or source.dtype.str == "|V2"):
        return source.view("u2")
    if not is_bfloat16 and source.dtype == _dtypes.numpy_dtype(element):
        return source
    if element.numpy_dtype is not None:
        return _converted_structs(source, element)
    if not _dtypes.has_values(source.dtype):
        raise TypeError(f"The source's elements ({source.dtype!r}) are no numbers, which {element.name} is: convert them "
                        "first.")
    if source.dtype.name == "bfloat16":
        source = _values_of(source, source.view("u2"))
    if source.dtype.kind == "c" and not element.name.startswith("complex") and source.size:
        value = source.reshape(-1)[int((source.reshape(-1).imag != 0).argmax())].item()
        raise TypeError(f"The source is of dtype {source.dtype.name}, with {value!r} in it, and {element.name} has no imaginary "
                        "part: take x.real.")
    if not element.name.startswith("complex"):
        source = source.real
    if is_bfloat16:
        return _bfloat16_bits(source, element)
    wanted = _dtypes.numpy_dtype(element)
    if source.dtype.kind == "f" and wanted.kind in "iub":  # where the bounds are floats, too
        source = source.astype("f8") if source.itemsize < 8 else source
    if wanted.kind == "b":
        _refuse(source, element, (source != 0) & (source != 1))
    elif wanted.kind in "iu" and source.dtype.kind == "f":
        low, end = float(np.iinfo(wanted).min), float(int(np.iinfo(wanted).max) + 1)
        _refuse(source, element, ~(np.isfinite(source) & (np.trunc(source) == source) & (source >= low) & (source < end)))
    elif wanted.kind in "iu" and source.dtype.kind in "iu":
        low, high = int(np.iinfo(wanted).min), int(np.iinfo(wanted).max)
        bounds = np.iinfo(source.dtype)
        bad = np.zeros(source.shape, bool)
        if int(bounds.min) < low:
            bad |= source < low
        if int(bounds.max) > high:
            bad |= source > high
        _refuse(source, element, bad)
    with np.errstate(all="ignore"):
        is_long = source.dtype.kind == "f" and source.itemsize > 8 and wanted.itemsize == 2
        converted = (_to_odd(source) if is_long else source).astype(wanted)
    if wanted.kind in "fc":
        _refuse(source, element, _finite_lost(source, converted))
    return converted


def _converted_structs(source: Any, element: ElementType) -> Any:
    """A NumPy array as structs of other fields' types with the same names, each field as _converted() takes it."""
    np, wanted = _dtypes.numpy("Converting an array"), element.numpy_dtype
    if wanted.names is None or source.dtype.names != wanted.names:
        data = b"".join(_dtypes.pack(element, each) for each in source.reshape(-1))
        return np.frombuffer(data, wanted).reshape(source.shape)
    result = np.zeros(source.shape, wanted)
    for name in wanted.names:
        field = wanted.fields[name][0]
        base, axes = field.subdtype or (field, ())
        given = source[name]
        if given.shape != source.shape + axes:
            raise TypeError(f"The source's field {name!r} has the shape {given.shape[source.ndim:]}, and {axes} is wanted.")
        if given.dtype == base:
            result[name] = given
        elif base.name in _dtypes.NAMES or base.names is not None:
            result[name] = _converted(np.ascontiguousarray(given), _dtypes.element_type(base)).view(base).reshape(given.shape)
        else:
            raise TypeError(f"The source's field {name!r} is of dtype {given.dtype.name}, and {base.name} is wanted: convert "
                            "it first.")
    return result


def _packed(source: Any, element: ElementType) -> Any:
    """A list's values one by one, where NumPy has no dtype of its own that keeps them (large ints), or takes tuples for
    axes (structs). ValueError where rows differ in length."""
    np = _dtypes.numpy("Making an array of a list")
    is_struct = element.numpy_dtype is not None and element.numpy_dtype.names is not None

    def is_row(value: Any) -> bool:
        return isinstance(value, list) or (isinstance(value, tuple) and not is_struct) or (
            isinstance(value, np.ndarray) and value.ndim != 0)

    shape, values = [], [source]
    while values and is_row(values[0]):
        extent = len(values[0])
        if any(not is_row(row) or len(row) != extent for row in values):
            raise ValueError("The source's rows differ in length.")
        shape.append(extent)
        values = [each for row in values for each in row]
    data = b"".join(_dtypes.pack(element, each) for each in values)
    dtype = np.dtype("V2") if element.name == "bfloat16" else _dtypes.numpy_dtype(element)
    return np.frombuffer(data, dtype).reshape(shape)


def _of_objects(source: Any, wanted: Optional[ElementType]) -> Any:
    """What NumPy has no dtype for: ints beyond 64 bits. TypeError where it is of something else."""
    np = _dtypes.numpy("Making an array of a list")
    objects = np.asarray(source, object)
    values = list(objects.flat)
    large = [value for value in values if isinstance(value, int) and not -2**63 <= value < 2**64]
    if not large or not all(isinstance(value, (int, float, complex, np.number)) for value in values):
        raise TypeError(f"A {type(source).__name__} is not an array of numbers.")
    if wanted is not None:
        return _packed(objects.tolist(), wanted)
    raise OverflowError(f"The source has {_dtypes.short(large[0])} in it, which no integer holds: say dtype=\"float64\".")


def _integers(source: Any, element: ElementType) -> Any:
    """A list's ints, where it has nothing else, as `element`: NumPy takes them for floats or objects where no dtype of its
    own holds them all. None where there is something else."""
    np = _dtypes.numpy("Making an array of a list")
    objects = np.asarray(source, object)
    if not all(isinstance(value, (int, np.integer)) for value in objects.flat):
        return None
    bounds = np.iinfo(_dtypes.numpy_dtype(element))
    _refuse(objects, element, np.asarray((objects < int(bounds.min)) | (objects > int(bounds.max)), bool))
    return objects.astype(_dtypes.numpy_dtype(element))


def host_bytes(source: Any, wanted: Optional[ElementType]) -> tuple[Any, tuple[int, ...], ElementType]:
    """Contiguous bytes, shape and element type of something that lies in the host's memory.

    `wanted` converts numbers and lists; an array is converted only where it is a NumPy array of another dtype. A value
    that `wanted` does not hold is refused, by OverflowError, or where it is of another kind by TypeError."""
    _dtypes.refuse_mask(source)
    if hasattr(source, "__array_interface__") or not _has_buffer(source):
        np = _dtypes.numpy(f"Making an array of a {type(source).__name__}")
        if wanted is not None and wanted.numpy_dtype is not None and isinstance(source, (list, tuple)):
            array = _packed(source, wanted)
            return array.reshape(-1).view(np.uint8) if array.size else b"", array.shape, wanted
        array = np.asarray(source)
        if array.dtype.kind in "fO" and isinstance(source, (int, list, tuple)) and wanted is not None and _is_integer(wanted):
            integers = _integers(source, wanted)
            array = array if integers is None else integers
        if array.dtype == object:
            array = _of_objects(source, wanted)
        if not array.flags.c_contiguous:
            raise ValueError("The source is not contiguous, and copying it would take time without a word: pass "
                             "numpy.ascontiguousarray(x).")
        if wanted is None:
            element = _dtypes.element_type(array.dtype)
        else:
            array, element = _converted(array, wanted), wanted
        return array.reshape(-1).view(np.uint8) if array.size else b"", array.shape, element
    view = memoryview(source)
    if not view.c_contiguous:
        raise ValueError("The source is not contiguous, and copying it would take time without a word: copy it first.")
    found = _dtypes.of_format(view.format, view.itemsize)
    if found is None:
        raise TypeError(f"The source's elements ({view.format!r}) are none that arrays on a device have: make it a NumPy "
                        "array.")
    if wanted is not None and wanted.numpy_dtype is not None:
        raise TypeError(f"The source's elements are {found.name} and {wanted.name} is wanted: make it a NumPy array of that "
                        "dtype (numpy.frombuffer).")
    if wanted is not None and wanted != found:
        np = _dtypes.numpy(f"Converting {found.name} to {wanted.name}")
        array = _converted(np.frombuffer(view, _dtypes.numpy_dtype(found)).reshape(view.shape), wanted)
        return array.reshape(-1).view(np.uint8) if array.size else b"", array.shape, wanted
    return view, tuple(view.shape or ()), found


def _has_buffer(source: Any) -> bool:
    try:
        memoryview(source)
    except TypeError:
        return False
    return True


def _numbers(source: Array) -> Any:
    """An array's values for a conversion: bfloat16's as float32, which NumPy has without another package."""
    if source.dtype_name != "bfloat16":
        return source.numpy()
    np = _dtypes.numpy("Converting an array")
    return _values_of(source, np.frombuffer(source.tobytes(), "u2"))


def array(session: Session, source: Any, dtype: Any) -> Array:
    """Session.array(): a new array with a copy of `source`."""
    wanted = None if dtype is None else _dtypes.element_type(dtype)
    if _is_foreign(source):
        source = asarray(session, source, None)
    if isinstance(source, Array):
        if wanted not in (None, source._element):
            return array(session, _numbers(source), wanted)
        return source.copy() if source.session is session else _from_another(session, source)
    data, shape, element = host_bytes(source, wanted)
    result = Array._make(session, shape, element)
    if result.size:
        result._write(0, data)
    return result


def _from_another(session: Session, source: Array) -> Array:
    """A copy of another session's array."""
    result = Array._make(session, source.shape, source._element)
    if result.size:
        result._write(0, source.tobytes())
    return result


# ── Foreign memory ────────────────────────────────────────────────────────────────────────────────────────────────────

def _is_foreign(source: Any) -> bool:
    """An array of another library that NumPy does not read by itself (or should not: a GPU's)."""
    return not isinstance(source, Array) and (
        hasattr(source, "__cuda_array_interface__") or
        (hasattr(source, "__dlpack__") and not hasattr(source, "__array_interface__")))


def _check_contiguous(shape: tuple[int, ...], strides: Optional[tuple[int, ...]], itemsize: int) -> None:
    """`strides` in units of `itemsize`; ValueError where they are not C-contiguous."""
    step = itemsize
    empty = 0 in shape
    for extent, stride in reversed(list(zip(shape, strides or ()))):
        if extent != 1 and stride != step and not empty:
            raise ValueError("The source is not contiguous, which arrays on a device are: copy it there first "
                             "(x.contiguous(), cupy.ascontiguousarray(x)).")
        step *= extent


def _stream_number(value: Any, what: str) -> int:
    """What is to be a CUstream's number; `what` is how a message begins."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is the number of a CUstream, not {_dtypes.short(value)}.") from None
    if not 0 <= number < 2**64:
        raise OverflowError(f"{what} is a CUstream, or 1 or 2 of the default streams; it is {number}.")
    return number


def stream_handle(stream: Any) -> int:
    """The CUstream of an object with __cuda_stream__() or as torch and CuPy have them, or of an int; 0 for None."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        of = f"__cuda_stream__ of a {type(stream).__name__}"
        version, handle = _pair(protocol() if callable(protocol) else protocol, of)
        if version != 0:
            raise ValueError(f"{of} is of version {version}, which is not known; 0 is.")
        return _stream_number(handle, f"The number in {of}") or _LEGACY_STREAM
    for attribute in ("cuda_stream", "ptr"):  # torch.cuda.Stream, cupy.cuda.Stream
        if hasattr(stream, attribute):
            return _stream_number(getattr(stream, attribute), f"{attribute} of a {type(stream).__name__}") or _LEGACY_STREAM
    if not hasattr(stream, "__index__"):
        raise TypeError(f"A stream is an object with __cuda_stream__, torch's or CuPy's, or the number of a CUstream; "
                        f"{_dtypes.short(stream)} is given.")
    return _stream_number(stream, "A stream's number")


def _ready_stream(stream: Any) -> int:
    """The same of what makes an array, or -1, DLPack's word that there is nothing to wait for."""
    if not hasattr(stream, "__cuda_stream__") and hasattr(stream, "__index__") and operator.index(stream) == _NO_STREAM:
        return _NO_STREAM
    return stream_handle(stream)


def asarray(session: Session, source: Any, stream: Any) -> Array:
    """Session.asarray(): `source` itself where it is an array of the session, its memory where that is possible."""
    if isinstance(source, Array) and source.session is session:
        return source
    if not _is_foreign(source):
        return array(session, source, None)
    if hasattr(source, "__cuda_array_interface__") and session.device.id.startswith("cuda:"):
        return _from_cuda_array_interface(session, source, stream)
    if hasattr(source, "__dlpack__"):
        return from_dlpack(session, source, None, stream)
    raise TypeError(f"A {type(source).__name__} lies on a GPU, and this session's device is {session.device.id}: copy it "
                    "to the host first.")


def _alignment(element: ElementType) -> int:
    if element.numpy_dtype is not None:
        return int(element.numpy_dtype.alignment)
    return element.itemsize


def _check_place(shape: tuple[int, ...], element: ElementType, address: int) -> None:
    """ValueError where no memory is of that size, or no element at that address."""
    size = math.prod(shape) * element.itemsize
    if not 0 < address < 2**64 or size > 2**64 - address:
        raise ValueError(f"The source says that it has {_dtypes.plural(size, 'byte')} (shape {shape}, dtype {element.name}) at "
                         f"the address {address}, which no memory has: look at what made its shape and address.")
    if address % _alignment(element):
        raise ValueError(f"The source lies at the address {address:#x}, and elements of dtype {element.name} at multiples of "
                         f"{_alignment(element)} bytes: copy it there first (x.copy(), x.clone()).")


def _from_cuda_array_interface(session: Session, source: Any, stream: Any) -> Array:
    interface = source.__cuda_array_interface__
    of = f"__cuda_array_interface__ of a {type(source).__name__}"
    missing = [key for key in ("shape", "typestr", "data") if key not in interface]
    if missing:
        raise TypeError(f"{of} has no '{missing[0]}'.")
    if interface.get("mask") is not None:
        raise TypeError("Arrays with a mask have no counterpart on a device.")
    element = _dtypes.element_type(interface["typestr"])
    shape, strides = _extents(interface["shape"]), interface.get("strides")
    address, readonly = _pair(interface["data"], f"'data' in {of}")
    if readonly:
        raise ValueError("The source is read-only, which arrays here are not: pergola.array(x.copy()) copies it.")
    if strides is not None and len(strides) != len(shape):
        raise ValueError(f"{of} has {_dtypes.plural(len(strides), 'stride')} for {_dtypes.plural(len(shape), 'axis')}.")
    _check_contiguous(shape, strides, element.itemsize)
    ready = stream_handle(interface.get("stream")) if stream is None else max(_ready_stream(stream), 0)
    return _adopt(session, shape, element, address, ready, source)


def _adopt(session: Session, shape: tuple[int, ...], element: ElementType, address: int, stream: int,
           owner: Any) -> Array:
    """The memory as an array; a view of the session's array in which it lies, where there is one."""
    if not math.prod(shape):
        return Array._make(session, shape, element)
    _check_place(shape, element, address)
    result = Array._adopt(session, element.code, element.itemsize, math.prod(shape), address, stream, owner)
    result._element, result._shape = element, shape
    return result


def _view_within(session: Session, shape: tuple[int, ...], element: ElementType, address: int) -> Optional[Array]:
    """A view of the session's array in which memory of the host lies; None where it lies in none."""
    if not math.prod(shape) or address % _alignment(element):
        return None
    view = Array._within(session, address, math.prod(shape) * element.itemsize)
    if view is not None:
        view._element, view._shape = element, shape
    return view


def _refuse_sharing(here: str) -> BufferError:
    return BufferError(f"The source lies in the host's memory, and arrays of {here} in memory of their own: it has to be "
                       "copied.")


def from_dlpack(session: Session, source: Any, copy: Optional[bool], stream: Any = None) -> Array:
    """Session.from_dlpack()."""
    _dtypes.refuse_mask(source)
    if isinstance(source, Array) and source.session is session:
        return source.copy() if copy else source._view(0, source.shape)
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        mend = ("hand over the array that gave it (x, not x.__dlpack__())" if type(source).__name__ == "PyCapsule"
                else "pergola.array(x) copies lists and what has a buffer")
        raise TypeError("from_dlpack() takes an array of another library, which has __dlpack__() and __dlpack_device__(); a "
                        f"{type(source).__name__} is given: {mend}.")
    kind, index = _pair(source.__dlpack_device__(), f"What __dlpack_device__() of a {type(source).__name__} returns")
    here = session.device.id
    shares = kind in (_CUDA, _CUDA_MANAGED) and here == f"cuda:{index}"
    if not shares and kind not in (_CPU, _CUDA_HOST):
        raise BufferError(f"The source lies on another device (DLPack's kind {kind}, number {index}) and this session's "
                          f"is {here}: copy it to the host first.")
    if copy is False and not shares and (kind, here) != (_CPU, "cpu"):
        raise _refuse_sharing(here)
    # The producer makes the legacy default stream wait for the data, and adopting them waits for that stream.
    ready = (_ready_stream(stream) or _LEGACY_STREAM) if shares else None
    try:
        capsule = source.__dlpack__(stream=ready, max_version=(1, 0))
    except TypeError:  # a producer of before DLPack 1.0
        capsule = source.__dlpack__(stream=ready) if shares else source.__dlpack__()
    address, extents, strides, dtype, its_device, readonly, owner = _core.dlpack_import(capsule)
    its_kind, its_index = its_device
    if (its_kind not in (_CUDA, _CUDA_MANAGED) or its_index != index) if shares else its_kind not in (_CPU, _CUDA_HOST):
        raise BufferError(f"The producer's tensor lies on device {its_device}, and its __dlpack_device__() is "
                          f"{(kind, index)}.")
    element, shape = _dtypes.of_dlpack(*dtype), _extents(extents)
    _check_contiguous(shape, strides, 1)
    if readonly and copy is False:
        raise BufferError("The source is read-only, which arrays here are not: it has to be copied.")
    if shares:
        result = _adopt(session, shape, element, address, max(ready or 0, 0), owner)
        return result.copy() if copy or readonly else result
    if here == "cpu" and not (copy or readonly):
        view = _view_within(session, shape, element, address)
        if view is not None:
            return view
        if copy is False:
            raise _refuse_sharing(here)
    result = Array._make(session, shape, element)
    if result.size:
        result._write(0, _core.host_view(address, result.nbytes))  # taken before this returns, and so before owner goes
    return result


# ── Arrays for others ─────────────────────────────────────────────────────────────────────────────────────────────────

def dlpack_device(source: Array) -> tuple[int, int]:
    """Where DLPack finds an array's memory; BufferError where it cannot."""
    name = source.session.device.id
    if name == "cpu":
        return _CPU, 0
    if name.startswith("cuda:"):
        return _CUDA, int(name[len("cuda:"):])
    raise BufferError(f"Arrays of the device {name} cannot be shared.")


def _pair(value: Any, what: str) -> tuple[int, int]:
    """Two whole numbers, as DLPack has them for a device and a version; `what` is how a message begins."""
    try:
        first, second = (operator.index(part) for part in value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} is a tuple of two whole numbers, not {_dtypes.short(value)}.") from None
    return first, second


def to_dlpack(source: Array, stream: Any, max_version: Optional[tuple[int, int]], dl_device: Optional[tuple[int, int]],
              copy: Optional[bool]) -> object:
    """Array.__dlpack__(). All is waited for, whatever the consumer's stream is: it only has to be one. For -1 nothing is."""
    device = dlpack_device(source)
    waits = _ready_stream(stream) != _NO_STREAM
    if dl_device is not None:
        dl_device = _pair(dl_device, "DLPack's dl_device")
    versioned = max_version is not None and _pair(max_version, "DLPack's max_version")[0] >= 1
    dtype = source._element.dlpack
    if dtype is None:
        raise BufferError(f"DLPack has no elements of dtype {source.dtype_name}.")
    if dl_device is not None and dl_device != device:
        raise BufferError(f"The array lies on DLPack's device {device}, not {dl_device}: copy it by x.numpy().")
    if copy:
        source = source.copy()
    if waits:
        source.wait()
    elif source.location == "host":
        source.prefetch()  # what the host has written is on its way; what tasks were given is there
    return _core.dlpack_export(source, source.shape, dtype, device, versioned, bool(copy))


def to_cuda_array_interface(source: Array) -> dict[str, Any]:
    """Array.__cuda_array_interface__, version 3."""
    if not source.session.device.id.startswith("cuda:"):
        raise AttributeError("__cuda_array_interface__ is of arrays on a GPU.")
    source.wait()
    described: dict[str, Any] = {"shape": source.shape, "typestr": source._element.typestr, "version": 3, "strides": None,
                                 "data": (source.address if source.size else 0, False), "stream": None}
    if source._element.numpy_dtype is not None:
        described["descr"] = source.dtype.descr
    return described
