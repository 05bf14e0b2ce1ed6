"""Launches: shapes, what may be passed, what is refused and how."""
import ctypes
import pathlib
import struct
import xml.etree.ElementTree

import numpy as np
import pergola as pg
import pytest
from conftest import CLEARED_FAULTS, PTX, on_cpu

N = 1000


def pair(n=N):
    return pg.ones(n, "f4"), pg.zeros(n, "f4")


def test_work_runs_in_order_and_numpy_waits(saxpy):
    x, y = pair()
    saxpy[N](2.0, x, y, N)
    saxpy[(4,), 256](3.0, x, y, N)
    pg.launch(saxpy, 4, (256, 1), (1.0, x, y, N))
    assert (y.numpy() == 6).all()


@pytest.mark.parametrize("grid, block, blocks, threads", [
    (6, 32, 6, 32), ((2, 3), 32, 6, 32), ((1, 2, 3), (4, 2, 2), 6, 16), ([6], [8, 4], 6, 32), (np.int64(6), 5, 6, 5)])
def test_shapes(module, grid, block, blocks, threads):
    out = pg.zeros(8, "u4")
    module.shape[grid, block](out)
    assert out.tolist() == [threads] * blocks + [0] * (8 - blocks)


def test_a_shape_that_comes_again_is_the_same_and_one_that_changed_is_not(module):
    out = pg.zeros(8, "u4")

    def launched(key, **options):
        out[:] = 0
        module.shape[key](out, **options)
        return [value for value in out.tolist() if value]

    key = (3, 32)
    assert launched(key) == [32] * 3
    assert launched(key, shared_bytes=16)[0] >= 16032
    assert launched(key) == [32] * 3, "a launch's own shared memory is not the next one's"
    assert launched((2, 64)) == [64] * 2
    assert launched(key) == [32] * 3
    grid = [4]
    changing = (grid, 16)
    assert launched(changing) == [16] * 4
    grid[0] = 5
    assert launched(changing) == [16] * 5
    for count in (7, 7, 6):  # of threads: by the kernel's own block
        assert sum(launched(count)) >= count


def test_keywords_of_a_launch(module):
    out = pg.zeros(1, "u4")
    module.shape[1, 32](out, shared_bytes=16)
    assert out[0] >= 16032
    pg.launch(module.shape, 1, 32, [out], shared_bytes=32, cooperative=True)
    assert out[0] >= 32032
    with pytest.raises(TypeError, match="shared"):
        module.shape[1, 32](out, shared=16)
    with pytest.raises(OverflowError):
        module.shape[1, 32](out, shared_bytes=1 << 32)
    with pytest.raises(pg.Error, match="shared"):
        module.shape[1, 32](out, shared_bytes=1 << 30)


def test_a_count_of_zero_launches_nothing(saxpy):
    x, y = pair()
    saxpy[0](2.0, x, y, 0)
    assert not y.numpy().any()
    with pytest.raises(TypeError):
        saxpy[0](2.0, x, y)


@pytest.mark.parametrize("key, error", [
    ((0, 1), ValueError), ((1, 0), ValueError), ((-1, 1), ValueError), ((1 << 32, 1), ValueError), ((1,), TypeError),
    ((1, 1, 1), TypeError), (((1, 1, 1, 1), 1), ValueError), (((), 1), ValueError), (1.5, TypeError), ("8", TypeError),
    (((1, 2.0), 1), TypeError), (-1, OverflowError)])
def test_wrong_shapes_are_refused(saxpy, key, error):
    with pytest.raises(error):
        saxpy[key]


def test_wrong_shapes_are_named(saxpy):
    with pytest.raises(OverflowError, match=r"kernel\[threads\] takes 0 threads or more.*it is -1"):
        saxpy[-1]
    with pytest.raises(TypeError, match="an int, or .*'a' is given"):
        saxpy["a"]
    y = pg.zeros(1, "f4")
    for wrong, error in ((-1, OverflowError), (1 << 32, OverflowError), (1 << 64, OverflowError), ("a", TypeError)):
        for launch in (lambda: saxpy[1, 1](1.0, y, y, 1, shared_bytes=wrong),
                       lambda: pg.launch(saxpy, 1, 1, (1.0, y, y, 1), shared_bytes=wrong),
                       lambda: pg.session(device="cpu").task_pool().prepare(saxpy, 1, 1, shared_bytes=wrong)):
            with pytest.raises(error, match="shared_bytes"):
                launch()


def test_a_block_too_large_names_the_limit(saxpy):
    x, y = pair()
    with pytest.raises(pg.InvalidArgument, match="1024"):
        saxpy[1, 2048](1.0, x, y, N)


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5.0, "f": 6.0, "g": b"\1\0\0\0\2\0\0\0", "h": np.float16(1)}


def echo(module, **changes):
    out = pg.zeros(9, "u8")
    module.echo[1, 1](out, *{**GOOD, **changes}.values())
    values = out.tolist()
    values[4], = struct.unpack("f", struct.pack("I", values[4]))
    values[5], = struct.unpack("d", struct.pack("Q", values[5]))
    return dict(zip("abcdefgGh", values))


def test_each_kind_arrives(module):
    assert echo(module) == dict(zip("abcdefgGh", [1, 2, 3, 4, 5.0, 6.0, 1, 2, 0x3C00]))


class Pair(ctypes.Structure):
    _fields_ = [("first", ctypes.c_int), ("second", ctypes.c_int)]


PAIR = np.dtype([("first", "i4"), ("second", "i4")])


@pytest.mark.parametrize("name, value, expected", [
    ("a", 255, 255), ("a", -128, 128), ("a", True, 1), ("a", np.int8(-1), 255), ("b", -1, 65535), ("c", -1, 2**32 - 1),
    ("c", np.uint32(2**32 - 1), 2**32 - 1), ("c", np.int64(7), 7), ("c", np.bool_(True), 1), ("d", 2**64 - 1, 2**64 - 1),
    ("d", -1, 2**64 - 1), ("d", None, 0), ("e", 3, 3.0), ("e", np.float32(1.5), 1.5), ("e", np.float64(1.5), 1.5),
    ("e", np.int32(4), 4.0), ("e", float("inf"), float("inf")), ("e", 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
    ("f", 2**53, 2.0**53), ("f", np.float32(0.5), 0.5), ("f", 1e300, 1e300), ("e", np.array(2.5, "f4"), 2.5),
    ("g", Pair(7, 8), 7), ("g", np.array((7, 8), PAIR)[()], 7), ("g", bytearray(b"\7\0\0\0\0\0\0\0"), 7),
    ("h", b"\1\2", 0x201)])
def test_values_are_converted_where_nothing_is_lost(module, name, value, expected):
    assert echo(module, **{name: value})[name] == expected


@pytest.mark.parametrize("name, value", [
    ("a", 256), ("a", -129), ("b", 65536), ("c", 2**32), ("c", -2**31 - 1), ("d", 2**64), ("d", -2**63 - 1),
    ("d", 2**100), ("e", 1e39), ("e", -1e300), ("e", 2**24 + 1), ("f", 2**53 + 1), ("e", 2**2000), ("c", np.int64(2**40))])
def test_what_does_not_fit_overflows_and_names_the_parameter(module, name, value):
    with pytest.raises(OverflowError, match=rf"\(parameter {name}\) of kernel 'echo'"):
        echo(module, **{name: value})


@pytest.mark.parametrize("name, value", [
    ("c", 1.0), ("c", np.float32(1)), ("a", 0.5), ("d", 1.0), ("e", "1"), ("c", None), ("e", b"abcd"), ("g", 5),
    ("g", b"123"), ("g", 1.0), ("c", "3"), ("c", object()), ("d", [1]), ("c", np.float16(1)), ("e", np.complex64(1)),
    ("d", np.ones(4, "f4")), ("c", np.ones(4, "i4")), ("d", np.ones(8)[::2])])
def test_another_kind_is_a_type_error_that_names_the_parameter(module, name, value):
    with pytest.raises(TypeError, match=rf"\(parameter {name}\) of kernel 'echo'") as raised:
        echo(module, **{name: value})
    assert isinstance(raised.value, pg.ArgumentError) and isinstance(raised.value, ValueError)


@pytest.mark.parametrize("name, value, says", [
    ("e", np.longdouble(1), rf"of type {np.longdouble.__name__}, a long double, which no kernel has: give float\(x\)"),
    ("f", np.longdouble(1), "long double"), ("g", np.longdouble(1), "long double"),
    ("g", np.clongdouble(1), rf"{np.clongdouble.__name__}, of long doubles, which no kernel has: give numpy\.complex128\(x\)"),
    ("e", 0j, r"is of type complex, and the parameter has no imaginary part: give x\.real"), ("c", 0j, "of type complex"),
    ("g", 0j, r"is of type complex, which is no struct's bytes: numpy\.complex64\(x\) is two floats"),
    ("e", np.complex64(0), "is of type complex64, and the parameter has no imaginary part"),
    ("f", np.complex128(0), "is of type complex128, and the parameter has no imaginary part"),
    ("e", ctypes.c_float(1), r"is of type c_float, which is no number to Python: give x\.value")])
def test_numbers_that_no_kernel_takes_are_named(module, name, value, says):
    with pytest.raises(pg.ArgumentError, match=rf"\(parameter {name}\) of kernel 'echo' .*{says}"):
        echo(module, **{name: value})


def test_one_byte_is_one():
    module = pg.module(PTX)
    with pytest.raises(OverflowError, match="the parameter is 1 byte as an integer"):
        echo(module, a=256)
    assert "u8   " in module.echo.explain() and " 1 byte\n" in module.echo.explain()
    with pytest.raises(TypeError, match="1 value is given"):
        module.echo[(4,)]


@pytest.mark.parametrize("value", [1.5, np.float32(1.5)])
def test_a_float_for_a_half_is_told_which_type_to_give(module, value):
    with pytest.raises(TypeError, match=r"parameter h.* of type float.*numpy\.float16\(x\)"):
        echo(module, h=value)
    assert echo(module, h=np.float16(1.5))["h"] == 0x3e00


def test_an_array_where_a_number_is_wanted_is_refused(module):
    with pytest.raises(TypeError, match=r"parameter c.*4-byte integer; it is an array of f32"):
        echo(module, c=pg.ones(1, "f4"))


@pytest.mark.parametrize("arguments", [(), (1.0,), (1.0, None, None), (1.0, None, None, 1, 2), (1.0, None, None, 1, 2**70),
                                       (None,) * 40])
def test_a_wrong_count_lists_what_is_wanted(saxpy, arguments):
    with pytest.raises(TypeError, match=r"takes 4 arguments: saxpy_param_0 \(a float\)"):
        saxpy[1](*arguments)


def test_numpy_arrays_are_not_copied_silently(saxpy):
    x, y = pair()
    with pytest.raises(TypeError, match=r"Argument 1 \(parameter saxpy_param_1\).*ndarray.*pergola.array\(x\)"):
        saxpy[N](1.0, x.numpy(), y, N)


def test_refused_launches_leave_nothing_behind(saxpy):
    x, y = pair()
    for _ in range(10):
        with pytest.raises(TypeError):
            saxpy[N](1.0, x, y, 0.5)
    pg.synchronize()
    assert not y.numpy().any()


def test_arrays_of_another_session_are_refused(saxpy):
    other = pg.session(device="cpu")
    x, y = other.ones(N, "f4"), pg.zeros(N, "f4")
    with pytest.raises(pg.InvalidArgument, match="another session"):
        saxpy[N](1.0, x, y, N)


def test_more_launches_than_may_be_in_flight(saxpy):
    x, y = pair(1)
    for _ in range(5000):
        saxpy[1, 1](1.0, x, y, 1)
    assert y[0] == 5000


# ── What is known of kernels ──────────────────────────────────────────────────────────────────────────────────────────

def test_parameters_and_explanation(saxpy):
    assert [p.kind for p in saxpy.parameters] == ["float", "integer", "integer", "integer"]
    assert [p.access for p in saxpy.parameters] == ["none", "read", "read+write", "none"]
    assert "st.global.f32" in saxpy.parameters[2].reason
    text = saxpy.explain()
    assert "saxpy_param_2" in text and "read+write" in text and "1024 threads a block" in text
    assert saxpy.info["max_threads_per_block"] == 1024 and saxpy.info["universal_access"] == "none"
    assert repr(saxpy) == "<pergola.Kernel saxpy(f32, u64, u64, u32)>"


def test_modules_find_kernels_by_name(module):
    assert module.names == ["saxpy", "echo", "wild", "spin", "shape"] and len(module) == 5
    assert module.saxpy is module["saxpy"] and [k.name for k in module][0] == "saxpy"
    assert "saxpy" in dir(module)
    with pytest.raises(AttributeError, match="'saxpy', 'echo'"):
        module.sacpy
    with pytest.raises(LookupError, match="'saxpy', 'echo'"):
        module["sacpy"]


CUDA = '''
template <typename T> __device__ void add(T* y, T v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += v * SCALE;
}
extern "C" __global__ void add_float(float* y, float v, int n) { add(y, v, n); }
__global__ void add_int(int* y, int v, int n) { add(y, v, n); }
'''


def test_names_that_are_no_attribute():
    module = pg.module("""template <class T> __global__ void twice(T* x) { x[0] *= 2; }
        template __global__ void twice<int>(int*); template __global__ void twice<float>(float*);
        extern "C" __global__ void plain(int* x) { x[0] = 1; }""")
    assert not hasattr(module, "twice") and getattr(module, "none", None) is None
    assert "plain" in module and "twice<int>" in module and "none" not in module and 3 not in module
    assert all(kernel in module for kernel in module) and "a\0" not in module
    with pytest.raises(AttributeError, match="twice<int>"):
        module.twice
    with pytest.raises(pg.InvalidArgument):
        module["twice"]


def test_numpys_numbers_without_axes_and_arrays_of_every_stride():
    kernel = pg.kernel('extern "C" __global__ void keep(double* out, double value) { out[0] = value; }')
    out = pg.zeros(1)
    for value in (np.array(1.5), np.array(1.5, "f4"), pg.full((), 1.5).numpy()):
        out.fill(0)
        kernel[1](out, value)
        assert out.tolist() == [1.5]
    for wrong, says in ((np.ones(4)[::2], r"pass pergola.array\(x\)"), (np.zeros(2, "M8[s]"), "none that kernels have")):
        with pytest.raises(TypeError, match=says):
            kernel[1](wrong, 1.0)
    with pytest.raises(ValueError, match="ambiguous"):
        pg.launch(kernel, 1, 1, (out, 1.0), cooperative=np.ones(2))


def test_cuda_text_and_files(tmp_path):
    module = pg.module(CUDA, flags=["-DSCALE=2"])
    y = pg.zeros(5, "i4")
    module.add_int[5](y, 3, 5)
    assert y.tolist() == [6] * 5
    (tmp_path / "add.cu").write_text(CUDA)
    loaded = pg.load(tmp_path / "add.cu", flags=["-DSCALE=3"])
    loaded.add_int[5](y, 1, 5)
    assert y.tolist() == [9] * 5
    one = pg.kernel(CUDA, "add_float", flags=["-DSCALE=1"])
    assert one.name == "add_float"
    with pytest.raises(pg.InvalidArgument, match="has 2"):
        pg.kernel(CUDA, flags=["-DSCALE=1"])


def test_flags_and_paths_are_checked(tmp_path):
    for flags in ("-DN=4", b"-DN=4"):
        with pytest.raises(TypeError, match=r"flags=\[b?'-DN=4'\]"):
            pg.module(CUDA, flags=flags)
    with pytest.raises(TypeError, match="Flags are strings.*flag 1 is 1"):
        pg.module(CUDA, flags=["-DSCALE=1", 1])
    with pytest.raises(ValueError, match="A flag has no zero character"):
        pg.module(CUDA, flags=["-DSCALE=1\0"])
    with pytest.raises(TypeError, match="A source's name is a str or None; 3 is given"):
        pg.module(PTX, name=3)
    for use, what in ((lambda: pg.module(PTX, name="a\0b"), "A source's name"), (lambda: pg.Session("cpu\0"), "A session's device"),
                      (lambda: pg.Session("cpu", "graphs=off\0"), "A session's scheduler"),
                      (lambda: pg.module(PTX)["saxpy\0"], "A kernel's name"), (lambda: pg.kernel(PTX, "a\0"), "A kernel's name"),
                      (lambda: pg.module(PTX).kernel("saxpy", "float\0"), "A signature")):
        with pytest.raises(pg.InvalidArgument, match=f"{what} has no zero character in it; there is one at byte"):
            use()
    assert "saxpy\0" not in pg.module(PTX) and not hasattr(pg.module(PTX), "saxpy\0")
    (tmp_path / "a").write_text(PTX)
    for path in (str(tmp_path / "a\0b"), str(tmp_path / "a\0b").encode()):
        with pytest.raises(ValueError, match="A path has no zero character"):
            pg.load(path, language="ptx")
    assert "saxpy" in pg.load(tmp_path / "a", language="ptx").names


def test_sources_that_do_not_compile(tmp_path):
    with pytest.raises(pg.CompileError, match="nonsense"):
        pg.kernel("__global__ void k() { nonsense(); }")
    with pytest.raises(pg.ParseError, match="x.ptx:"):
        pg.kernel(".version 7.0\n.target sm_70\n.address_size 64\n.entry {", name="x.ptx")
    with pytest.raises(pg.Error, match="nowhere.cu"):
        pg.load(tmp_path / "nowhere.cu")
    with pytest.raises(ValueError, match="'cuda' or 'ptx'"):
        pg.kernel("", language="metal")


# ── Errors while running ──────────────────────────────────────────────────────────────────────────────────────────────

@on_cpu(CLEARED_FAULTS)
def test_a_fault_is_raised_by_what_waits_and_synchronize_clears_it(module, saxpy):
    x, y = pair()
    module.wild[1, 1]()
    saxpy[N](1.0, x, y, N)
    with pytest.raises(pg.DeviceFault, match="'wild'"):
        y.numpy()
    with pytest.raises(pg.DeviceFault, match="'wild'"):
        pg.synchronize()
    pg.synchronize()
    assert not y.numpy().any(), "what was behind the fault is skipped"
    saxpy[N](1.0, x, y, N)
    assert (y.numpy() == 1).all()


def test_events(saxpy):
    x, y = pair()
    start = pg.record()
    saxpy[N](1.0, x, y, N)
    end = pg.record()
    end.wait()
    assert start.done and end.done and end.milliseconds_since(start) >= 0
    with pytest.raises(TypeError):
        end.milliseconds_since(3)
    with pytest.raises(TypeError):
        pg.Event()


# ── Scheduling ────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_the_dag_shows_what_waits_for_what_and_why(module):
    session = pg.session(device="cpu")
    saxpy = session.module(__import__("conftest").PTX).saxpy
    x, y, z = session.ones(N, "f4"), session.zeros(N, "f4"), session.zeros(N, "f4")
    saxpy[N](1.0, x, y, N)
    saxpy[N](1.0, y, z, N)
    dag = session.dag()
    assert dag.dot().startswith("digraph") and dag.dot().count("saxpy") == 2 and "RAW" in dag.dot()
    assert dag.mermaid() == str(dag) and dag.mermaid().startswith("flowchart")
    assert dag._repr_mimebundle_() == {"text/plain": dag.mermaid(), "image/svg+xml": dag.svg()}
    drawn = xml.etree.ElementTree.fromstring(dag.svg())
    assert sum(title.text.startswith("saxpy #") for title in drawn.iter("{http://www.w3.org/2000/svg}title")) == 2
    assert "digraph" in pg.dag().dot() and z[0] == 1


def test_a_read_that_waits_is_a_box_of_the_dag(module):
    session = pg.session(device="cpu")
    x = session.zeros(1 << 20, "f4")
    session.module(__import__("conftest").PTX).saxpy[1 << 20](1.0, session.ones(1 << 20, "f4"), x, 1 << 20)
    assert x[7] == 1
    waits = session.dag().dot().count("host read")
    assert x[8] == 1 and session.dag().dot().count("host read") == waits <= 1  # it may have ended by itself


def test_scheduling_policies_are_checked():
    with pg.session(scheduler="dependency=no-const,max-streams=2,execution=sync"):
        assert pg.ones(4).tolist() == [1] * 4
    with pytest.raises(pg.InvalidArgument, match="max-streams"):
        pg.session(scheduler="maximum=3")


def test_what_depends_on_a_failure_is_skipped_wherever_it_runs():
    session = pg.session("cpu")
    add = session.kernel("""extern "C" __global__ void add(int* f, int v, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) f[i] += v; }""")
    bad = session.kernel("""extern "C" __global__ void bad(int* f, int at) { f[at] = 1; }""")
    f, g = session.zeros(8, "i4"), session.zeros(8, "i4")
    for array in (f, g, f):  # on two streams
        add[8](array, 1, 8)
    session.synchronize()
    bad[1](f, 1 << 28)
    with pytest.raises(pg.DeviceFault):
        f.numpy()
    for _ in range(2):
        add[8](f, 100, 8)
        with pytest.raises(pg.DeviceFault):
            f.numpy()
    with pytest.raises(pg.DeviceFault):
        session.synchronize()
    assert f.tolist() == [2] * 8
    add[8](f, 100, 8)
    assert f.tolist() == [102] * 8


@pytest.mark.parametrize("source, error, message", [
    ("", pg.InvalidArgument, "no kernel in the source"),
    ("template <class T> __global__ void f(T* x) {}", pg.InvalidArgument, "no kernel in the source: .* template"),
    ("saxpy.cu", pg.InvalidArgument, r"looks like a file's name: pergola.load\('saxpy.cu'\)"),
    (" kernels/saxpy.ptx", pg.InvalidArgument, "looks like a file's name"),
    (3, TypeError, "A source is a str, .* 3"), (None, TypeError, "A source is a str, .* None"),
    (pathlib.Path("saxpy.cu"), TypeError, "pergola.load")])
def test_what_is_no_source(source, error, message):
    with pytest.raises(error, match=message):
        pg.kernel(source)


class Two(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]


PAIR = np.dtype([("x", "f4"), ("y", "f4")])


@pytest.mark.parametrize("value", [
    struct.pack("2f", 1, 2), bytearray(struct.pack("2f", 1, 2)), memoryview(struct.pack("2f", 1, 2)), Two(1, 2),
    np.array((1, 2), PAIR)[()], np.array((1, 2), PAIR), np.void(struct.pack("2f", 1, 2)), np.complex64(1 + 2j)], ids=repr)
def test_what_is_a_struct(module, value):
    assert echo(module, g=value)["g"] == int.from_bytes(struct.pack("f", 1), "little")
    assert echo(module, g=value)["G"] == int.from_bytes(struct.pack("f", 2), "little")


@pytest.mark.parametrize("value, says", [
    (np.array([3]), "tobytes"), (np.ones(2, "f4"), "tobytes"), (np.datetime64("2020-01-01"), "ctypes.Structure"),
    (np.array([(1, 2)], PAIR), "structured scalar"), (memoryview(np.ones(2, "f4")), "tobytes"), ((ctypes.c_float * 2)(1, 2), "tobytes"),
    (np.array((1, 2), PAIR.newbyteorder(">"))[()], "byte order"), (np.ones(4, "f4")[::2], "not contiguous")], ids=repr)
def test_what_is_none(module, value, says):
    with pytest.raises(pg.ArgumentError, match=rf"\(parameter g\) of kernel 'echo'.*{says}"):
        echo(module, g=value)


def test_a_half_is_a_float_too(module):
    out = pg.zeros(9, "u8")
    module.echo[1, 1](out, 0, 0, 0, 0, np.float16(1.5), np.float16(-2.5), bytes(8), np.float16(1.5))
    told = out.tobytes()
    assert struct.unpack_from("<f", told, 32) == (1.5,) and struct.unpack_from("<d", told, 40) == (-2.5,)
    assert struct.unpack_from("<e", told, 64) == (1.5,)
