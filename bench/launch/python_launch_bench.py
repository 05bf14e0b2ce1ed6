"""What a launch costs from Python: launch_bench's first rows, form pergola-python. PERGOLA_DEVICE chooses the device.

    PYTHONPATH=build/dev/python python_launch_bench.py [--small] [--report PATH]     (PATH.json and PATH.md are written)
"""
import argparse
import pathlib
import sys
import time

import pergola as pg

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import report  # noqa: E402

PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry count(.param .u64 count_param_0)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [count_param_0];
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra done;
  red.global.add.u32 [%rd1], 1;
done:
  ret;
}
"""


def measure(runs, batch):
    """Milliseconds a launch: until the launches have returned, and until they have run; and whether all ran."""
    kernel, counter = pg.kernel(PTX), pg.zeros(1, "u4")
    queued, done, right = [], [], True
    for run in range(runs + 1):
        counter.fill(0)
        pg.synchronize()
        start = time.perf_counter()
        for _ in range(batch):
            kernel[1, 32](counter)
        returned = time.perf_counter()
        pg.synchronize()
        end = time.perf_counter()
        right = right and counter[0] == batch
        if run:  # the first warms up
            queued.append((returned - start) * 1e3 / batch)
            done.append((end - start) * 1e3 / batch)
    return queued, done, right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    runs, batch = (3, 200) if options.small else (20, 10000)
    queued, done, right = measure(runs, batch)
    rows = [report.row(problem, "pergola-python", {"batch": batch}, times, right)
            for problem, times in (("launch-cost", queued), ("empty-rate", done))]
    return report.finish("python-launch", rows, options.report)


if __name__ == "__main__":
    sys.exit(main())
