"""Element types, with or without NumPy.

An ElementType says how the library, NumPy, the buffer protocol and DLPack each call it. NumPy is imported when somebody
asks for something of it, never by `import pergola`.
"""
from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

if TYPE_CHECKING:
    import numpy as np

    DTypeLike = Union["ElementType", str, type, np.dtype[Any], None]
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
        raise ImportError(f"{what} needs NumPy, which is not installed (pip install numpy).") from error
    return np


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
    if given.name in _BY_NAME and given.isnative:
        return _BY_NAME[given.name]
    if given.hasobject or not given.isnative or given.kind not in "V":
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
        raise TypeError(f"DLPack's type (code {code}, {bits} bits, {lanes} lanes) is none that arrays have.")
    return found


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
    return np.dtype(element.name)


def pack(element: ElementType, value: Any) -> bytes:
    """One element's bytes."""
    if element.name.startswith("complex"):
        number = complex(value)
        return struct.pack("ff" if element.itemsize == 8 else "dd", number.real, number.imag)
    if element.format:
        if element.format not in "efd":
            if isinstance(value, float):
                raise TypeError(f"An element of dtype {element.name} is an integer; {value!r} is given.")
            try:
                return struct.pack(element.format, value)
            except struct.error as error:
                raise OverflowError(f"An element of dtype {element.name} cannot hold {value!r}.") from error
        return struct.pack(element.format, value)
    if isinstance(value, (bytes, bytearray)) and len(value) == element.itemsize:
        return bytes(value)
    return bytes(numpy(f"An element of dtype {element.name}").array(value, numpy_dtype(element)).tobytes())


def unpack(element: ElementType, data: bytes) -> Any:
    """One element as Python's own number; of a struct, NumPy's scalar."""
    if element.name.startswith("complex"):
        return complex(*struct.unpack("ff" if element.itemsize == 8 else "dd", data))
    if element.format:
        return struct.unpack(element.format, data)[0]
    return numpy(f"An element of dtype {element.name}").frombuffer(data, numpy_dtype(element))[0]
