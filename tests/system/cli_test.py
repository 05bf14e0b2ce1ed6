#!/usr/bin/env python3
"""cli_test.py PROGRAM: every command of `pergola`, as a process: what it prints, writes, and ends with."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()

SAXPY = r'''
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
'''
BLOCKS = """
.version 7.0
.target sm_70
.address_size 64
""" + "".join(f"""
.visible .entry {name}(.param .u64 x, .param .u32 n) {{
  .reg .pred %p;
  .reg .b32 %b, %t, %i, %v, %n;
  .reg .b64 %x, %o;
  ld.param.u64 %x, [x];
  ld.param.u32 %n, [n];
  mov.u32 %b, %ctaid.x;
  mov.u32 %t, %ntid.x;
  mov.u32 %v, %tid.x;
  mad.lo.s32 %i, %b, %t, %v;
  setp.ge.s32 %p, %i, %n;
  @%p bra END;
  mul.wide.s32 %o, %i, 4;
  add.s64 %x, %x, %o;
  {before}
  st.global.u32 [%x], %v;
END:
  ret;
}}
""" for name, before in (("fill", ""), ("fold", "ld.global.u32 %v, [%x];")))
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 in, .param .u64 out, .param .u32 v) {
  .reg .b64 %a, %b, %o;
  .reg .b32 %i, %v, %x;
  ld.param.u64 %a, [in];
  ld.param.u64 %b, [out];
  ld.param.u32 %v, [v];
  mov.u32 %i, %tid.x;
  mul.wide.u32 %o, %i, 4;
  add.s64 %a, %a, %o;
  add.s64 %b, %b, %o;
  ld.global.u32 %x, [%a];
  add.u32 %x, %x, %v;
  st.global.u32 [%b], %x;
  ret;
}
.visible .entry wild() {
  .reg .b64 %p;
  mov.u64 %p, 64;
  st.global.u64 [%p], %p;
  ret;
}
.visible .entry forever() {
loop:
  bra loop;
}
.visible .entry races() {
  .reg .b32 %i, %a, %v;
  .shared .align 4 .b8 tile[128];
  mov.u32 %i, %tid.x;
  mov.u32 %a, tile;
  mad.lo.u32 %a, %i, 4, %a;
  st.shared.u32 [%a], %i;
  xor.b32 %a, %a, 4;
  ld.shared.u32 %v, [%a];
  ret;
}
.visible .entry spins(.param .u64 p) {
  .reg .b64 %p; .reg .b32 %v; .reg .pred %q;
  ld.param.u64 %p, [p];
look:
  ld.volatile.global.u32 %v, [%p];
  setp.eq.u32 %q, %v, 0;
  @%q bra look;
  ret;
}
"""


HELLO = """.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 text[%d] = {%s};
.visible .entry hello() {
  .reg .b64 %%rd<3>;
  mov.u64 %%rd1, text;
  cvta.global.u64 %%rd2, %%rd1;
  { .param .b64 format; .param .b64 arguments; .param .b32 result;
    st.param.b64 [format], %%rd2; st.param.b64 [arguments], 0;
    call.uni (result), vprintf, (format, arguments); }
  ret;
}
""" % (len(b"hello from a kernel\n\0"), ", ".join(str(byte) for byte in b"hello from a kernel\n\0"))

class Cli(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pergola_cli_test."))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "case.ptx").write_text(PTX)
        (self.folder / "saxpy.cu").write_text(SAXPY)

    def run_program(self, *arguments, code=0, **environment):
        result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=300,
                                env={**os.environ, "PERGOLA_DEVICE": "cpu", "NO_COLOR": "1", **environment})
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}{result.stderr}")
        return result

    def can_compile(self):
        return json.loads(self.run_program("doctor", "--json").stdout)["can_compile"]

    def test_version(self):
        self.assertRegex(self.run_program("version").stdout, r"^pergola \d+\.\d+\.\d+ \(C interface \d+\.\d+\)\n$")
        self.assertIn("api", json.loads(self.run_program("version", "--json").stdout))

    def test_help_has_examples_and_is_no_error(self):
        for command in ("run", "compile", "analyze"):
            self.assertIn("Examples:", self.run_program(command, "--help").stdout)
        self.assertIn("doctor", self.run_program("--help").stdout)

    def test_wrong_command_line_is_1(self):
        for arguments in ([], ["nothing"], ["run"], ["run", "case.ptx"], ["run", "case.ptx", "--grid", "1"],
                          ["run", "case.ptx", "--grid", "1", "--block", "1", "--for-each", "4"],
                          ["run", "case.ptx", "--ptx", "case.ptx", "--for-each", "4"], ["analyze"],
                          ["compile", "saxpy.cu", "--compiler", "gcc"]):
            self.assertNotEqual(self.run_program(*arguments, code=1).stderr, "", arguments)

    def test_doctor_finds_the_cpu(self):
        report = json.loads(self.run_program("doctor", "--json").stdout)
        self.assertTrue(report["can_run"])
        cpu = next(f for f in report["findings"] if f["name"] == "cpu")
        self.assertEqual(cpu["state"], "works")
        for finding in report["findings"]:
            if finding["state"] == "missing" and finding["group"] == "devices":
                self.assertNotEqual(finding["mend"], "")
        self.assertIn("devices", self.run_program("doctor").stdout)

    def test_doctor_without_compilers_says_what_to_install(self):
        report = json.loads(self.run_program("doctor", "--json", PERGOLA_NVRTC="none", PERGOLA_CLANG="none").stdout)
        self.assertFalse(report["can_compile"])
        nvrtc = next(f for f in report["findings"] if f["name"] == "NVRTC")
        self.assertEqual(nvrtc["state"], "missing")
        self.assertNotEqual(nvrtc["mend"], "")
        self.run_program("compile", "saxpy.cu", "--no-cache", code=3, PERGOLA_NVRTC="none", PERGOLA_CLANG="none")

    def test_run_bare_ptx_on_bytes(self):
        (self.folder / "in.bin").write_bytes(struct.pack("<8I", *range(8)))
        out = self.run_program("run", "--ptx", "case.ptx", "--entry", "add", "--grid", "1", "--block", "8",
                               "--buffer", "in.bin", "--buffer", "zero:32:out.bin", "--scalar", "u32:100").stdout
        self.assertIn("add on CPU", out)
        self.assertEqual(struct.unpack("<8I", (self.folder / "out.bin").read_bytes()), tuple(range(100, 108)))
        self.assertEqual((self.folder / "in.bin").read_bytes(), struct.pack("<8I", *range(8)))

    def test_clangs_own_device_functions_do_as_cudas(self):
        """Norms that neither overflow nor underflow, and a selector of which three bits in four count."""
        (self.folder / "norms.cu").write_text("""
            extern "C" __global__ void norms(float* f, double* d, unsigned* u) {
              f[0] = norm3df(1e20f, 2e20f, 2e20f); f[1] = rnorm3df(1e-30f, 1e-30f, 1e-30f);
              f[2] = norm4df(1e-30f, 1e-30f, 1e-30f, 1e-30f); f[3] = rnorm4df(2e30f, 0, 0, 0);
              f[4] = rhypotf(3e38f, 3e38f); f[5] = norm3df(u[0] ? 0 : 1.0f / 0, 0.0f / 0, 0); f[6] = norm3df(3, 4, 12);
              d[0] = norm3d(1e200, 2e200, 2e200); d[1] = rnorm4d(5e-320, 0, 0, 0); d[2] = norm4d(1, 1, 1, 1);
              d[3] = rnorm3d(0, 0, 0); d[4] = rhypot(1e-200, 0); d[5] = norm3d(3e-324, 4e-310, 0);
              u[0] = __byte_perm(0x80u, 0, 0x8888); u[1] = __byte_perm(0x33221100u, 0x77665544u, 0xfdb9);
            }""")
        self.run_program("run", "norms.cu", "-g", "1", "-b", "1", "--buffer", "zero:28:f", "--buffer", "zero:48:d",
                         "--buffer", "zero:8:u", PERGOLA_NVRTC="none")
        inf = float("inf")
        found = struct.unpack("<7f", (self.folder / "f").read_bytes()) + struct.unpack("<6d", (self.folder / "d").read_bytes())
        wanted = (3e20, 3 ** -0.5 * 1e30, 2e-30, 5e-31, 2 ** -0.5 / 3e38, inf, 13, 3e200, 1 / 5e-320, 2, inf, 1e200, 4e-310)
        for i, (one, other) in enumerate(zip(found, wanted)):
            self.assertTrue(one == other or abs(one / other - 1) < (2e-7 if i < 7 and i != 4 else 1e-4 if i == 4 else 1e-14), (i, one, other))
        self.assertEqual(struct.unpack("<2I", (self.folder / "u").read_bytes()), (0x80808080, 0x77553311))

    def test_run_in_place_buffer_is_written_back(self):
        (self.folder / "io.bin").write_bytes(struct.pack("<8I", *range(8)))
        self.run_program("run", "case.ptx", "-k", "add", "-g", "1", "-b", "8", "--buffer", "io.bin:io.bin",
                         "--arg", "same:0", "--scalar", "u32:1")
        self.assertEqual(struct.unpack("<8I", (self.folder / "io.bin").read_bytes()), tuple(range(1, 9)))

    def test_run_keeps_the_order_of_mixed_arguments(self):
        out = self.run_program("run", "case.ptx", "-k", "add", "-g", "1", "-b", "4", "--arg", "iota:u32:4", "--buffer",
                               "zero:16:o", "--arg", "u32:5", "--json").stdout
        report = json.loads(out)
        self.assertEqual(struct.unpack("<4I", (self.folder / "o").read_bytes()), (5, 6, 7, 8))
        self.assertEqual(report["device"]["id"], "cpu")
        self.assertEqual(report["grid"], [1, 1, 1])
        self.assertEqual(len(report["times_ms"]), 1)

    def test_run_reads_and_writes_npy(self):
        header = b"{'descr': '<u4', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + b"\n"
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header +
                                            struct.pack("<4I", 1, 2, 3, 4))
        out = self.run_program("run", "case.ptx", "-k", "add", "-g", "1", "-b", "4", "--arg", "@x.npy", "--arg",
                               "zeros:u32:2x2>y.npy", "--arg", "u32:10", "--show", "3", "--repeat", "3").stdout
        self.assertIn("11 12 13 ...", out)
        self.assertIn("median of 3", out)
        y = (self.folder / "y.npy").read_bytes()
        self.assertTrue(y.startswith(b"\x93NUMPY\1\0"))
        self.assertIn(b"'descr': '<u4', 'fortran_order': False, 'shape': (2, 2)", y)
        self.assertEqual(struct.unpack("<4I", y[-16:]), (11, 12, 13, 14))

    def test_run_cuda_source(self):
        if not self.can_compile():
            self.skipTest("neither NVRTC nor clang is here")
        self.run_program("run", "saxpy.cu", "--for-each", "1000", "--arg", "f32:2", "--arg", "fill:f32:1000:1.5", "--arg",
                         "zeros:f32:1000>y.bin", "--arg", "i32:999")
        y = struct.unpack("<1000f", (self.folder / "y.bin").read_bytes())
        self.assertEqual(y, (3.0,) * 999 + (0.0,))

    def test_refused_input_is_2(self):
        launch = ("-g", "1", "-b", "1")
        self.assertIn("no file 'none.cu'", self.run_program("run", "none.cu", *launch, code=2).stderr)
        self.assertIn("There is no kernel 'sub'", self.run_program("run", "case.ptx", "-k", "sub", *launch, code=2).stderr)
        self.assertIn("name one with --kernel", self.run_program("run", "case.ptx", *launch, code=2).stderr)
        wrong = self.run_program("run", "case.ptx", "-k", "add", *launch, "--arg", "null", "--arg", "null", "--arg",
                                 "f32:1", code=2)
        self.assertIn("Argument 2 (parameter v) of kernel 'add' should be a 4-byte integer; it is a float.", wrong.stderr)
        self.run_program("run", "case.ptx", "-k", "wild", *launch, "--arg", "u9:1", code=2)
        (self.folder / "bad.ptx").write_text(PTX.replace("mul.wide.u32 %o, %i, 4;", "mul.wide.u32 %o %i, 4;"))
        self.assertIn("bad.ptx:", self.run_program("run", "bad.ptx", "-k", "add", *launch, code=2).stderr)
        (self.folder / "bad.npy").write_bytes(b"\x93NUMPY\1\0\xff\xff{")
        self.run_program("run", "case.ptx", "-k", "add", *launch, "--arg", "@bad.npy", code=2)

    def test_errors_are_json_too(self):
        report = json.loads(self.run_program("run", "none.cu", "-g", "1", "-b", "1", "--json", code=2).stdout)
        self.assertEqual(report["exit_code"], 2)
        self.assertEqual(report["error"]["code"], "not found")

    def test_missing_device_is_3(self):
        self.run_program("run", "case.ptx", "-k", "wild", "-g", "1", "-b", "1", "-d", "cuda:63", code=3)

    def test_kernel_fault_is_4_and_names_it(self):
        fault = self.run_program("run", "case.ptx", "-k", "wild", "-g", "1", "-b", "1", code=4)
        self.assertIn("'wild'", fault.stderr)

    def test_check_finds_a_race(self):
        arguments = ("run", "case.ptx", "-k", "races", "-g", "1", "-b", "32")
        self.run_program(*arguments)
        race = self.run_program(*arguments, "--check", code=4)
        self.assertIn("thread (0,0,0) of block (0,0,0) races with thread (1,0,0)", race.stderr)
        self.assertIn("case.ptx:", race.stderr)
        self.run_program(*arguments, "--check", "-d", "null", code=2)

    def test_watchdog_says_where_a_kernel_spins(self):
        stuck = self.run_program("run", "case.ptx", "-k", "spins", "-g", "3", "-b", "32", "--arg", "zeros:u32:1", "-d", "cpu",
                                 code=4, PERGOLA_CPU_WATCHDOG="1")
        self.assertIn("is ended by the watchdog", stuck.stderr)
        self.assertIn("(ld.volatile.global.u32) spins on 0x", stuck.stderr)

    def test_timeout_is_4(self):
        late = self.run_program("run", "case.ptx", "-k", "forever", "-g", "1", "-b", "1", "--timeout", "0.3", code=4)
        self.assertIn("has not ended after 0.3 s", late.stderr)

    def test_timeout_is_a_number_of_seconds(self):
        for wrong in ("nan", "-1", "inf", "1e300", "soon"):
            self.run_program("run", "case.ptx", "-k", "forever", "-g", "1", "-b", "1", f"--timeout={wrong}", code=1)

    def test_file_without_an_end_is_refused(self):
        arguments = ("run", "case.ptx", "-k", "spins", "-g", "1", "-b", "1")
        self.assertIn("'/dev/zero'", self.run_program("run", "/dev/zero", "-g", "1", "-b", "1", code=6).stderr)
        for argument in ("@/dev/zero", "raw:u8:/dev/zero", "bytes:/dev/zero"):
            self.assertIn("'/dev/zero'", self.run_program(*arguments, "--arg", argument, code=6).stderr)

    def test_pipe_is_a_file(self):
        (self.folder / "one.bin").write_bytes(struct.pack("<I", 1))
        command = f"cat one.bin | '{PROGRAM}' run case.ptx -k spins -g 1 -b 1 --arg raw:u32:/dev/stdin -d cpu"
        self.assertEqual(subprocess.run(["sh", "-c", command], cwd=self.folder, timeout=300).returncode, 0)

    def test_compile_into_standard_output_leaves_it_to_the_ptx(self):
        ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "k.ptx")
            path.write_text(ptx)
            done = self.run_program("compile", str(path), "-o", "/dev/stdout")
            self.assertEqual(done.stdout, ptx)
            self.assertIn("/dev/stdout (", done.stderr)
            refused = self.run_program("compile", str(path), "-o", "/dev/stdout", "--json", code=2)
            self.assertIn("is standard output, where --json writes too", refused.stdout)

    def test_a_source_is_not_replaced_by_its_ptx(self):
        refused = self.run_program("compile", "case.ptx", "-o", "case.ptx", code=2)
        self.assertIn("is the source, which --output would replace", refused.stderr)

    def test_an_array_into_standard_output_is_alone_there(self):
        arguments = ("run", "case.ptx", "-k", "add", "-g", "1", "-b", "4", "-d", "cpu", "-a", "iota:u32:4", "-a",
                     "zeros:u32:4>/dev/stdout", "-a", "u32:5")
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (0, struct.pack("<4I", 5, 6, 7, 8)))
        self.assertIn(b"argument 1", done.stderr)
        refused = self.run_program(*arguments, "--json", code=2)
        self.assertIn("is standard output, where --json writes too", refused.stdout)

    def test_doctor_tells_variables_that_nothing_reads(self):
        text = self.run_program("doctor", PERGOLA_SCHEDULR="graphs=off", PERGOLA_LOG="info").stdout
        self.assertRegex(text, r"unread +PERGOLA_SCHEDULR graphs=off\n +mend: Did you mean PERGOLA_SCHEDULER\?")
        self.assertRegex(text, r"read +PERGOLA_LOG info")

    def test_doctor_looks_at_the_device_that_is_chosen(self):
        text = self.run_program("doctor", code=3, PERGOLA_DEVICE="cuda:63").stdout
        self.assertRegex(text, r"broken\s+cuda:63 ")
        self.assertIn("They do not on cuda:63", text)
        self.assertIn("PERGOLA_DEVICE names cuda:63", text)
        self.assertRegex(self.run_program("doctor").stdout, r"(Kernels run|PTX runs) on .*cpu\.")

    def test_refused_kernels_are_listed_with_the_reason(self):
        (self.folder / "mixed.ptx").write_text(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry good() { ret; }\n"
            ".visible .entry bad() { nosuch.instruction.u32; ret; }\n")
        several = self.run_program("run", "mixed.ptx", "-g", "1", "-b", "1", code=2).stderr
        self.assertIn("good, bad (refused: ", several)
        self.run_program("run", "mixed.ptx", "-k", "good", "-g", "1", "-b", "1")
        self.assertIn("nosuch", self.run_program("run", "mixed.ptx", "-k", "bad", "-g", "1", "-b", "1", code=5).stderr)
        self.assertRegex(self.run_program("analyze", "mixed.ptx").stdout, r"refused by the CPU device: .*mixed.ptx:5:.*nosuch")
        kernels = json.loads(self.run_program("analyze", "mixed.ptx", "--json").stdout)["kernels"]
        self.assertEqual(kernels[0]["cpu_refusal"], "")
        self.assertIn("nosuch", kernels[1]["cpu_refusal"])

    def test_what_the_device_cannot_do_is_5(self):
        self.run_program("run", "case.ptx", "-k", "wild", "-g", "1", "-b", "1", "-d", "null", code=5)

    def test_compile_writes_ptx(self):
        if not self.can_compile():
            self.skipTest("neither NVRTC nor clang is here")
        self.assertIn(".entry saxpy", self.run_program("compile", "saxpy.cu").stdout)
        report = json.loads(self.run_program("compile", "saxpy.cu", "-o", "saxpy.ptx", "--arch", "sm_80", "--json").stdout)
        self.assertEqual(report["output"], "saxpy.ptx")
        self.assertIn(".target sm_80", (self.folder / "saxpy.ptx").read_text())
        (self.folder / "broken.cu").write_text("__global__ void k() { this is no C++; }\n")
        self.assertIn("broken.cu", self.run_program("compile", "broken.cu", code=2).stderr)

    def test_json_is_alone_on_standard_output(self):
        (self.folder / "hello.ptx").write_text(HELLO)
        result = self.run_program("run", "hello.ptx", "-g", "1", "-b", "2", "--json")
        self.assertEqual(json.loads(result.stdout)["kernel"], "hello")
        self.assertEqual(result.stderr.count("hello from a kernel"), 2)
        wrong = json.loads(self.run_program("run", "--bogus", "--json", code=1).stdout)
        self.assertEqual(wrong["exit_code"], 1)
        self.assertIn("--bogus", wrong["error"]["message"])

    def test_analyze_tells_accesses_and_why(self):
        text = self.run_program("analyze", "case.ptx", "--kernel", "add").stdout
        self.assertIn("st.global.u32", text)
        self.assertNotIn("wild", text)
        kernels = json.loads(self.run_program("analyze", "case.ptx", "--json").stdout)["kernels"]
        self.assertEqual([k["name"] for k in kernels], ["add", "wild", "forever", "races", "spins"])
        self.assertEqual([p["access"] for p in kernels[0]["parameters"]], ["read", "write", "none"])
        self.assertIn("ld.global.u32", kernels[0]["parameters"][0]["reason"])
        self.assertNotEqual(kernels[1]["universal_access"], "none")
        self.assertIn("if a number is given for", text)
        self.assertIn("virtual registers:", text)
        self.assertFalse(kernels[0]["resources"]["uses_atomics"])
        self.assertEqual(kernels[0]["resources"]["barriers"], [])
        self.run_program("analyze", "case.ptx", "--kernel", "sub", code=2)

    def test_analyze_relates_the_blocks_of_two_launches(self):
        launches = ("--launch", "fill[4, 32](x:512, 128)", "--launch", "fold[2, 64](x, 128)")
        (self.folder / "blocks.ptx").write_text(BLOCKS)
        picture = self.folder / "blocks.svg"
        text = self.run_program("analyze", "blocks.ptx", *launches, "--svg", picture).stdout
        self.assertIn("block 1: bytes 128 to 255", text)
        self.assertIn("n-to-one (read after write, write after write)", text)
        self.assertIn("block 1 waits for 2, 3", text)
        self.assertEqual(picture.read_text().count("<line"), 4)
        answer = json.loads(self.run_program("analyze", "blocks.ptx", *launches, "--json").stdout)
        self.assertEqual(answer["relation"]["pattern"], "n-to-one")
        self.assertEqual(answer["relation"]["children"],
                         [{"block": 0, "parents": [[0, 2]]}, {"block": 1, "parents": [[2, 4]]}])
        written = answer["launches"][0]["accesses"][0]["blocks"]
        self.assertEqual([(b["block"], b["begin"], b["end"], b["width"], b["rows"]) for b in written],
                         [(b, 128 * b, 128 * b + 128, 128, []) for b in range(4)])
        self.assertEqual(answer["launches"][0]["blocks_told"], 4)
        few = json.loads(self.run_program("analyze", "blocks.ptx", *launches, "--blocks", "1", "--json").stdout)
        self.assertEqual(len(few["relation"]["children"]), 1)
        self.assertEqual(few["launches"][0]["blocks_told"], 1)
        many = ("--launch", "fill[8, 16](x:512, 128)")
        self.assertNotIn("block 4:", self.run_program("analyze", "blocks.ptx", *many).stdout)
        self.assertIn("block 7:", self.run_program("analyze", "blocks.ptx", *many, "--blocks", "8").stdout)
        self.assertIn("give --launch twice", self.run_program("analyze", "blocks.ptx", "--svg", picture, code=2).stderr)
        drawn = self.run_program("analyze", "blocks.ptx", *launches, "--svg", "/dev/stdout")
        self.assertTrue(drawn.stdout.startswith("<svg") and drawn.stdout.rstrip().endswith("</svg>"))
        self.assertIn("n-to-one", drawn.stderr)
        both = self.run_program("analyze", "blocks.ptx", *launches, "--kernel", "fill", code=2)
        self.assertIn("leave --kernel fill away", both.stderr)
        for shape in ("64, 2048", "1x70000, 1", "1, 32x32x2", "0, 1"):
            wrong = self.run_program("analyze", "blocks.ptx", "--launch", f"fill[{shape}](x:512, 128)", code=2)
            self.assertIn("no device has 'fill' in a grid of", wrong.stderr)

    def test_explain_tells_how_a_graph_of_two_launches_would_be_made(self):
        (self.folder / "blocks.ptx").write_text(BLOCKS)
        launches = ("--launch", "fill[4, 32](x:512, 128)", "--launch", "fold[2, 64](x, 128)", "--device", "cpu")
        text = self.run_program("explain", "blocks.ptx", *launches).stdout
        self.assertIn("fill[4, 32](x:512, 128): 4 blocks of 32 threads\n  writes x: 128 bytes a block, in all of the blocks",
                      text)
        self.assertIn("  reads and writes x: at most 512 bytes a block", text)
        self.assertIn("depend on the first's: n-to-one (read after write, write after write)", text)
        self.assertIn("in a graph: by-block, the second launch is on the device before the first has ended; each of its "
                      "blocks waits for its own, 4 in all", text)
        self.assertIn("on cpu: ways are measured on GPUs only", text)
        self.assertIn("fused: with others like them (clusters of 8 blocks of at most 16 warps", text)
        self.assertIn("columns: 2 of neighbouring blocks", text)
        self.assertIn("stacked: no, their grids or blocks differ", text)
        self.assertIn("constants: 1 number of the first launch, 1 number of the second launch", text)
        large = ("--launch", "fill[64, 512](x:131072, 32768)", "--launch", "fold[2, 64](x, 128)", "--device", "cpu")
        others = json.loads(self.run_program("explain", "blocks.ptx", *large, "--json").stdout)["lowering"]["others"]
        self.assertIn({"way": "fused", "is_possible": False,
                       "why": "the first launch: its 1024 warps are too many for 8 blocks of 16"}, others)
        told = json.loads(self.run_program("explain", "blocks.ptx", *launches, "--json").stdout)
        self.assertEqual(told["lowering"]["way"], "by-block")
        self.assertFalse(told["lowering"]["is_measured"])
        self.assertGreaterEqual(told["lowering"]["limits"]["blocks_at_once"][1], 2)
        self.assertEqual(told["relation"]["pattern"], "n-to-one")
        self.assertEqual(told["launches"][0]["arrays"][0]["most_bytes_a_block"], 128)
        self.assertIn("give it twice", self.run_program("explain", "blocks.ptx", *launches[:2], code=2).stderr)
        self.assertIn("give --launch twice", self.run_program("explain", "blocks.ptx", code=2).stderr)

    def test_analyze_and_explain_say_the_same_of_a_graph(self):
        (self.folder / "blocks.ptx").write_text(BLOCKS + """
.visible .entry gather(.param .u64 x) {
  .reg .b32 %i;
  .reg .b64 %x, %o;
  ld.param.u64 %x, [x];
  ld.global.u32 %i, [%x];
  mul.wide.s32 %o, %i, 4;
  add.s64 %x, %x, %o;
  st.global.u32 [%x], %i;
  ret;
}""")
        no_gpu = "cpu is no GPU, so that an NVIDIA H200's limits are assumed: 132 multiprocessors"
        for launches, expected in (
                # 64 blocks, more than the CPU device has at once.
                (("fill[64, 256](x:64K, 16384)", "fold[64, 256](x, 16384)"), "each of its blocks waits for its own, 64 in all"),
                (("fill[4, 32](x:512, 128)", "gather[3, 32](x)"),
                 "each of its blocks waits for all 4 blocks of the first launch, 12 pairs in all"),
                (("fill[4, 32, 200K](x:512, 128)", "fold[256, 1, 200K](x, 128)"),
                 "its 256 blocks do not fit the device at once, which holds 132")):
            options = [option for launch in launches for option in ("--launch", launch)]
            for command in ("analyze", "explain"):
                text = self.run_program(command, "blocks.ptx", *options).stdout
                self.assertIn(expected, text)
                self.assertIn(no_gpu, text)
                told = json.loads(self.run_program(command, "blocks.ptx", *options, "--json").stdout)
                self.assertIn(expected, told["chain" if command == "analyze" else "lowering"]["why"])
        full = ("--launch", "fill[4, 32](x:512, 128)", "--launch", "gather[3, 32](x)")
        text = self.run_program("analyze", "blocks.ptx", *full).stdout
        self.assertIn("each block waits for all 4\n", text)
        self.assertIn("loaded at blocks.ptx:", text)
        children = json.loads(self.run_program("analyze", "blocks.ptx", *full, "--json").stdout)["relation"]["children"]
        self.assertEqual(children, [{"block": b, "parents": [[0, 4]]} for b in range(3)])

    def test_explain_tells_why_a_launch_starts_no_earlier(self):
        (self.folder / "late.ptx").write_text(
            ".version 8.0\n.target sm_90\n.address_size 64\n"
            ".visible .entry own(.param .u64 x) { .reg .b64 %x; ld.param.u64 %x, [x]; griddepcontrol.wait;\n"
            "st.global.u32 [%x], 1; ret; }\n")
        launches = ("--launch", "own[4, 32](x:512)", "--launch", "own[4, 32](x)", "--device", "cpu")
        told = json.loads(self.run_program("explain", "late.ptx", *launches, "--json").stdout)
        self.assertEqual(told["lowering"]["way"], "plain")
        self.assertIn("late.ptx:4", told["lowering"]["why"])

    def test_analyze_names_module_variables(self):
        (self.folder / "variables.ptx").write_text(
            ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 total;\n.global .u32 table[8];\n"
            ".visible .entry w() { .reg .b32 %r<2>; ld.global.u32 %r1, [table+4]; st.global.u32 [total], %r1; ret; }\n")
        self.assertIn("variable total: write: written by", self.run_program("analyze", "variables.ptx").stdout)
        kernel = json.loads(self.run_program("analyze", "variables.ptx", "--json").stdout)["kernels"][0]
        self.assertEqual({v["name"]: v["access"] for v in kernel["variables"]}, {"total": "write", "table": "read"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
