"""Kernels with a signature: what it says of them, what it changes in the order, what is refused."""
import pergola as pg
import pytest
from conftest import NUMBERS

PTX = """
.version 7.0
.target sm_70
.address_size 64
// *table[i] += 1; rows is what the pointers point into
.visible .entry chase(.param .u64 table, .param .u64 rows) {
  .reg .b64 %rd<4>; .reg .b32 %r<3>;
  ld.param.u64 %rd0, [table]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 8; add.s64 %rd2, %rd0, %rd1;
  ld.global.u64 %rd3, [%rd2];
  ld.global.u32 %r1, [%rd3]; add.u32 %r2, %r1, 1; st.global.u32 [%rd3], %r2;
  ret;
}
.visible .entry kernel(.param .u64 y) {
  .reg .b64 %rd; .reg .b32 %r;
  ld.param.u64 %rd, [y]; mov.u32 %r, 3; st.global.u32 [%rd], %r;
  ret;
}
"""
CHASE = "chase(table: in pointer uint64, rows: inout pointer uint32)"


@pytest.fixture
def chasing():
    return pg.module(PTX, name="chase.ptx")


def test_an_empty_signature_is_of_a_kernel_without_parameters(chasing):
    for empty in ("", " ", "()"):
        with pytest.raises(pg.InvalidArgument, match="declares 0 parameters; kernel 'chase' has 2: .* or give no signature"):
            chasing.kernel("chase", signature=empty)
        with pytest.raises(pg.InvalidArgument, match="declares 0 parameters"):
            pg.kernel(PTX, "chase", signature=empty)
        nothing = pg.kernel(".version 7.0 .target sm_70 .address_size 64 .visible .entry nothing() { ret; }", signature=empty)
        nothing[1]()
    assert chasing.kernel("chase", None) is chasing.chase
    pg.synchronize()


def test_parameters_show_what_is_declared(chasing):
    plain, declared = chasing.chase, chasing.kernel("chase", signature=CHASE)
    assert chasing.kernel("chase") is plain and [p.declaration for p in plain.parameters] == ["", ""]
    table, rows = declared.parameters
    assert (table.direction, table.access, table.declaration) == ("in", "read", "table: in pointer uint64")
    assert (rows.direction, rows.access, rows.kind) == ("inout", "read+write", "pointer")
    assert plain.info["universal_access"] == "read+write" and declared.info["universal_access"] == "none"
    assert "declared 'in'" in declared.explain() and "any array" not in declared.explain()


def test_a_kernel_with_directions_runs_and_is_ordered_by_its_arguments(chasing):
    rows = pg.zeros(4, "u4")
    table = pg.array([rows.address + 4 * i for i in range(4)], "u8")
    chase = chasing.kernel("chase", "in pointer uint64, inout pointer uint32")
    for _ in range(3):
        chase[1, 4](table, rows)
    assert rows.tolist() == [3] * 4
    with pytest.raises(pg.ArgumentError, match="should be an array of u64; it is an array of u32"):
        chase[1, 4](rows, rows)


def test_a_source_of_one_kernel_takes_a_signature():
    source = PTX[:PTX.index(".visible .entry kernel")]
    assert pg.kernel(source, signature=CHASE).parameters[1].direction == "inout"
    assert pg.kernel(PTX, "kernel", signature="out pointer").parameters[0].direction == "out"


def test_what_the_ptx_contradicts_is_refused(chasing):
    with pytest.raises(pg.InvalidArgument, match=r"parameter 0 \(y\) of kernel 'kernel' as 'y: in pointer', and the kernel "
                                                 r"writes through it, by `st.global.u32 .*` at chase.ptx:15:\d+: declare "
                                                 "it 'out'"):
        chasing.kernel("kernel", "y: const pointer")
    with pytest.raises(pg.ParseError, match="column 4: 'int' is no type of NIDL: write 'sint32'"):
        chasing.kernel("kernel", "y: int")
    with pytest.raises(pg.NotFound, match="no kernel 'nosuch'"):
        chasing.kernel("nosuch", "pointer")


def test_a_kernel_of_the_methods_name_is_an_item(chasing):
    y = pg.zeros(1, "u4")
    chasing["kernel"][1, 1](y)
    assert y[0] == 3


def edges_of_the_last(session):
    dot = session.dag().dot()
    last = max(int(line.split("[")[0].strip()[1:]) for line in dot.splitlines() if line.startswith("  c") and "->" not in line)
    return [line.split('label="')[1].split('"')[0] for line in dot.splitlines() if f"-> c{last} " in line]


def test_floats_for_doubles_are_refused_where_they_are_all_that_a_kernel_moves():
    source = r'''extern "C" __global__ void square(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x]; }
                 extern "C" __global__ void both(double* w) {
                   ((float*)(w + 4))[threadIdx.x] *= 2; if (w[threadIdx.x] > 1) w[threadIdx.x] = 3; }'''
    with pg.Session("cpu") as s:
        m, floats, doubles = s.module(source), s.ones(4, "f4"), s.ones(8, "f8")
        with pytest.raises(pg.ArgumentError, match="Argument 0 .* is an array of f64, and the kernel uses floats there alone"):
            m.square[1, 4](doubles, floats)
        for other in (s.zeros(4, "i4"), s.zeros(2, "c8"), s.zeros(16, "u1")):
            m.square[1, 4](other, floats)
        m.both[1, 4](doubles)
        m.kernel("square", signature="pointer, pointer")[1, 4](doubles, floats)
        m.kernel("both", signature="pointer double")[1, 4](doubles)
        s.synchronize()


def test_edges_name_the_argument_that_comes_to_that_part_of_an_array():
    source = r'''extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
                   int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
                 extern "C" __global__ void inc(float* x, int n) {
                   int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1; }'''
    with pg.Session("cpu", scheduler="fork-cost=0,graphs=off") as s:
        m, n = s.module(source), 1024
        x, y = s.zeros(2 * n, "f4"), s.zeros(n, "f4")
        s.synchronize()
        m.inc[n](x[n:], n)
        m.add[n](y, x[n:], x[:n], n)
        assert "argument 1, array 1 RAW" in edges_of_the_last(s)
        m.inc[n](x[n:], n)
        assert "argument 0, array 1 WAR" in edges_of_the_last(s)
        m.add[n](y, y, x[n:], n)
        assert "argument 2, array 1 WAW" in edges_of_the_last(s)
        m.inc[n](x[n:], n)
        m.add[n](x[:n], x[n:], y, n)  # both are read
        assert "array 1 RAW" in edges_of_the_last(s), "and are one part"


@pytest.mark.parametrize("scheduler", ["", "graphs=off"])
def test_edges_name_arguments_also_of_what_had_ended_before(scheduler):
    with pg.Session(scheduler=scheduler) as s:
        m = s.module(NUMBERS, name="numbers.ptx")
        a = s.zeros(4, "u4")
        for value in range(3):
            m.sum[1, 1](a, 8, value)
            assert edges_of_the_last(s)[-1].startswith("argument 0, array 1 ")
            assert a.numpy()[2] == value


def test_numbers_that_may_be_the_address_are_ordered_behind_everything():
    with pg.Session() as s:
        m = s.module(NUMBERS, name="numbers.ptx")
        a, b = s.zeros(4, "u4"), s.zeros(4, "u4")

        def after_a_launch_on_b(kernel, *arguments):
            m.pick[1, 1](a, b, 1, 7)
            kernel[1, 1](*arguments)
            return edges_of_the_last(s)

        assert "any" in after_a_launch_on_b(m.pick, a, b.address, 1, 9) and b.numpy()[0] == 9
        assert "any" in after_a_launch_on_b(m.pick, a.address, b.address, 1, 10) and b.numpy()[0] == 10
        assert "any" in after_a_launch_on_b(m.sum, b.address, 4, 11) and b.numpy()[1] == 11
        assert "any" in after_a_launch_on_b(m.sum, 4, b.address, 12) and b.numpy()[1] == 12
        assert "any" in after_a_launch_on_b(m.either, a, b.address, 0, 1, 15) and b.numpy()[0] == 15
        assert after_a_launch_on_b(m.sum, b, 8, 13) == ["argument 0, array 2 WAW"] and b.numpy()[2] == 13
        assert after_a_launch_on_b(m.sum, a, 8, 14)[-1].startswith("argument 0, array 1")  # and nothing of b


@pytest.mark.parametrize("kernel, signature, refused", [
    ("sum", "in pointer, sint64, sint32", "without one that is written"),
    ("sum", "in pointer, in pointer, sint32", "without one that is written"),
    ("sum", "sint64, sint64, sint32", "as numbers"),
    ("pick", "in pointer, const pointer, sint32, sint32", "without one that is written"),
    ("pick", "uint64, uint64, sint32, sint32", "as numbers"),
    ("sum", "inout pointer, sint64, sint32", ""),
    ("pick", "in pointer, out pointer, sint32, sint32", ""),
])
def test_addresses_of_several_parameters_are_held_against_the_signature(kernel, signature, refused):
    module = pg.module(NUMBERS, name="numbers.ptx")
    if not refused:
        assert module.kernel(kernel, signature)
        return
    with pytest.raises(pg.InvalidArgument, match=refused) as error:
        module.kernel(kernel, signature)
    assert "st.global.u32" in str(error.value) and "declare that which" in str(error.value)
