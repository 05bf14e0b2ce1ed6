"""What the tests share: a session, kernels as PTX (no compiler needed), children that are whole processes."""
import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap

import pergola as pg
import pytest

# Each kernel is as small as what it is for. echo's parameters are of each kind that a Python object can become.
PTX = """
.version 7.0
.target sm_70
.address_size 64
// y[i] += a * x[i]
.visible .entry saxpy(.param .f32 saxpy_param_0, .param .u64 saxpy_param_1, .param .u64 saxpy_param_2,
                      .param .u32 saxpy_param_3) {
  .reg .pred %p<2>; .reg .f32 %f<5>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
  ld.param.f32 %f1, [saxpy_param_0];
  ld.param.u64 %rd1, [saxpy_param_1];
  ld.param.u64 %rd2, [saxpy_param_2];
  ld.param.u32 %r1, [saxpy_param_3];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra done;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
done:
  ret;
}
// Stores its parameters, widened to 8 bytes each: out = {u8, u16, u32, u64, f32's bits, f64's bits, struct's 2 words}
.visible .entry echo(.param .u64 out, .param .u8 a, .param .u16 b, .param .u32 c, .param .u64 d, .param .f32 e,
                     .param .f64 f, .param .align 4 .b8 g[8], .param .align 2 .b8 h[2]) {
  .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %rd<10>; .reg .f32 %f; .reg .f64 %d;
  ld.param.u64 %rd0, [out];
  ld.param.u8 %h0, [a]; cvt.u64.u16 %rd1, %h0; st.global.u64 [%rd0], %rd1;
  ld.param.u16 %h1, [b]; cvt.u64.u16 %rd2, %h1; st.global.u64 [%rd0+8], %rd2;
  ld.param.u32 %r0, [c]; cvt.u64.u32 %rd3, %r0; st.global.u64 [%rd0+16], %rd3;
  ld.param.u64 %rd4, [d]; st.global.u64 [%rd0+24], %rd4;
  ld.param.f32 %f, [e]; mov.b32 %r1, %f; cvt.u64.u32 %rd5, %r1; st.global.u64 [%rd0+32], %rd5;
  ld.param.f64 %d, [f]; st.global.f64 [%rd0+40], %d;
  ld.param.u32 %r2, [g]; cvt.u64.u32 %rd6, %r2; st.global.u64 [%rd0+48], %rd6;
  ld.param.u32 %r3, [g+4]; cvt.u64.u32 %rd7, %r3; st.global.u64 [%rd0+56], %rd7;
  ld.param.u16 %h2, [h]; cvt.u64.u16 %rd8, %h2; st.global.u64 [%rd0+64], %rd8;
  ret;
}
// Writes far outside every array.
.visible .entry wild() {
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  mov.u64 %rd1, 64; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1;
  ret;
}
// Runs until *stop is not 0; *done = 1.
.visible .entry spin(.param .u64 stop, .param .u64 done) {
  .reg .pred %p; .reg .b64 %rd<2>; .reg .b32 %r;
  ld.param.u64 %rd0, [stop];
  ld.param.u64 %rd1, [done];
again:
  ld.volatile.global.u32 %r, [%rd0];
  setp.eq.u32 %p, %r, 0;
  @%p bra again;
  st.global.u32 [%rd1], %r;
  ret;
}
// out[block's linear index] = threads in a block + 1000 * bytes of shared memory
.visible .entry shape(.param .u64 out) {
  .reg .b32 %r<12>; .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z;
  mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;
  mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %r5, %r5, %r3, %r0;
  mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y; mov.u32 %r8, %ntid.z;
  mul.lo.u32 %r6, %r6, %r7; mul.lo.u32 %r6, %r6, %r8;
  mov.u32 %r9, %dynamic_smem_size; mad.lo.u32 %r6, %r9, 1000, %r6;
  mul.wide.u32 %rd1, %r5, 4; add.s64 %rd1, %rd0, %rd1;
  st.global.u32 [%rd1], %r6;
  ret;
}
"""


@pytest.fixture(scope="session")
def module():
    return pg.module(PTX, name="kernels.ptx")


@pytest.fixture
def saxpy(module):
    return module.saxpy


def run_child(body, *, timeout=60, check=True, environment=None, arguments=(), prelude=True):
    """Runs Python source in a process of its own; `module` is there for it. Its output is in the result."""
    code = textwrap.dedent(body)
    if prelude:
        code = f"import sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n" \
               "import pergola as pg\nfrom conftest import PTX, store\nmodule = pg.module(PTX)\n" + code
    result = subprocess.run([sys.executable, *arguments, "-c", code], capture_output=True, text=True, timeout=timeout,
                            env={**os.environ, **(environment or {})})
    if check:
        assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}{result.stderr}"
    return result


# ── CPU device and GPU ────────────────────────────────────────────────────────────────────────────────────────────────

def on_cpu(what):
    """A mark of tests, and of their parameters, that need what a GPU does not have, and cannot run there therefore; on the
    CPU device, and so in CI, it skips none. (A function: children read this file, too, and a mark would open the default
    session of each.)"""
    return pytest.mark.skipif(pg.device().id != "cpu", reason=f"only the CPU device has {what}")


CLEARED_FAULTS = "faults that a wait clears: a GPU is lost to the process"


def cuda_driver(device):
    """A GPU's driver, as another library in this process calls it: in the primary context, which Pergola's work is in too."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(device.id.removeprefix("cuda:"))) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    return driver


def store(array, number):
    """Stores 4 bytes at the array's beginning, in no order with the session's work: a kernel that spins on them sees them."""
    if array.session.device.id == "cpu":
        ctypes.c_uint32.from_address(array.address).value = number
        return
    driver, stream, value = cuda_driver(array.session.device), ctypes.c_void_p(), ctypes.c_uint32(number)
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0  # one that waits for no other, and goes with the process
    assert driver.cuMemcpyAsync(ctypes.c_uint64(array.address), ctypes.byref(value), ctypes.c_size_t(4), stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0


# Kernels that may be given addresses as numbers.
# slow: x[i] += 1, in its time. pick: *(w ? b : a) = v. sum: *(x + n) = v, both 8 bytes. either: *(w ? x + n : a) = v. get: *y = *(x + n).
NUMBERS = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry slow(.param .u64 x, .param .u32 turns) {
  .reg .b64 %rd<4>; .reg .b32 %r<5>; .reg .pred %p;
  ld.param.u64 %rd0, [x]; ld.param.u32 %r0, [turns]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %rd0, %rd1;
  ld.global.u32 %r2, [%rd2]; mov.u32 %r3, 0;
AGAIN:
  add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, %r0; @%p bra AGAIN;
  add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2;
  ret;
}
.visible .entry pick(.param .u64 a, .param .u64 b, .param .u32 w, .param .u32 v) {
  .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u32 %r0, [w]; ld.param.u32 %r1, [v];
  setp.ne.u32 %p, %r0, 0; selp.b64 %rd2, %rd1, %rd0, %p; st.global.u32 [%rd2], %r1;
  ret;
}
.visible .entry sum(.param .u64 x, .param .u64 n, .param .u32 v) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [n]; ld.param.u32 %r0, [v]; add.s64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r0;
  ret;
}
.visible .entry either(.param .u64 a, .param .u64 x, .param .u64 n, .param .u32 w, .param .u32 v) {
  .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; ld.param.u32 %r0, [w]; ld.param.u32 %r1, [v];
  add.s64 %rd3, %rd1, %rd2; setp.ne.u32 %p, %r0, 0; selp.b64 %rd4, %rd3, %rd0, %p; st.global.u32 [%rd4], %r1;
  ret;
}
.visible .entry get(.param .u64 y, .param .u64 x, .param .u64 n) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [y]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [n]; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r0, [%rd3];
  st.global.u32 [%rd0], %r0;
  ret;
}
"""
