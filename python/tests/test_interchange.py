"""DLPack, __cuda_array_interface__ and __cuda_stream__, with NumPy on the CPU device and a fake driver for a GPU."""
import ctypes
import gc
import sys

import numpy as np
import pergola as pg
import pytest
from pergola import _core
from conftest import on_cpu, run_child
from fake_gpu import needs_fake, run_on_fake_gpu

shared_with_numpy = on_cpu("memory that is NumPy's to share")


@shared_with_numpy
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0, 4)])
def test_numpy_shares_the_cpu_devices_memory(dtype, shape):
    x = pg.array(np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape))
    shared = np.from_dlpack(x)
    assert shared.dtype == x.dtype and shared.shape == shape and (shared == x.numpy()).all()
    if x.size:
        assert shared.__array_interface__["data"][0] == x.address
        x.fill(1)
        pg.synchronize()
        assert (shared == 1).all()


@shared_with_numpy
def test_a_consumer_keeps_the_memory_and_free_is_refused_meanwhile():
    x = pg.ones((4, 4), "f4")
    row = np.from_dlpack(x[2])
    with pytest.raises(BufferError, match="1 consumer shares its memory"):
        x.free()
    del x
    gc.collect()
    assert row.tolist() == [1] * 4
    y = pg.ones(4)
    shared = np.from_dlpack(y)
    del shared
    y.free()
    assert y.freed


@shared_with_numpy
def test_an_array_that_another_thread_has_freed_meanwhile_is_not_exported():
    x = pg.ones(4, "f4")
    view = x[1:]
    x.free()  # between __dlpack__()'s wait and what follows
    for freed in (x, view):
        with pytest.raises(pg.FailedPrecondition, match="freed"):
            _core.dlpack_export(freed, (3,), (2, 32), (1, 0), True, False)


@shared_with_numpy
def test_export_waits_for_work(saxpy):
    x, y = pg.ones(1 << 20, "f4"), pg.zeros(1 << 20, "f4")
    saxpy[1 << 20](3.0, x, y, 1 << 20)
    assert (np.from_dlpack(y) == 3).all()


@shared_with_numpy
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_capsules_of_both_kinds_and_who_frees_them(version):
    x = pg.ones(4, "f4")
    before = sys.getrefcount(x)
    capsule = x.__dlpack__(max_version=version)
    assert ("dltensor_versioned" in repr(capsule)) == (version is not None and version >= (1, 0))
    assert sys.getrefcount(x) == before + 1
    address, shape, strides, dtype, device, readonly, owner = pg._core.dlpack_import(capsule)
    assert (address, shape, strides, dtype, device, readonly) == (x.address, (4,), (1,), (2, 32, 1), (1, 0), 0)
    with pytest.raises(BufferError, match="consumed before"):
        pg._core.dlpack_import(capsule)
    del capsule
    assert sys.getrefcount(x) == before + 1
    del owner
    assert sys.getrefcount(x) == before
    x.__dlpack__()  # never consumed
    assert sys.getrefcount(x) == before
    x.free()


class Producer:
    """Hands on NumPy's memory as another library would; `calls` are what it was asked."""

    def __init__(self, array, device=(1, 0), old=False):
        self.array, self.device, self.old, self.calls = array, device, old, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        if self.old and "max_version" in keywords:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__()


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("host", [np.arange(6, dtype="f4").reshape(2, 3), np.zeros((0, 3)), np.array(3.0),
                                  np.arange(10)[2:5], np.ones((3, 1))], ids=str)
def test_host_memory_is_copied_in(old, host):
    source = Producer(host, old=old)
    for make in (pg.from_dlpack, pg.asarray, pg.array, lambda s: pg.from_dlpack(s, copy=True)):
        x = make(source)
        assert x.dtype == host.dtype and x.shape == host.shape and (x.numpy() == host).all()
    host_copy = host.copy()
    x.fill(9)
    pg.synchronize()
    assert (host == host_copy).all()


def test_the_producer_is_let_go():
    host = np.ones(1000)
    before = sys.getrefcount(host)
    for _ in range(10):
        pg.from_dlpack(host)
    assert sys.getrefcount(host) == before


@pytest.mark.parametrize("source, error, says", [
    (Producer(np.ones((4, 4)).T), ValueError, "not contiguous"), (Producer(np.ones(8)[::2]), ValueError, "not contiguous"),
    (Producer(np.ones(4), (2, 99)), BufferError, "another device"), (Producer(np.ones(4), (10, 0)), BufferError, "another")])
def test_what_cannot_come_in_is_refused(source, error, says):
    with pytest.raises(error, match=says):
        pg.from_dlpack(source)


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_kind", ctypes.c_int), ("device", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


@pytest.mark.parametrize("changes, says", [
    ({"ndim": 1, "shape": None}, "has 1 dimension and no shape"), ({"ndim": -1}, "-1 dimensions"), ({"ndim": 65}, "65 dimensions"), ({"ndim": 2**31 - 1}, "dimensions"),
    ({"shape": None}, "no shape"), ({"device_kind": 2}, r"device \(2, 0\), and its __dlpack_device__\(\) is \(1, 0\)")])
def test_a_tensor_that_cannot_be_is_refused(changes, says):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    numbers, shape = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_int64 * 1)(4)
    tensor = _Tensor(data=ctypes.addressof(numbers), device_kind=1, ndim=1, code=2, bits=32, lanes=1, shape=shape)

    class Source:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            return make(ctypes.addressof(tensor), b"dltensor", None)

    assert pg.from_dlpack(Source()).tolist() == [1, 2, 3, 4]
    for name, value in changes.items():
        setattr(tensor, name, value)
    with pytest.raises(BufferError, match=says):
        pg.from_dlpack(Source())


@pytest.mark.parametrize("source, says", [
    (lambda: np.ones(3).__dlpack__(), r"a PyCapsule is given: hand over the array that gave it \(x, not x\.__dlpack__\(\)\)"),
    (lambda: [1, 2], r"a list is given: pergola\.array\(x\)"), (lambda: None, "a NoneType is given")])
def test_what_speaks_no_dlpack_is_told_what_does(source, says):
    with pytest.raises(TypeError, match=r"^from_dlpack\(\) takes an array of another library, .*" + says):
        pg.from_dlpack(source())


def test_other_refusals():
    with pytest.raises(BufferError, match="has to be copied"):
        pg.from_dlpack(np.ones(3), copy=False)
    with pytest.raises(BufferError, match="no DLPack capsule"):
        pg._core.dlpack_import(3)
    with pytest.raises(BufferError, match="not \\(2, 0\\)|not \\(1, 0\\)"):
        pg.ones(3).__dlpack__(dl_device=(3 - pg.ones(1).__dlpack_device__()[0], 0))
    for given in ({"max_version": 3}, {"max_version": (1, 0, 0)}, {"dl_device": 1}, {"dl_device": ("cpu", 0)}):
        with pytest.raises(TypeError, match=r"^DLPack's (max_version|dl_device) is a tuple of two whole numbers, not "):
            pg.ones(3).__dlpack__(**given)
    with pytest.raises(OverflowError, match="it is -5"):
        pg.ones(3).__dlpack__(stream=-5)
    with pytest.raises(TypeError, match="^A stream is an object with __cuda_stream__"):
        pg.ones(3).__dlpack__(stream="a")

    class OneNumber:
        def __dlpack__(self, **_): raise AssertionError
        def __dlpack_device__(self): return 1

    with pytest.raises(TypeError, match=r"^What __dlpack_device__\(\) of a OneNumber returns is a tuple .*, not 1\."):
        pg.from_dlpack(OneNumber())
    with pytest.raises(BufferError, match="dtype"):
        pg.zeros(3, [("a", "i4")]).__dlpack__()
    with pytest.raises(BufferError, match="null"):
        pg.session(device="null").zeros(3).__dlpack__()


def test_a_gpus_array_on_the_cpu_is_refused():
    class OnGpu:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (256, False), "version": 3}

    with pg.session("cpu"):
        with pytest.raises(TypeError, match="lies on a GPU"):
            pg.asarray(OnGpu())
        assert not hasattr(pg.ones(1), "__cuda_array_interface__")


@shared_with_numpy
def test_a_consumer_that_wants_no_waiting_has_none():
    kernel = pg.kernel("""extern "C" __global__ void last(volatile int* x, volatile int* go) { while (!*go) { } *x = 7; }""")
    x, go = pg.zeros(1, "i4"), pg.zeros(1, "i4")
    x.wait(), go.wait()
    on_the_host = ctypes.c_int.from_address(go.address)
    kernel[1, 1](x, go)

    class Consumer:  # as one that orders its own work
        def __dlpack_device__(self): return x.__dlpack_device__()
        def __dlpack__(self, **asked): return x.__dlpack__(stream=-1, **asked)

    try:
        seen = np.from_dlpack(Consumer())
        assert seen[0] == 0
    finally:
        on_the_host.value = 1
    x.wait()
    assert seen[0] == 7


def test_asarray_is_the_array_itself():
    x = pg.ones(3)
    assert pg.asarray(x) is x and pg.asarray([1, 2]).tolist() == [1, 2]
    assert pg.asarray(pg.session(device="cpu").ones(3)).session is pg.session()


@shared_with_numpy
def test_the_hosts_side_of_an_array_comes_back_as_a_view_of_it():
    x = pg.array(np.arange(6, dtype="f4"))
    view = pg.from_dlpack(x.host(), copy=False)
    assert view._is_view
    view.fill(3)
    assert x.tolist() == [3] * 6
    part = pg.from_dlpack(pg.array(np.arange(6, dtype="f4"))[2:].host("r").copy())
    assert not part._is_view and part.tolist() == [2, 3, 4, 5]


def test_parts_that_overlap_are_copied_as_if_apart():
    x = pg.array(np.arange(8, dtype="f4"))
    x[2:6] = x[:4]
    assert x.tolist() == [0, 1, 0, 1, 2, 3, 6, 7]
    x[0:3] = x[3:6]
    assert x.tolist() == [1, 2, 3, 1, 2, 3, 6, 7]
    y = pg.zeros(8, "f4")
    y[:] = x
    x[:] = x
    assert x.tolist() == y.tolist() == [1, 2, 3, 1, 2, 3, 6, 7]


@shared_with_numpy
def test_what_lies_in_an_array_of_the_session_comes_back_as_a_view_of_it():
    class Part:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **_):
            return self.array.__dlpack__(max_version=(1, 0))

    x = pg.array(np.arange(12, dtype="f4").reshape(3, 4))
    for source, first in ((x, 0), (Part(x), 0), (Part(x[1]), 4), (x[2], 8), (Part(x.reshape(12)[5:8]), 5)):
        size = source.size if isinstance(source, pg.Array) else source.array.size
        for copy in (None, False):
            view = pg.from_dlpack(source, copy=copy)
            assert view._is_view and view.address == x.address + 4 * first
            assert view.reshape(size).tolist() == list(range(first, first + size))
        copied = pg.from_dlpack(source, copy=True)
        assert not copied._is_view and copied.address != view.address and copied.tolist() == view.tolist()
    row = pg.asarray(Part(x[1]))
    row.fill(7)
    assert x.tolist() == [[0, 1, 2, 3], [7] * 4, [8, 9, 10, 11]]
    with pytest.raises(BufferError, match="has to be copied"):
        pg.from_dlpack(np.ones(3), copy=False)
    other = pg.session(device="cpu")
    assert not other.from_dlpack(x)._is_view and not other.from_dlpack(Part(x))._is_view
    x.free()
    with pytest.raises(pg.FailedPrecondition, match="freed"):
        row.numpy()


def test_capsules_outlive_the_interpreter():
    run_child("""
        import numpy as np, builtins
        if pg.device().id == "cpu":
            builtins.kept = np.from_dlpack(pg.ones(5))
        builtins.capsule = pg.ones(3).__dlpack__() if pg.device().id == "cpu" else None
    """)


# ── Conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("source, dtype, error, says", [
    ([300, -1, 1.7], "u1", OverflowError, r"Element 0 of the source \(dtype float64\) is 300.0, which uint8 does not hold"),
    ([30, -1, 1.7], "u1", OverflowError, "Element 1 .* -1.0"), ([30, 1, 1.7], "u1", TypeError, "Element 2 .* 1.7, .*rint"),
    ([[1, 2], [3, 256]], "u1", OverflowError, r"Element 1, 1 of the source \(dtype int64\) is 256"), ([-1], "u8", OverflowError, "-1"),
    (np.array([2**63], "u8"), "i8", OverflowError, str(2**63)), (np.array([-1], "i1"), "u8", OverflowError, "-1"),
    ([2.0**63], "i8", OverflowError, "int64"), ([-2.0**63 * 1.5], "i8", OverflowError, "int64"), ([2.0**64], "u8", OverflowError, "uint64"),
    ([1, NAN], "i4", TypeError, "Element 1 .* nan"), (np.array([1, NAN], "g"), "i8", TypeError, "Element 1 .* nan"),
    (np.array([INF], "f2"), "i1", TypeError, "inf"), ([INF], "i8", TypeError, "inf"), (1.5, "i4", TypeError, "The source .* is 1.5"),
    (np.array([70000], "f4"), "i2", OverflowError, "70000.0"), (np.array([1000], "f2"), "i1", OverflowError, "1000.0"),
    ([1e300], "f4", OverflowError, r"1e\+300, which float32"), ([1, 10**6], "f2", OverflowError, "Element 1 .* 1000000"),
    ([1e300j], "c8", OverflowError, "complex64"), ([1, 1 + 2j], "f4", TypeError, r"\(1\+2j\).*float32 has no imaginary part: take x.real"),
    ([1j], "i4", TypeError, "imaginary"), ([1j], "bfloat16", TypeError, "imaginary"), ([0, 2], "?", OverflowError, "Element 1 .* 2"),
    ([NAN], "?", OverflowError, "nan"), ([1, 10**30], "u8", OverflowError, "Element 1 .* 1000000000"),
    ([2**64 - 1, -1], "u8", OverflowError, "Element 1 .* -1,"), (["1"], "f4", TypeError, "are no numbers"),
    (np.array(["2020"], "M8[D]"), "i8", TypeError, "are no numbers"), ([None], "f4", TypeError, "not an array of numbers"),
    ([1e39], "bfloat16", OverflowError, "bfloat16"), ([1, 3.4e38], "bfloat16", OverflowError, r"Element 1 .* 3.4e\+38")])
def test_what_a_dtype_does_not_hold_is_refused_by_value(source, dtype, error, says):
    with pytest.raises(error, match=says):
        pg.array(source, dtype)
    array = np.asarray(source)
    x = pg.zeros(array.shape, dtype)
    if array.ndim and array.dtype.kind in "biufc":
        with pytest.raises(error):
            x[...] = source
        with pytest.raises(error):
            x.copy_from(array)
        with pytest.raises(error):
            pg.array(pg.array(array), dtype)
    assert not any(x.tobytes())


@pytest.mark.parametrize("source, dtype", [
    ([255, 0], "u1"), ([-128, 127], "i1"), ([1.0, -0.0, 2.0], "i4"), ([-2.0**63, 2.0**62], "i8"),
    ([0.1, 1e-300, NAN, INF, -INF], "f4"), ([0.1], "f2"), ([0.1j], "c8"), ([1.5], "c16"), ([0, 1, 1.0], "?"), ([True], "i4"),
    ([], "i4"), ([2**62 + 1], "f4"), (np.ones(3, "u1"), "f8"), (np.zeros((0, 2)), "i4"), (np.float32([1, 2]), "u8"), (5, "u1")])
def test_what_a_dtype_holds_is_numpys(source, dtype):
    x, expected = pg.array(source, dtype), np.asarray(source).astype(dtype)
    assert x.shape == expected.shape and x.tobytes() == expected.tobytes() and x.dtype == expected.dtype


def test_lists_of_integers_are_not_taken_for_floats():
    assert pg.array([2**64 - 1, 0, True], "u8").tolist() == [2**64 - 1, 0, 1]
    assert pg.array([[2**63 - 1], [-2**63]], "i8").tolist() == [[2**63 - 1], [-2**63]]
    assert pg.array(2**64 - 1, "u8").item() == 2**64 - 1


def test_bfloat16_is_of_numbers():
    for one in (np.ones(3, "f2"), np.ones(3, "u2"), [1, 1, 1], [1.0] * 3, pg.ones(3), np.array([True] * 3)):
        assert pg.array(one, "bfloat16").tobytes().hex() == "803f803f803f"
    step = 2.0 ** -7  # from 1 to the next
    numbers = [1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2.0**-40, 1 + step / 2 - 2.0**-40, -1 - step / 2 - 2.0**-40, 0.1, NAN,
               INF, -INF, 0.0, 2.0**-133, 2.0**-134, 3 * 2.0**-135, 3.3895e38]
    rounded = [1, 1 + 2 * step, 1 + step, 1, -1 - step, 0.10009765625, NAN, INF, -INF, 0, 2.0**-133, 0, 2.0**-133, 255 * 2.0**120]
    x = pg.array(numbers, "bfloat16")
    np.testing.assert_array_equal(x.tolist(), rounded)
    for number, bits in zip(numbers, np.frombuffer(x.tobytes(), "u2")):
        assert pg.full((), number, "bfloat16").tobytes() == bits.tobytes()
    assert pg.array([2**62 + 2**54 + 1], "bfloat16").item() == 2**62 + 2**55
    np.testing.assert_array_equal(pg.array(x, "f4").tolist(), rounded)
    x[0:2] = [3, 5]
    x[2] = 7
    assert x[0:3].tolist() == [3, 5, 7]
    bits = np.array([0x3f80, 0xbf80], "u2")
    assert pg.array(bits.view("V2"), "bfloat16").tolist() == [1, -1], "bits are told by NumPy's raw type"
    assert pg.full(2, b"\x80\x3f", "bfloat16").tolist() == [1, 1]


def test_masks_are_refused():
    masked = np.ma.array([1., 2.], mask=[0, 1])
    x = pg.zeros(2)
    for wrong in (lambda: pg.array(masked), lambda: pg.array(masked, "f4"), lambda: pg.asarray(masked), lambda: pg.from_dlpack(masked),
                  lambda: x.copy_from(masked), lambda: x.__setitem__(slice(1), masked)):
        with pytest.raises(ValueError, match=r"\.filled\("):
            wrong()
    assert pg.array(masked.filled(7)).tolist() == [1, 7] and x.tolist() == [0, 0]
    assert pg.array(np.ma.array([1., 2.])).tolist() == [1, 2] == pg.array(np.ma.array([1., 2.], mask=[0, 0])).tolist()


# ── A GPU that a fake driver plays: its memory is the host's, its kernels do nothing ──────────────────────────────────

@needs_fake
def test_gpu_memory_is_shared_by_cuda_array_interface(tmp_path):
    run_on_fake_gpu(tmp_path, """
        source = OnGpu(host)
        x = pg.asarray(source)
        assert x.address == host.__array_interface__["data"][0] and x.shape == (2, 3) and x.dtype == host.dtype
        x[1] = 7
        pg.synchronize()
        assert host.tolist() == [[0, 1, 2], [7, 7, 7]]
        del source
        view = x[1]
        del x
        gc.collect()
        assert not gone, "a view keeps the owner"
        assert view.tolist() == [7] * 3
        del view
        pg.synchronize(); pg.ones(1).numpy()
        for _ in range(100): pass
        assert gone, "and lets it go"
        copy = pg.array(OnGpu(host))
        copy.fill(1)
        pg.synchronize()
        assert host[1, 0] == 7
        assert pg.asarray(OnGpu(host), stream=Stream(2)).shape == (2, 3) and pg.asarray(OnGpu(host), stream=1).size == 6
        for changes, error in (({"strides": (4, 8)}, ValueError), ({"mask": 3}, TypeError), ({"typestr": ">f4"}, TypeError),
                               ({"data": (256, True)}, ValueError)):
            try:
                pg.asarray(OnGpu(host, **changes))
                raise SystemExit(f"no error: {changes}")
            except error:
                pass
    """)


@needs_fake
def test_gpu_memory_is_shared_by_dlpack_both_ways(tmp_path):
    run_on_fake_gpu(tmp_path, """
        x = pg.array(host)
        assert x.__dlpack_device__() == (2, 0)
        described = x.__cuda_array_interface__
        assert described["data"] == (x.address, False) and described["shape"] == (2, 3) and described["typestr"] == "<f4"
        other = pg.session(device="cuda:0")
        class Consumer:  # as torch or CuPy would hand it on
            def __dlpack_device__(self): return (2, 0)
            def __dlpack__(self, stream=None, max_version=None):
                assert stream == 1 and max_version == (1, 0)
                return x.__dlpack__(stream=stream, max_version=max_version)
        y = other.from_dlpack(Consumer())
        assert y.address == x.address and y.session is other and y.shape == (2, 3)
        y.fill(3)
        other.synchronize()
        assert x.tolist() == [[3] * 3] * 2
        z = other.from_dlpack(Consumer(), copy=True)
        assert z.address != x.address and z.tolist() == x.tolist()
        try:
            x.free()
            raise SystemExit("freed under a consumer")
        except BufferError:
            pass
        del y, z
        other.synchronize(); other.ones(1).numpy()
        x.free()
    """)


@needs_fake
def test_gpu_memory_of_an_array_of_the_session_comes_back_as_a_view_of_it(tmp_path):
    run_on_fake_gpu(tmp_path, """
        x = pg.array(host)
        class Other:  # as torch or CuPy would hand it on
            def __init__(self, array): self.array = array
            def __dlpack_device__(self): return (2, 0)
            def __dlpack__(self, **_): return self.array.__dlpack__(max_version=(1, 0))
        class Interface:
            def __init__(self, array): self.__cuda_array_interface__ = array.__cuda_array_interface__
        for make in (pg.from_dlpack, pg.asarray, lambda s: pg.asarray(Interface(x)), lambda s: pg.from_dlpack(x)):
            view = make(Other(x))
            assert view._is_view and view.address == x.address and view.shape == x.shape
            x.host("w")[:] = 5
            assert view.location == "host" and view.tolist() == [[5] * 3] * 2, "there is one host's side"
        row = pg.asarray(Interface(x[1]))
        row.fill(2)
        assert x.tolist() == [[5] * 3, [2] * 3]
        del view, row
        x.free()

        whole = pg.asarray(OnGpu(host))
        again, part = pg.asarray(OnGpu(host)), pg.asarray(OnGpu(host[1]))
        assert len(gone) == 2, "what is not held is let go"
        assert again._is_view and part._is_view and part.address == whole.address + 12
        for _ in range(20):
            whole.fill(1); again.fill(2); part.fill(3)
            assert whole.tolist() == [[2] * 3, [3] * 3]
        del whole
        gc.collect()
        assert len(gone) == 2 and again.tolist() == [[2] * 3, [3] * 3]
        del again, part
        pg.synchronize(); pg.ones(1).numpy()

        flat = host.reshape(6)
        middle = pg.asarray(OnGpu(flat[2:4]))
        assert not middle._is_view
        for overlaps in (flat[3:5], flat[1:3], flat):
            try:
                pg.asarray(OnGpu(overlaps))
                raise SystemExit("no error")
            except BufferError as error:
                assert f"{overlaps.nbytes} bytes" in str(error) and "8 bytes" in str(error) and "whole in first" in str(error)
        for apart in (flat[:2], flat[4:]):
            assert not pg.asarray(OnGpu(apart))._is_view
        assert not pg.session("cuda:0").asarray(OnGpu(flat))._is_view
        middle.free()
        assert not pg.asarray(OnGpu(flat))._is_view
    """)


@needs_fake
def test_threads_that_let_the_same_gpu_memory_in_at_once_have_one_array(tmp_path):
    run_on_fake_gpu(tmp_path, """
        import threading
        for _ in range(50):
            arrays, barrier = [], threading.Barrier(4)
            def let_in():
                barrier.wait()
                arrays.append(pg.asarray(OnGpu(host)))
            threads = [threading.Thread(target=let_in) for _ in range(4)]
            for each in threads: each.start()
            for each in threads: each.join()
            assert sorted(each._is_view for each in arrays) == [False, True, True, True]
            del arrays
    """)


@needs_fake
def test_a_place_that_no_memory_has_is_refused(tmp_path):
    run_on_fake_gpu(tmp_path, """
        address = host.__array_interface__["data"][0]
        for changes, says in (({"shape": (2**40, 2**40)}, "which no memory has"), ({"shape": (2**62,)}, "which no memory has"),
                              ({"shape": (2**61, 2**61, 4)}, "which no memory has"), ({"data": (0, False)}, "which no memory has"),
                              ({"data": (-8, False)}, "which no memory has"), ({"data": (2**64, False)}, "which no memory has"),
                              ({"shape": (2, -3)}, "no negative extents; it is (2, -3)"),
                              ({"data": (address + 2, False)}, "at multiples of 4 bytes"),
                              ({"data": (address + 4, False), "typestr": "<f8", "shape": (2,)}, "at multiples of 8 bytes"),
                              ({"data": (address + 8, False), "typestr": "<c16", "shape": (1,)}, "at multiples of 16 bytes")):
            if "c16" in changes.get("typestr", "") and address % 16: continue
            try:
                pg.asarray(OnGpu(host, **changes))
            except ValueError as error:
                assert says in str(error), (changes, str(error))
            else:
                raise SystemExit(f"no error: {changes}")
        assert pg.asarray(OnGpu(host, shape=(0, 3), data=(0, False))).shape == (0, 3)
        assert pg.asarray(OnGpu(host, typestr="|u1", shape=(3,), data=(address + 1, False))).size == 3
    """)


@needs_fake
def test_the_stream_that_makes_another_librarys_array(tmp_path):
    run_on_fake_gpu(tmp_path, """
        asked = []
        class Other:
            def __dlpack_device__(self): return (2, 0)
            def __dlpack__(self, stream=None, max_version=None):
                asked.append(stream)
                return of.__dlpack__(max_version=max_version)
        other = pg.session("cuda:0")
        of = other.array(host)
        for stream, passed in ((-1, -1), (np.int64(-1), -1), (None, 1), (2, 2), (Stream(2), 2)):
            assert pg.asarray(Other(), stream=stream).tolist() == host.tolist()
            assert asked.pop() == passed
        assert pg.asarray(OnGpu(host), stream=-1).tolist() == host.tolist()
        for wrong in (-2, -2**70, 2**64):
            for source in (OnGpu(host), Other()):
                try:
                    pg.asarray(source, stream=wrong)
                    raise SystemExit("no error")
                except OverflowError as error:
                    assert "A stream's number" in str(error) and str(wrong) in str(error)
        try:
            pg.asarray(OnGpu(host, stream=-1))
            raise SystemExit("no error")
        except OverflowError:
            pass
        assert not asked
    """)


@needs_fake
def test_what_another_library_answers_wrongly_is_told(tmp_path):
    run_on_fake_gpu(tmp_path, """
        class Answers:
            def __init__(self, answer): self.answer = answer
            def __cuda_stream__(self): return self.answer
        def refused(use, error, says):
            try:
                use()
            except error as told:
                assert says in str(told), str(told)
            else:
                raise SystemExit(f"no error: {says}")
        session = pg.session()
        for answer in (5, None, (0,), (0, "a"), ("0", 1), (0, 1.5)):
            refused(lambda: session.wait_stream(Answers(answer)), TypeError,
                    "__cuda_stream__ of a Answers is a tuple of two whole numbers, not ")
        for number in (-1, 2**64):
            refused(lambda: session.make_stream_wait(Answers((0, number))), OverflowError,
                    f"The number in __cuda_stream__ of a Answers is a CUstream, or 1 or 2 of the default streams; it is {number}.")
        refused(lambda: session.wait_stream(Answers((1, 0))), ValueError, "of a Answers is of version 1, which is not known")
        class Torch: cuda_stream = None
        refused(lambda: session.wait_stream(Torch), TypeError, "cuda_stream of a type is the number of a CUstream, not None")
        for changes, error, says in (({"data": None}, TypeError, "'data' in __cuda_array_interface__ of a OnGpu is a tuple of two"),
                                     ({"data": (1,)}, TypeError, "is a tuple of two whole numbers, not (1,)"),
                                     ({"strides": ()}, ValueError, "of a OnGpu has 0 strides for 2 axes")):
            refused(lambda: pg.asarray(OnGpu(host, **changes)), error, says)
        class Bare: __cuda_array_interface__ = {"typestr": "<f4", "data": (256, False)}
        refused(lambda: pg.asarray(Bare()), TypeError, "__cuda_array_interface__ of a Bare has no 'shape'")
    """)


@needs_fake
def test_read_only_gpu_memory_is_copied(tmp_path):
    run_on_fake_gpu(tmp_path, """
        import ctypes
        class ReadOnly:
            def __dlpack_device__(self): return (2, 0)
            def __dlpack__(self, stream=None, max_version=None):
                capsule = of.__dlpack__(max_version=max_version)
                get = ctypes.pythonapi.PyCapsule_GetPointer
                get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
                managed = get(capsule, b"dltensor_versioned")
                ctypes.c_uint64.from_address(managed + 24).value |= 1
                return capsule
        of = pg.session("cuda:0").array(host)
        for copy in (None, True):
            x = pg.from_dlpack(ReadOnly(), copy=copy)
            assert x.address != of.address and x.tolist() == host.tolist()
        try:
            pg.from_dlpack(ReadOnly(), copy=False)
            raise SystemExit("no error")
        except BufferError as error:
            assert "read-only" in str(error)
    """)
