"""Element types, with or without NumPy.

An ElementType says how the library, NumPy, the buffer protocol and DLPack each call it. NumPy is imported when somebody
asks for something of it, never by `import pergola`.
"""
from __future__ import annotations

import math
import numbers
import operator
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

if TYPE_CHECKING:
    import numpy as np

    DTypeLike = Union["ElementType", str, type, np.dtype[Any], list[Any], dict[str, Any], None]  # of fields: NumPy's
else:
    DTypeLike = Any


class ElementType(NamedTuple):
    """What an array's elements are."""

    name: str  # "float32"
    code: int  # pergola_type
    itemsize: int  # bytes
    format: str  # of the struct module; "" where it has none
    typestr: str  # of NumPy's array interface: "<f4"
    dlpack: Optional[tuple[int, int]]  # DLDataTypeCode and bits; None where DLPack cannot say it
    numpy_dtype: Any = None  # of structs: NumPy's own


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6  # DLDataTypeCode

_TABLE = [
    ElementType("int8", 1, 1, "b", "|i1", (_INT, 8)),
    ElementType("uint8", 2, 1, "B", "|u1", (_UINT, 8)),
    ElementType("int16", 3, 2, "h", "<i2", (_INT, 16)),
    ElementType("uint16", 4, 2, "H", "<u2", (_UINT, 16)),
    ElementType("int32", 5, 4, "i", "<i4", (_INT, 32)),
    ElementType("uint32", 6, 4, "I", "<u4", (_UINT, 32)),
    ElementType("int64", 7, 8, "q", "<i8", (_INT, 64)),
    ElementType("uint64", 8, 8, "Q", "<u8", (_UINT, 64)),
    ElementType("float16", 9, 2, "e", "<f2", (_FLOAT, 16)),
    ElementType("bfloat16", 10, 2, "", "<V2", (_BFLOAT, 16)),
    ElementType("float32", 11, 4, "f", "<f4", (_FLOAT, 32)),
    ElementType("float64", 12, 8, "d", "<f8", (_FLOAT, 64)),
    ElementType("complex64", 13, 8, "", "<c8", (_COMPLEX, 64)),
    ElementType("complex128", 14, 16, "", "<c16", (_COMPLEX, 128)),
    ElementType("bool", 15, 1, "?", "|b1", (_BOOL, 8)),
]
_BYTES = 0  # PERGOLA_TYPE_BYTES

_BY_NAME = {t.name: t for t in _TABLE}
NAMES = frozenset(_BY_NAME)
_BY_TYPESTR = {t.typestr: t for t in _TABLE if t.name != "bfloat16"}
_BY_DLPACK = {t.dlpack: t for t in _TABLE}
_BY_PYTHON: dict[Any, ElementType] = {
    float: _BY_NAME["float64"], int: _BY_NAME["int64"], bool: _BY_NAME["bool"], complex: _BY_NAME["complex128"]}

# Of the buffer protocol; native sizes, as "@" or no prefix means.
_BY_FORMAT = {t.format: t for t in _TABLE if t.format} | {
    "l": _BY_NAME["int64"], "L": _BY_NAME["uint64"], "Zf": _BY_NAME["complex64"], "Zd": _BY_NAME["complex128"],
    "c": _BY_NAME["uint8"]}


def numpy(what: str) -> Any:
    """NumPy, for `what`; an ImportError that says so where it is not installed."""
    try:
        import numpy as np
    except ImportError as error:
        why = f"cannot be imported: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
            why = "is not installed (pip install numpy)."
        if sys.is_finalizing() or sys.meta_path is None:
            why = "cannot be imported any more, as the interpreter ends."
        raise ImportError(f"{what} needs NumPy, which {why}") from error
    return np


def _is_native(dtype: Any) -> bool:
    """Of all that a NumPy dtype is made of: its own isnative does not look into axes."""
    if dtype.subdtype is not None:
        return _is_native(dtype.subdtype[0])
    if dtype.names is not None:
        return all(_is_native(dtype.fields[name][0]) for name in dtype.names)
    return bool(dtype.isnative)


def element_type(dtype: DTypeLike) -> ElementType:
    """The element type that `dtype` means: its name, a typestr or code of NumPy's, a Python type, a numpy.dtype."""
    if dtype is None:
        return _BY_NAME["float64"]
    if isinstance(dtype, ElementType):
        return dtype
    found = _BY_PYTHON.get(dtype) if isinstance(dtype, type) else None
    if found is None and isinstance(dtype, str):
        found = _BY_NAME.get(dtype) or _BY_TYPESTR.get(dtype) or _BY_TYPESTR.get("<" + dtype) or _BY_TYPESTR.get("|" + dtype)
    if found is not None:
        return found
    given: Any = numpy(f"The dtype {dtype!r}").dtype(dtype)
    if given.subdtype is not None:
        base, axes = given.subdtype
        raise TypeError(f"An element has no axes, and one of dtype {given!r} has: take dtype {base.name}, and the axes "
                        f"{axes} as the last of the shape.")
    if not given.itemsize:
        raise TypeError(f"Arrays on a device have no elements of no bytes, as those of dtype {given!r} are.")
    if given.name in _BY_NAME and given.isnative:
        return _BY_NAME[given.name]
    if given.hasobject or not _is_native(given) or given.kind not in "V":
        raise TypeError(f"Arrays on a device have no elements of dtype {given!r}: they are numbers, or structs of them, "
                        "in the machine's byte order.")
    return ElementType(str(given), _BYTES, given.itemsize, "", given.str, None, given)


def of_format(format: str, itemsize: int) -> Optional[ElementType]:
    """The element type of the buffer protocol's `format`; None where it is a struct or another byte order."""
    if format.startswith("@") or (format.startswith("<") and format[1:] not in ("l", "L")):
        format = format[1:]
    found = _BY_FORMAT.get(format)
    return found if found is not None and found.itemsize == itemsize else None


def of_dlpack(code: int, bits: int, lanes: int) -> ElementType:
    """The element type of DLPack's triple; TypeError where there is none."""
    found = _BY_DLPACK.get((code, bits))
    if found is None or lanes != 1:
        raise TypeError(f"DLPack's type (code {code}, {plural(bits, 'bit')}, {plural(lanes, 'lane')}) is none that arrays have.")
    return found


_numpy_dtypes: dict[str, Any] = {}  # those that have been asked for, by name


def numpy_dtype(element: ElementType) -> Any:
    """NumPy's dtype of an element type; bfloat16's is ml_dtypes'."""
    if element.numpy_dtype is not None:
        return element.numpy_dtype
    np = numpy("An array's dtype")
    if element.name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ImportError("NumPy has no bfloat16; the package ml_dtypes adds it (pip install ml_dtypes).") from error
        return np.dtype(ml_dtypes.bfloat16)
    if element.name not in _numpy_dtypes:
        _numpy_dtypes[element.name] = np.dtype(element.name)
    return _numpy_dtypes[element.name]


def refuse_mask(source: Any) -> None:
    """ValueError where `source` is a masked array that hides something: what is hidden has no counterpart here."""
    ma = sys.modules.get("numpy.ma.core")  # which another thread may be importing: there are no masked arrays before it is done
    kind = getattr(ma, "MaskedArray", None)
    if ma is not None and kind is not None and isinstance(source, kind) and ma.getmaskarray(source).tobytes().strip(b"\0"):
        raise ValueError("The source's mask hides elements, and arrays on a device have no mask: say what is to be in their "
                         "place by x.filled(value).")


def has_values(source: Any) -> bool:
    """Whether elements of a NumPy dtype are numbers or bools, which have a value in other dtypes."""
    return source.kind in "biufc" or source.name == "bfloat16"


def _is_one(value: Any) -> bool:
    """Whether `value` may be a number: no text, and nothing with axes."""
    return not isinstance(value, (str, bytes, bytearray)) and getattr(value, "shape", ()) == ()


def _is_complex(value: Any) -> bool:
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        return True
    return getattr(getattr(value, "dtype", None), "kind", "") == "c"  # of no axes


def short(value: Any) -> str:
    """A value in a message."""
    try:
        generic = getattr(sys.modules.get("numpy"), "generic", ())  # another thread may be importing it
        # NumPy 2's repr() is np.float32(1.5) where that of a 1 is 1.5.
        text = str(value) if isinstance(value, generic) and value.dtype.kind in "biufc" else repr(value)
    except ValueError:  # an int of more digits than Python prints
        return f"an int of {value.bit_length()} bits"
    return text if len(text) <= 80 else text[:77] + "..."


def plural(count: int, what: str) -> str:
    """A number of things in a message: "1 axis", "2 axes"."""
    many = {"axis": "axes", "launch": "launches", "dependency": "dependencies"}
    return f"{count} {what if count == 1 else many.get(what, what + 's')}"


def _refuse_kind(element: ElementType, value: Any, what: str) -> TypeError:
    if _is_one(value) and _is_complex(value):
        return TypeError(f"An element of dtype {element.name} has no imaginary part; the {type(value).__name__} {short(value)} "
                         "is given: take x.real.")
    return TypeError(f"An element of dtype {element.name} is {what}; {short(value)} is given.")


def _refuse_range(element: ElementType, value: Any) -> OverflowError:
    return OverflowError(f"An element of dtype {element.name} cannot hold {short(value)}.")


def _real(element: ElementType, value: Any, to_odd: bool = False) -> float:
    """The nearest double. With `to_odd`, where that is not the value itself, its neighbour on the value's side if that
    one's last bit is set: rounded once more, to fewer bits, it is what the value rounds to."""
    if not _is_one(value) or _is_complex(value):
        raise _refuse_kind(element, value, "a number")
    if getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u"):
        value = operator.index(value)  # which Python compares with floats as they are
    try:
        number = float(value)
    except OverflowError:
        raise _refuse_range(element, value) from None
    except (TypeError, ValueError):
        raise _refuse_kind(element, value, "a number") from None
    try:
        below, above = bool(number < value), bool(number > value)
    except TypeError:  # it says what it is as a float, and nothing more
        return number
    if math.isinf(number) and (below or above):  # of a long double
        raise _refuse_range(element, value)
    if to_odd and math.isfinite(number) and (below or above) and not struct.pack("<d", number)[0] & 1:
        number = math.nextafter(number, math.inf if below else -math.inf)
    return number


def _integer(element: ElementType, value: Any) -> int:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "b" and _is_one(value):
        return int(bool(value))  # numpy.bool_ is no index
    try:
        if isinstance(value, float) or (kind == "f" and _is_one(value)):
            if not math.isfinite(value) and element.name == "bool":
                raise _refuse_range(element, value)
            if math.isfinite(value) and value == int(value):
                return int(value)
        if not _is_one(value):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise _refuse_kind(element, value, "True or False" if element.name == "bool" else "an integer") from None


def _pack_bfloat16(element: ElementType, value: Any) -> bytes:
    """Rounded once, to the nearest, of two as near to the even one."""
    number = _real(element, value, to_odd=True)
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
    except OverflowError:
        raise _refuse_range(element, value) from None
    if math.isnan(number):
        return struct.pack("<H", bits >> 16 | 0x40)
    (kept,) = struct.unpack("<f", struct.pack("<I", bits))
    if kept != number and not bits & 1:  # to odd: so that to round again rounds what was given
        bits += -1 if abs(kept) > abs(number) else 1
    rounded = bits + 0x7fff + (bits >> 16 & 1) >> 16
    if rounded & 0x7fff == 0x7f80 and not math.isinf(number):
        raise _refuse_range(element, value)
    return struct.pack("<H", rounded)


def _is_number(value: Any) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return isinstance(value, numbers.Number) or (kind in tuple("biufc") and value.shape == ())


def _pack_struct(dtype: Any, value: Any) -> bytes:
    """A struct's bytes from a tuple, or a NumPy scalar of the same fields: each field as pack() takes it. A number is
    every field's."""
    if getattr(value, "dtype", None) == dtype and getattr(value, "shape", None) == ():
        return bytes(value.tobytes())
    names = dtype.names
    if getattr(getattr(value, "dtype", None), "names", None) == names and value.shape == ():
        value = tuple(value[name] for name in names)
    if _is_number(value):
        value = (value,) * len(names)
    if not isinstance(value, tuple) or len(value) != len(names):
        raise TypeError(f"An element of dtype {dtype} is a tuple of {plural(len(names), 'value')}, one for each field; "
                        f"{short(value)} is given.")
    result = bytearray(dtype.itemsize)
    for name, each in zip(names, value):
        field, offset = dtype.fields[name][:2]
        result[offset:offset + field.itemsize] = _pack_field(field, each)
    return bytes(result)


def _flat(dtype: Any, value: Any, shape: tuple[int, ...]) -> list[Any]:
    """The values of nested sequences of that shape."""
    values = [value]
    for extent in shape:
        if any(isinstance(row, (str, bytes)) or not hasattr(row, "__len__") or len(row) != extent for row in values):
            raise TypeError(f"A field of dtype {dtype} has the shape {shape}; {short(value)} is given.")
        values = [each for row in values for each in row]
    return values


def _pack_field(dtype: Any, value: Any) -> bytes:
    np = numpy(f"An element of dtype {dtype}")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        values = [value] * math.prod(shape) if _is_number(value) else _flat(dtype, value, shape)
        return b"".join(_pack_field(base, each) for each in values)
    if dtype.names is not None:
        return _pack_struct(dtype, value)
    if dtype.name in _BY_NAME:
        return pack(_BY_NAME[dtype.name], value)
    return _pack_opaque(np, dtype, value)


def _pack_opaque(np: Any, dtype: Any, value: Any) -> bytes:
    """Of dtypes that are neither numbers nor structs here: text, times, those of other packages (float8). What is not of
    the dtype is taken where it keeps its value."""
    if isinstance(value, (bytes, bytearray)) and dtype.kind == "V" and len(value) == dtype.itemsize:
        return bytes(value)
    try:
        with np.errstate(all="ignore"):
            given, made = np.asarray(value), np.asarray(value, dtype)
            same = given.dtype == dtype or given == made or (given != given and made != made)
    except (TypeError, ValueError, OverflowError):
        given = made = same = None
    if made is None or made.shape != () or not same or given.dtype.kind + made.dtype.kind in ("US", "SU"):
        raise TypeError(f"An element of dtype {dtype.name} cannot be {short(value)}: give one of that dtype.")
    return bytes(made.tobytes())


def pack(element: ElementType, value: Any) -> bytes:
    """One element's bytes. TypeError where `value` is of another kind, OverflowError where the element cannot hold it; to
    fewer bits of a fraction it is rounded."""
    has_bits = element.numpy_dtype is not None or element.name == "bfloat16"
    if has_bits and isinstance(value, (bytes, bytearray)) and len(value) == element.itemsize:
        return bytes(value)
    refuse_mask(value)
    if element.name == "bfloat16":
        return _pack_bfloat16(element, value)
    if element.numpy_dtype is not None:
        return _pack_field(element.numpy_dtype, value)
    is_narrow = element.itemsize < 8 or element.name == "complex64"  # fewer bits than a double's
    try:
        if element.name.startswith("complex"):
            number = complex(value) if _is_one(value) and _is_complex(value) else complex(_real(element, value, is_narrow))
            return struct.pack("<ff" if element.itemsize == 8 else "<dd", number.real, number.imag)
        if element.format in "efd":
            return struct.pack("<" + element.format, _real(element, value, is_narrow))  # with "<", as others give infinities
        number = _integer(element, value)
        if element.name == "bool" and number not in (0, 1):
            raise _refuse_range(element, value)
        return struct.pack("<" + element.format, number)
    except (struct.error, OverflowError):
        raise _refuse_range(element, value) from None


def unpack(element: ElementType, data: bytes) -> Any:
    """One element as Python's own number; of a struct, NumPy's scalar."""
    if element.name.startswith("complex"):
        return complex(*struct.unpack("ff" if element.itemsize == 8 else "dd", data))
    if element.name == "bfloat16":
        return struct.unpack("<f", b"\0\0" + data)[0]
    if element.format:
        return struct.unpack(element.format, data)[0]
    return numpy(f"An element of dtype {element.name}").frombuffer(data, numpy_dtype(element))[0]
