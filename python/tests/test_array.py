"""Arrays: making, reading, writing, views, what is refused."""
import array as python_array
import gc
import operator
import weakref

import numpy as np
import pergola as pg
import pytest

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4)])
def test_round_trip(dtype, shape):
    host = (np.arange(np.prod(shape, dtype=int)) % 100).astype(dtype).reshape(shape)
    x = pg.array(host)
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize) == (
        shape, host.dtype, host.ndim, host.size, host.nbytes, host.itemsize)
    assert x.strides == host.strides or host.size == 0
    for back in (x.numpy(), np.asarray(x), np.array(x), x.copy().numpy(), pg.array(x).numpy()):
        assert back.dtype == host.dtype and back.shape == host.shape and (back == host).all()
    assert x.tolist() == host.tolist() and x.tobytes() == host.tobytes()


def test_what_numpy_gives_is_a_copy():
    x = pg.ones(4, "f4")
    first = x.numpy()
    first[0] = 7
    x.fill(2)
    assert first.tolist() == [7, 1, 1, 1] and x.tolist() == [2] * 4


def test_the_source_may_change_at_once():
    host = np.ones(1 << 20, "f4")
    x = pg.array(host)
    host[:] = 2
    assert (x.numpy() == 1).all()


@pytest.mark.parametrize("make, expected", [
    (lambda: pg.zeros(3), np.zeros(3)), (lambda: pg.ones((2, 2), "i4"), np.ones((2, 2), "i4")),
    (lambda: pg.full(3, 7), np.full(3, 7)), (lambda: pg.full(3, 0.5), np.full(3, 0.5)),
    (lambda: pg.full(3, 1, "f4"), np.full(3, 1, "f4")), (lambda: pg.full((2, 1), np.float32(2)), np.full((2, 1), 2, "f4")),
    (lambda: pg.full(2, 1j), np.full(2, 1j)), (lambda: pg.full(2, True), np.full(2, True)),
    (lambda: pg.zeros_like(pg.ones((2, 3), "i2")), np.zeros((2, 3), "i2")),
    (lambda: pg.ones_like(np.zeros((2, 3), "f4")), np.ones((2, 3), "f4")),
    (lambda: pg.full_like(pg.ones(2, "f4"), 3), np.full(2, 3, "f4")),
    (lambda: pg.zeros_like(pg.ones(2, "f4"), "u1"), np.zeros(2, "u1")),
    (lambda: pg.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])), (lambda: pg.array(5), np.array(5)),
    (lambda: pg.array([1, 2], "f4"), np.array([1, 2], "f4")), (lambda: pg.array(range(4), np.uint8), np.arange(4, dtype="u1")),
    (lambda: pg.array(python_array.array("d", [1, 2])), np.array([1.0, 2.0])), (lambda: pg.array(b"ab"), np.array([97, 98], "u1")),
    (lambda: pg.array(memoryview(b"ab")), np.array([97, 98], "u1")),
    (lambda: pg.array(np.arange(3), float), np.arange(3.0)), (lambda: pg.array(pg.ones(3), "i4"), np.ones(3, "i4"))])
def test_making(make, expected):
    made = make()
    assert made.dtype == expected.dtype and made.shape == expected.shape and (made.numpy() == expected).all()


@pytest.mark.parametrize("name", ["empty", "zeros", "ones", "full"])
@pytest.mark.parametrize("wrong", [[1, 2], 3, None])
def test_what_a_new_array_is_to_be_like_has_a_shape_and_a_dtype(name, wrong):
    says = rf"{name}_like\(\) takes an array, .* a {type(wrong).__name__} has none: pergola\.{name}\(shape, \.\.\.\)"
    with pytest.raises(TypeError, match=says):
        getattr(pg, name + "_like")(wrong, *([1] if name == "full" else []))


def test_structs():
    dtype = np.dtype([("position", "f4", 3), ("id", "i4")])
    host = np.zeros(5, dtype)
    host["id"] = range(5)
    x = pg.array(host)
    assert x.dtype == dtype and (x.numpy() == host).all() and x[3]["id"] == 3
    x[1] = host[4]
    assert x.numpy()["id"].tolist() == [0, 4, 2, 3, 4]
    x.fill(host[2])
    assert x.numpy()["id"].tolist() == [2] * 5


@pytest.mark.parametrize("source, error, says", [
    (np.ones((4, 4))[:, 1], ValueError, "ascontiguousarray"), (np.ones((4, 4)).T, ValueError, "ascontiguousarray"),
    (np.ones(4)[::-1], ValueError, "not contiguous"), (memoryview(b"abcd")[::2], ValueError, "not contiguous"),
    (np.array([object()]), TypeError, "array of numbers"), (np.array(["a"]), TypeError, "no elements of dtype"),
    (np.ones(3, ">f4"), TypeError, "byte order"), ([[1], [2, 3]], ValueError, ""), (None, TypeError, ""),
    (np.array(["2020"], "M8[D]"), TypeError, "no elements of dtype")])
def test_what_cannot_be_an_array_is_refused(source, error, says):
    with pytest.raises(error, match=says):
        pg.array(source)


@pytest.mark.parametrize("shape, error", [(-1, ValueError), ((2, -3), ValueError), (1.5, TypeError), ("3", TypeError),
                                          (1 << 62, MemoryError), ((1 << 40, 1 << 40), (MemoryError, OverflowError))])
def test_wrong_shapes(shape, error):
    with pytest.raises(error):
        pg.empty(shape, "f4")


def test_shapes_without_elements_are_numpys():
    for shape, dtype in (((0, 2**60 - 1), "f8"), ((2**62, 0), "u1"), ((0, 2**31, 2**31), "u1"), ((0, 0), "f4")):
        assert pg.empty(shape, dtype).shape == pg.zeros(shape, dtype).numpy().shape == np.empty(shape, dtype).shape
    for shape, dtype in (((0, 2**70), "f4"), ((0, 2**60), "f8"), ((2**32, 0, 2**31), "u1"), ((2**63, 0), "u1")):
        with pytest.raises((ValueError, OverflowError)):
            np.empty(shape, dtype)
        for make in (lambda: pg.empty(shape, dtype), lambda: pg.zeros(shape, dtype), lambda: pg.empty(0, dtype).reshape(shape)):
            with pytest.raises(ValueError, match=r"has no elements, and its other extents make up 2\*\*63 bytes or more"):
                make()
    with pytest.raises(pg.OutOfMemory, match="more than any device has"):
        pg.empty((2, 2**70))


def test_dtypes_by_every_name():
    for name in ("float32", "f4", "<f4", np.float32, np.dtype("f4"), "single"):
        assert pg.zeros(1, name).dtype_name == "float32"
    assert pg.zeros(1).dtype_name == "float64" and pg.zeros(1, int).dtype_name == "int64"
    assert pg.zeros(2, "bfloat16").nbytes == 4
    for wrong in ("float33", "O", ">f4", "U3"):
        with pytest.raises(TypeError):
            pg.zeros(1, wrong)


@pytest.mark.parametrize("count", [40, 100_000])
def test_parts_are_filled_in_place(count):
    """Small ones from the host, large ones by the device; what is beside them stays."""
    host = np.arange(3 * count, dtype="f8").reshape(3, count)
    session = pg.Session()
    x = session.array(host)
    x[1] = 0.1
    x[2, 5:count - 7].fill(-2)
    x[0][:0].fill(9)
    host[1], host[2, 5:count - 7] = 0.1, -2
    assert (x.numpy() == host).all()
    assert session.dag().dot().count('label="fill') == (2 if count > 40 else 0)


@pytest.mark.parametrize("index, elements", [
    (slice(4, None), 12), (slice(2, 2), 6), (slice(3, 1), 9), (slice(9, None), 12), ((1, slice(3, 3)), 6), ((slice(4, 4), slice(3, 3)), 12),
    ((3, slice(0, 0)), 9), ((slice(1, 1), 2), 5)], ids=str)
def test_an_empty_view_is_at_its_place(index, elements):
    """x[n:] is the end that a kernel stops at; never one beyond it."""
    x = pg.zeros((4, 3), "i4")
    part = x[index]
    assert part.shape == np.zeros((4, 3))[index].shape and part.nbytes == 0
    assert part.address - x.address == 4 * elements
    part.fill(1)
    x[index] = 2
    assert not x.numpy().any()


# ── Views ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

INDICES = [0, -1, slice(None), slice(1, 3), slice(-2, None), slice(2, 1), slice(0, 100), (1, 2), (0, slice(1, 3)), (1, 0, 3),
           (1, 0, slice(2)), Ellipsis, (), (-1, -1, -1), np.int64(1)]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index):
    host = np.arange(4 * 3 * 5, dtype="i4").reshape(4, 3, 5)
    x = pg.array(host)
    part, expected = x[index], host[index]
    assert np.shape(part) == np.shape(expected)
    if isinstance(part, pg.Array):
        assert (part.numpy() == expected).all() and part.strides == expected.strides or expected.size == 0
        part.fill(-1)
        expected[...] = -1
    else:
        assert type(part) is int and part == expected
        x[index] = -1
        host[index] = -1
    assert (x.numpy() == host).all()


@pytest.mark.parametrize("index, error", [
    (4, IndexError), (-5, IndexError), ((0, 3), IndexError), ((0, 0, 0, 0), IndexError), (slice(None, None, 2), ValueError),
    (slice(None, None, -1), ValueError), ((slice(None), 0), ValueError), (1.0, TypeError), ("a", TypeError),
    ([0, 1], TypeError), (np.array([True] * 4), TypeError), (None, TypeError), ((Ellipsis, 0), ValueError)])
def test_indices_that_are_refused(index, error):
    x = pg.zeros((4, 3, 5), "i4")
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x[index] = 1
    assert not x.numpy().any()


def test_views_share_memory_and_keep_it(saxpy):
    x = pg.zeros((4, 8), "f4")
    row, address = x[2], x.address
    assert row.address == address + 64 and x[1:3][1].address == row.address
    ones = pg.ones(8, "f4")
    saxpy[8](3.0, ones, row, 8)
    saxpy[4](1.0, ones, x[2, 4:], 4)
    assert x.numpy().tolist() == [[0] * 8] * 2 + [[3] * 4 + [4] * 4] + [[0] * 8]
    del x
    gc.collect()
    assert row.tolist() == [3] * 4 + [4] * 4


@pytest.mark.parametrize("value, expected", [
    (5, [[0, 0], [5, 5], [5, 5]]), (np.float32(5), [[0, 0], [5, 5], [5, 5]]), (np.array(5), [[0, 0], [5, 5], [5, 5]]),
    ([[1, 2], [3, 4]], [[0, 0], [1, 2], [3, 4]]), (np.array([[1, 2], [3, 4]]), [[0, 0], [1, 2], [3, 4]])])
def test_assignment(value, expected):
    x = pg.zeros((3, 2), "f4")
    x[1:] = value
    assert x.tolist() == expected
    y = pg.zeros((3, 2), "f4")
    y[1:] = x[1:]
    assert y.tolist() == expected
    y[...] = pg.session(device="cpu").array(x.numpy())
    assert y.tolist() == expected
    assert pg.zeros((3, 2), "f4").copy_from(x.numpy()).tolist() == expected


def test_wrong_assignments():
    x = pg.zeros((3, 2), "f4")
    for wrong in ([1, 2], np.ones((2, 3)), pg.ones((3, 2)), pg.ones(6, "f4"), np.ones((3, 4), "f4")[:, ::2]):
        with pytest.raises(ValueError):
            x[...] = wrong
    with pytest.raises(TypeError):
        pg.zeros(2, "i4")[0] = 1.5
    with pytest.raises(OverflowError):
        pg.zeros(2, "u1")[0] = 256
    with pytest.raises(OverflowError):
        pg.zeros(2, "i1").fill(-129)
    assert not x.numpy().any()


@pytest.mark.parametrize("value, dtype, error, says", [
    (1e300, "f4", OverflowError, "dtype float32 cannot hold 1e\\+300"), (1e5, "f2", OverflowError, "float16"),
    (complex(1, 1e300), "c8", OverflowError, "complex64"), (10**400, "f8", OverflowError, r"float64 cannot hold 1000.*\.\.\."),
    pytest.param(10**5000, "f8", OverflowError, "an int of 16610 bits", id="5000 digits"),
    (None, None, TypeError, "float64 is a number; None"), ("a", None, TypeError, "a number; 'a'"),
    ("1", "i4", TypeError, "an integer; '1'"), ("1", "c8", TypeError, "a number; '1'"), ("a", "?", TypeError, "True or False"),
    ([1, 2, 3], None, TypeError, r"a number; \[1, 2, 3\]"), (np.ones(1), None, TypeError, "a number"),
    (1j, "f4", TypeError, r"float32 has no imaginary part; the complex 1j is given: take x\.real"),
    (0j, "i4", TypeError, "int32 has no imaginary part; the complex 0j"), (np.complex64(1j), "f4", TypeError, "the complex64 .*1j"),
    (np.array(1j), "f4", TypeError, "float32 has no imaginary part"), (np.float32(1.5), "i4", TypeError, "int32 is an integer; 1.5"),
    (float("nan"), "i4", TypeError, "int32 is an integer; nan"), (float("-inf"), "u8", TypeError, "uint64 is an integer; -inf"),
    (np.float16("inf"), "i1", TypeError, "int8 is an integer"), (np.longdouble("nan"), "i8", TypeError, "int64 is an integer"),
    (float("nan"), "?", OverflowError, "bool cannot hold nan"), (np.longdouble("1e4000"), "f8", OverflowError, "float64"),
    (2, "?", OverflowError, "bool cannot hold 2"), (2**70, "i8", OverflowError, "int64"), (None, "i4", TypeError, "integer"),
    (1e39, "bfloat16", OverflowError, "bfloat16"), (1j, "bfloat16", TypeError, "bfloat16"),
    (np.ma.masked, "f4", ValueError, "filled")])
def test_what_an_element_cannot_hold_is_refused_by_dtype_and_value(value, dtype, error, says):
    with pytest.raises(error, match=says):
        pg.full(3, value, dtype)
    x = pg.zeros((2, 2), "f8" if dtype is None else dtype)
    for index in ((0, 0), slice(0, 1)):
        with pytest.raises((error, TypeError, ValueError)):
            x[index] = value
    assert not any(x.tobytes())


def test_numbers_of_every_kind_are_elements():
    import decimal
    import fractions

    assert pg.full(2, fractions.Fraction(1, 4), "f4").tolist() == [0.25] * 2
    assert pg.full(2, decimal.Decimal("0.5"), "c8").tolist() == [0.5] * 2
    assert pg.full(2, np.True_, "i4").tolist() == [1] * 2 and pg.full(2, np.array(3)).tolist() == [3] * 2
    assert pg.full(2, np.float32("inf"), "f2").tolist() == [float("inf")] * 2
    assert pg.full(2, np.complex64(1j)).dtype_name == "complex64" and pg.full(2, True, "?").tolist() == [True] * 2
    assert pg.full(2, 0.1, "f4").tolist() == [float(np.float32(0.1))] * 2
    assert pg.full(2, 3.0, "i4").tolist() == pg.full(2, np.float64(3), "u1").tolist() == [3] * 2
    assert pg.full(2, 1.0, "?").tolist() == [True] * 2


@pytest.mark.parametrize("dtype, bits", [("f2", 11), ("bfloat16", 8), ("f4", 24), ("c8", 24)])
def test_numbers_are_rounded_once(dtype, bits):
    """What lies just above the middle of two values, by less than a double shows, is the upper one."""
    shift = 61 - bits if dtype != "f2" else 4
    middle = (1 << bits - 1 << shift) + (1 << shift - 1)
    if dtype != "f2":
        values = (middle + 1, np.longdouble(middle) + 1)
        if middle < 2**63:
            values += (np.int64(middle + 1), np.array(middle + 1))
    else:  # whose range ends below 2**53
        values = (np.longdouble(middle) + np.longdouble(2) ** -48, )
    expected = (1 << bits - 1 << shift) + (1 << shift)
    for value in values:
        assert pg.full(1, value, dtype).tolist() == [expected]
        assert pg.array(np.array([value]), dtype).tolist() == [expected]
    assert pg.full(1, middle, dtype).tolist() == [1 << bits - 1 << shift]


STRUCT = np.dtype([("a", "i4"), ("b", "f4"), ("c", [("d", "u1"), ("e", "f8", (2,))])], align=True)


def test_structs_are_made_of_tuples():
    rows = [(1, 2.5, (3, [4, 5])), (6, 7.5, (8, (9, 10)))]
    for made in (pg.array(rows, STRUCT), pg.zeros(2, STRUCT).copy_from(rows), pg.array(np.array(rows, STRUCT), STRUCT)):
        assert made.shape == (2,) and (made.numpy() == np.array(rows, STRUCT)).all()
    assert pg.array(rows[0], STRUCT).shape == () and pg.array([rows, rows], STRUCT).shape == (2, 2)
    assert pg.array([], STRUCT).shape == (0,) and pg.array([np.zeros(2, STRUCT), np.ones(2, STRUCT)], STRUCT).shape == (2, 2)
    nested = np.dtype([("s", [("x", "i4"), ("y", "i4")], (2,))])
    assert pg.array([([(1, 2), (3, 4)],)], nested).numpy()["s"]["y"].tolist() == [[2, 4]]
    with pytest.raises(TypeError, match="byte order"):
        pg.zeros(2, [("a", ">f8", (2,))])
    with pytest.raises(TypeError, match="frombuffer"):
        pg.array(bytes(16), STRUCT)
    x = pg.zeros(3, STRUCT)
    x[0], x[1] = rows[0], np.array(rows, STRUCT)[1]
    x[2:].fill(rows[1])
    assert (x.numpy() == np.array([*rows, rows[1]], STRUCT)).all()
    with pytest.raises(ValueError, match="rows differ"):
        pg.array([rows, rows[:1]], STRUCT)
    assert (pg.ones(2, STRUCT).numpy() == np.ones(2, STRUCT)).all() and not any(x.fill(0).tobytes())
    other = np.dtype([("a", "i8"), ("b", "f8"), ("c", [("d", "i2"), ("e", "f4", (2,))])])
    assert (pg.array(np.array(rows, other), STRUCT).numpy() == np.array(rows, STRUCT)).all(), "field by field"


@pytest.mark.parametrize("value, error, says", [
    ((300, 1, (256, [1, 2])), OverflowError, "uint8 cannot hold 256"), ((1.5, 1, (1, [1, 2])), TypeError, "int32 is an integer"),
    ((1, 1j, (1, [1, 2])), TypeError, "float32 has no imaginary part; the complex 1j"), ((1, 1), TypeError, "a tuple of 3 values"), ([], TypeError, "tuple"),
    ((1, 1, (1, [1, 2, 3])), TypeError, r"has the shape \(2,\)"), ((1, 1, "a"), TypeError, "a tuple of 2 values"),
    ("a", TypeError, "tuple"), (300, OverflowError, "uint8"), (np.zeros((), [("a", "i4")]), TypeError, "tuple")])
def test_structs_refuse_what_their_fields_do(value, error, says):
    x = pg.zeros(2, STRUCT)
    with pytest.raises(error, match=says):
        x[0] = value
    with pytest.raises(error, match=says):
        x.fill(value)
    if isinstance(value, tuple):
        with pytest.raises(error, match=says):
            pg.array([value], STRUCT)
    assert not any(x.tobytes())
    with pytest.raises(OverflowError, match="300"):
        pg.array(np.array([(300, 1.5)], [("a", "i4"), ("b", "f8")]), [("a", "u1"), ("b", "i4")])
    text = pg.array([(b"ab",)], [("t", "S2")])
    assert text.numpy()["t"].tolist() == [b"ab"]
    with pytest.raises(TypeError, match="abc"):
        text[0] = (b"abc",)


def test_dtypes_with_axes_or_no_bytes_are_refused():
    for dtype, says in ((("f4", 3), "the last of the shape"), (np.dtype([]), "no bytes")):
        with pytest.raises(TypeError, match=says):
            pg.zeros(4, dtype)


def test_integers_that_no_dtype_of_numpys_holds():
    assert pg.array([2**70, -1], "f8").tolist() == [2.0**70, -1] and pg.array([[2**100]], "f4").tolist() == [[2.0**100]]
    assert pg.array([2**70], "bfloat16").tolist() == pg.zeros(1, "bfloat16").copy_from([2**70]).tolist() == [2.0**70]
    for wrong in (np.array([1, 2], object), [np.array([1], object)]):
        with pytest.raises(TypeError, match="not an array of numbers"):
            pg.array(wrong)
    with pytest.raises(OverflowError, match="2361183241434822606848.*dtype"):
        pg.array([1, 2**71])
    with pytest.raises(OverflowError, match="float32"):
        pg.array([2**200], "f4")
    with pytest.raises(TypeError, match="not an array of numbers"):
        pg.array([2**70, "a"], "f8")


def test_what_has_the_buffer_protocol_is_converted_as_numpys_arrays_are():
    source = python_array.array("f", [1, 2.5])
    assert pg.array(source, "f8").tolist() == pg.zeros(2).copy_from(source).tolist() == [1, 2.5]
    with pytest.raises(TypeError, match="2.5"):
        pg.array(source, "i4")


def test_copies_by_every_name():
    import copy
    import pickle

    x = pg.array(np.arange(6.0))
    for twin in (x.copy(), copy.copy(x), copy.deepcopy([x])[0]):
        twin[0] = 9
        assert x[0] == 0 and twin.tolist()[1:] == x.tolist()[1:]
    with pytest.raises(TypeError, match=r"pickle x.numpy\(\)"):
        pickle.dumps(x)
    x[...] = x
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[:-1] = x[1:]
    assert x.tolist() == [0, 1, 2, 3, 4, 4]
    for wrong in (True, np.True_):
        with pytest.raises(TypeError, match="not by bool"):
            x[wrong]


def test_arrays_are_not_compared():
    x, y = pg.ones(3), pg.ones(3)
    assert x == x and not x != x and not x == None and x != None  # noqa: E711
    for wrong in (lambda: x == y, lambda: x != y, lambda: x == 1.0, lambda: 1.0 != x, lambda: x == [1, 1, 1],
                  lambda: np.ones(3) == x, lambda: x == "a", lambda: [x].index(y), lambda: 1.0 in pg.ones((2, 2))):
        with pytest.raises(TypeError, match=r"\.numpy\(\)"):
            wrong()
    assert x in [x] and [y, x].index(y) == 0 and 1.0 in x and 2.0 not in x


def test_reshape_iteration_and_truth():
    x = pg.array(np.arange(6, dtype="i4"))
    with pytest.raises(ValueError, match=r"the shape \(-1, 4\)"):
        x.reshape(-1, 4)
    assert x.reshape(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]] and x.reshape((3, -1)).shape == (3, 2)
    assert x.reshape(np.int64(6)).shape == (6,) == x.reshape(np.array(6)).shape and x.reshape(np.array([2, 3])).shape == (2, 3)
    assert [row.tolist() for row in x.reshape(3, 2)] == [[0, 1], [2, 3], [4, 5]] and list(x) == list(range(6))
    for wrong in ((4,), (-1, 4), (-1, -1), (6, 0)):
        with pytest.raises(ValueError):
            x.reshape(wrong)
    for wrong in ("ab", 2.0, (2, 3.0), None):
        with pytest.raises(TypeError, match="A shape is ints, or a sequence of ints"):
            x.reshape(wrong)
    with pytest.raises(TypeError, match="A shape is ints"):
        x.reshape(2, "3")
    with pytest.raises(ValueError, match=r"1 element cannot have the shape \(2,\)"):
        x[:1].reshape(2)
    assert len(x) == 6 and 3 in x and bool(x[1:2]) and not bool(x[:1]) and x[5:].item() == 5
    for wrong in (lambda: bool(x), lambda: x.item(), lambda: bool(x[:0])):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: len(pg.array(1)), lambda: iter(pg.array(1)), lambda: hash(x)):
        with pytest.raises(TypeError):
            wrong()
    assert repr(x) == f"pergola.Array(shape=(6,), dtype=int32, device={pg.device().id!r}, number={x.number})"
    with pytest.raises(ValueError, match="from_dlpack"):
        x.__array__(copy=False)


# ── The end of memory ─────────────────────────────────────────────────────────────────────────────────────────────────

def test_use_after_free_is_an_error_not_a_crash(saxpy):
    x, y = pg.ones((2, 4), "f4"), pg.zeros((2, 4), "f4")
    row = x[1]
    saxpy[8](1.0, x, y, 8)
    x.free()
    x.free()
    assert x.freed and row.freed and "freed" in repr(x) and not y.freed
    for use in (x.numpy, row.numpy, lambda: x.fill(1), lambda: row.fill(1), lambda: x[0, 0], lambda: x.copy(),
                lambda: x.address, lambda: saxpy[4](1.0, x, y, 4), lambda: saxpy[4](1.0, y, row, 4),
                lambda: y.copy_from(x), lambda: x.copy_from(y), lambda: x.tolist()):
        with pytest.raises(pg.FailedPrecondition, match="freed"):
            use()
    with pytest.raises(pg.FailedPrecondition, match=r"^Argument 2 \(parameter .*\) of kernel 'saxpy' is an array that was freed"):
        saxpy[4](1.0, y, row, 4)
    assert (y.numpy() == 1).all(), "work in flight keeps what it uses"
    other = pg.zeros(3)
    other[1:].free()
    assert other.freed


def test_arrays_and_sessions_go_in_any_order():
    session = pg.session(device="cpu")
    x = session.ones(4)
    del session
    gc.collect()
    assert x.session.device.id == "cpu" and x.tolist() == [1] * 4


def test_out_of_memory_is_an_error():
    with pytest.raises(pg.OutOfMemory):
        pg.empty(pg.device().memory_bytes + 1, "u1")
    assert issubclass(pg.OutOfMemory, MemoryError)


def test_sessions_as_contexts():
    outer = pg.session()
    with pg.session(device="cpu") as inner:
        assert pg.session() is inner and pg.zeros(3).session is inner
        with inner:
            assert pg.session() is inner
        assert pg.session() is inner
    assert pg.session() is outer
    with pytest.raises(RuntimeError):
        with pg.session(device="cpu"):
            raise RuntimeError
    assert pg.session() is outer
    x = pg.array(inner.full((2, 2), 3))
    assert x.session is outer and x.tolist() == [[3, 3], [3, 3]]
    assert pg.array(inner.ones(2, "bfloat16")).tolist() == pg.zeros(2, "bfloat16").copy_from(inner.ones(2, "bfloat16")).tolist() \
        == [1, 1]


def test_a_session_that_has_its_own_arrays_is_collected():
    class Own(pg.Session):
        pass

    session = Own("cpu")
    session.arrays = [session.zeros(3), session.zeros(4)[1:], session.record()]
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None


def test_copies_between_sessions_by_assignment():
    a, b = pg.session(device="cpu"), pg.session(device="cpu")
    x, y = a.full(4, 2.0), b.zeros(4)
    y[1:3] = x[:2]
    assert y.tolist() == [0, 2, 2, 0]


def test_arrays_can_be_weakly_referenced_and_are_gone_at_once():
    x = pg.zeros(4)
    view, gone = x[1:], weakref.ref(x)
    del x
    assert view.tolist() == [0] * 3 and gone() is not None, "a view keeps the array that has the memory"
    del view
    assert gone() is None


@pytest.mark.parametrize("key", [
    np.s_[:, :], np.s_[0:2, :], np.s_[:, :, :], np.s_[1, :], np.s_[1, 1:3, :], np.s_[1, :, :], np.s_[1:2, 1:3], np.s_[1:2, 1],
    np.s_[0, ...], np.s_[..., :], np.s_[0, 1, ...], np.s_[0, 1, 2, ...], np.s_[..., 0:4], np.s_[1:1, 1], np.s_[:, 1:1],
    np.s_[2:, 0:2], np.s_[1, 0:0, 3], np.s_[...], np.s_[-1:, ..., 1:3], np.s_[0:1, 0:1, 2:4]], ids=str)
def test_what_is_contiguous_can_be_selected(key):
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    x = pg.array(values)
    expected = values[key]
    if not (values[key].flags.c_contiguous or not values[key].size):
        with pytest.raises(ValueError, match="not contiguous"):
            x[key]
        return
    part = x[key]
    assert isinstance(part, pg.Array) and part.shape == expected.shape
    assert part.tolist() == expected.tolist()
    x[key] = -1.0
    values[key] = -1
    assert x.tolist() == values.tolist()


@pytest.mark.parametrize("key", [np.s_[:, 0], np.s_[..., 0], np.s_[0:2, 0:2], np.s_[:, :, 0:2], np.s_[0, :, 1]], ids=str)
def test_what_is_not_contiguous_is_refused(key):
    with pytest.raises(ValueError, match="not contiguous"):
        pg.zeros((2, 3, 4))[key]
    assert pg.zeros((2, 1, 1))[:, 0, 0].shape == (2,), "it is"


def test_one_ellipsis():
    with pytest.raises(IndexError, match="one Ellipsis"):
        pg.zeros((2, 3))[..., ...]
    with pytest.raises(IndexError, match="3 indices"):
        pg.zeros((2, 3))[0, ..., 0, 0]
    assert pg.zeros((2, 3))[0, ..., 0].shape == ()


@pytest.mark.parametrize("shape", [3.0, (3, 2.0), "ab", None, object()])
def test_a_shape_is_ints(shape):
    with pytest.raises(TypeError, match="A shape is an int or a sequence of ints"):
        pg.empty(shape)


def test_arithmetic_is_refused_and_says_what_to_do():
    x, y = pg.ones(8, "f4"), np.ones(8, "f4")
    others = (y, y[0], np.ma.array(y), np.float64(2), 1, 2.0, 1j, True, [1], x)
    binary = (operator.add, operator.sub, operator.mul, operator.matmul, operator.truediv, operator.floordiv, operator.mod,
              divmod, operator.pow, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor)
    in_place = [getattr(operator, f"i{name}") for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow",
                                                           "lshift", "rshift", "and", "or", "xor")]
    for does in (*binary, *in_place):
        for other in others:
            for operands in ((x, other), (other, x)):
                if does in binary or operands[0] is x or (operands[0] is y and does is not operator.imatmul):  # NumPy's own
                    with pytest.raises(TypeError, match=r"have no arithmetic.*x.numpy\(\)"):
                        does(*operands)
    assert x.tolist() == y.tolist() == [1] * 8
    for taken in (np.sin(x), np.add(x, 1), np.sum(x)):
        assert isinstance(taken, (np.ndarray, np.number)), "NumPy's own functions copy"


def test_arithmetic_is_another_librarys_where_it_has_it():
    class Lazy:
        def __radd__(self, other):
            return "sum"

    x = pg.ones(8)
    assert x + Lazy() == "sum"
    with pytest.raises(TypeError, match="have no arithmetic"):
        x - Lazy()
    with pytest.raises(TypeError, match="have no arithmetic"):
        x += Lazy()


def test_the_only_element_as_a_number():
    assert complex(pg.array(1 + 2j)) == 1 + 2j and complex(pg.full((1, 1), 2.5)) == 2.5
    with pytest.raises(ValueError, match="one element"):
        complex(pg.ones(2))
    assert float(pg.full(1, 2.5)) == 2.5 and int(pg.full((1, 1), 7)) == 7 and int(pg.full((), 2.5)) == 2
    with pytest.raises(ValueError, match="one element"):
        float(pg.ones(2))
    with pytest.raises(ValueError, match="one element"):
        int(pg.ones(0))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f4", "f8", "?"])
def test_a_host_buffer_has_the_shape_and_format(dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    x = pg.array(values)
    view = x.host_buffer()
    assert view.shape == (2, 3) and view.c_contiguous and not view.readonly
    assert (np.asarray(view) == values).all() and np.asarray(view).dtype == values.dtype
    view[1, 2] = values[0, 1].item()
    assert x[1, 2] == values[0, 1]


def test_a_host_buffer_without_a_format_is_of_bytes():
    x = pg.array(np.array([1 + 2j, 3], "c16"))
    assert pg.zeros(3, "f2").host_buffer().format == "B"
    assert x.host_buffer("r").format == "B" and bytes(x.host_buffer("r")) == x.tobytes()
    assert pg.zeros((3, 0), "f4").host_buffer().nbytes == 0
    with pytest.raises(ValueError, match=r"host_buffer\(\) takes 'r', 'w' or 'rw', not 'x'"):
        x.host_buffer("x")
    with pytest.raises(ValueError, match=r"take host_buffer\('rw'\) of a view"):
        x[:1].host_buffer("w")
