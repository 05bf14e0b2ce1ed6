"""DLPack, __cuda_array_interface__ and __cuda_stream__, with NumPy on the CPU device and a fake driver for a GPU."""
import gc
import sys

import numpy as np
import pergola as pg
import pytest
from conftest import run_child
from fake_gpu import needs_fake, run_on_fake_gpu

on_cpu = pytest.mark.skipif(pg.device().id != "cpu", reason="what lies in the host's memory is NumPy's to share")


@on_cpu
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


@on_cpu
def test_a_consumer_keeps_the_memory_and_free_is_refused_meanwhile():
    x = pg.ones((4, 4), "f4")
    row = np.from_dlpack(x[2])
    with pytest.raises(BufferError, match="1 consumer"):
        x.free()
    del x
    gc.collect()
    assert row.tolist() == [1] * 4
    y = pg.ones(4)
    shared = np.from_dlpack(y)
    del shared
    y.free()
    assert y.freed


@on_cpu
def test_export_waits_for_work(saxpy):
    x, y = pg.ones(1 << 20, "f4"), pg.zeros(1 << 20, "f4")
    saxpy[1 << 20](3.0, x, y, 1 << 20)
    assert (np.from_dlpack(y) == 3).all()


@on_cpu
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


def test_other_refusals():
    with pytest.raises(BufferError, match="has to be copied"):
        pg.from_dlpack(np.ones(3), copy=False)
    with pytest.raises(BufferError, match="no DLPack capsule"):
        pg._core.dlpack_import(3)
    with pytest.raises(BufferError, match="not \\(2, 0\\)|not \\(1, 0\\)"):
        pg.ones(3).__dlpack__(dl_device=(3 - pg.ones(1).__dlpack_device__()[0], 0))
    with pytest.raises(BufferError, match="dtype"):
        pg.zeros(3, [("a", "i4")]).__dlpack__()
    with pytest.raises(BufferError, match="null"):
        pg.session(device="null").zeros(3).__dlpack__()


@on_cpu
def test_a_gpus_array_on_the_cpu_is_refused():
    class OnGpu:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (256, False), "version": 3}

    with pytest.raises(TypeError, match="lies on a GPU"):
        pg.asarray(OnGpu())
    assert not hasattr(pg.ones(1), "__cuda_array_interface__")


def test_asarray_is_the_array_itself():
    x = pg.ones(3)
    assert pg.asarray(x) is x and pg.asarray([1, 2]).tolist() == [1, 2]
    assert pg.asarray(pg.session(device="cpu").ones(3)).session is pg.session()


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
    ([1, NAN], "i4", TypeError, "Element 1 .* nan"), ([INF], "i8", TypeError, "inf"), (1.5, "i4", TypeError, "The source .* is 1.5"),
    (np.array([70000], "f4"), "i2", OverflowError, "70000.0"), (np.array([1000], "f2"), "i1", OverflowError, "1000.0"),
    ([1e300], "f4", OverflowError, r"1e\+300, which float32"), ([1, 10**6], "f2", OverflowError, "Element 1 .* 1000000"),
    ([1e300j], "c8", OverflowError, "complex64"), ([1, 1 + 2j], "f4", TypeError, r"\(1\+2j\).*float32 does not hold: take x.real"),
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
