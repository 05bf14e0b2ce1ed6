"""Kernels with a signature: what it says of them, what it changes in the order, what is refused."""
import pergola as pg
import pytest

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
