"""How much of each problem of dag_bench overlaps: the paper's CT, TC, CC and TOT (section V-F), and the distance to the
contention-free bound (Figure 9), from traces of one cold iteration.

    python3 bench/dag/overlap.py --build build/dev --bytes 100M --report bench/reports/dag-overlap-h200

With graphs=off, as a graph is one piece of a timeline; kernels' serial times are of an iteration with execution=sync.
PERGOLA_DEVICE chooses the device.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from counters import PROBLEMS, write_report


def trace_of(options, path, problem, policy):
    """Of one iteration, behind some that are not recorded."""
    command = [options.build / "bin/dag_bench", "--kernels", options.kernels, "--only", problem, "--bytes", options.bytes,
               "--measure", "cold", "--once", "pergola", "--trace", path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=options.timeout,
                          env={**os.environ, "PERGOLA_SCHEDULER": policy})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return str(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/dev"), help="with bin/dag_bench and bin/pergola")
    parser.add_argument("--kernels", default="bench/dag/kernels.cu")
    parser.add_argument("--bytes", default="100M", help="one size, as dag_bench takes it")
    parser.add_argument("--only", type=lambda text: text.split(","), default=PROBLEMS)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds a problem")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    head = ["problem", "pieces", "CT %", "TC %", "CC %", "TOT %", "run us", "bound us", "run over bound"]
    table, rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)], []
    for problem in options.only:
        with tempfile.TemporaryDirectory() as name:
            run = trace_of(options, pathlib.Path(name, "run.json"), problem, "graphs=off")
            serial = trace_of(options, pathlib.Path(name, "serial.json"), problem, "execution=sync,graphs=off")
            told = json.loads(subprocess.run([str(options.build / "bin/pergola"), "trace", "--overlap", run, "--serial", serial,
                                              "--json"], capture_output=True, text=True, check=True).stdout)
        if told["computations"] == 0:
            sys.exit(f"{problem}: the trace has no computations.")
        rows.append({"problem": problem, **told})
        overlap = [f"{told['overlap'][each] * 100:.1f}" for each in ("ct", "tc", "cc", "tot")]
        table.append("| " + " | ".join([problem, str(told["computations"]), *overlap, f"{told['span_ns'] / 1e3:.1f}",
                                        f"{told['critical_path_ns'] / 1e3:.1f}", f"{told['time_over_bound']:.2f}"]) + " |")
        print(table[-1], flush=True)
    if options.report:
        about = {"suite": "dag-overlap", "device": rows[0]["device"], "commit": os.environ.get("PERGOLA_COMMIT", ""),
                 "date": datetime.date.today().isoformat(), "bytes": options.bytes, "command": " ".join(sys.argv)}
        what = ("One cold iteration, launches and copies one by one. CT: of computation, with transfers; TC: of transfers, with "
                "computation; CC: of computation, with other computation; TOT: of all, with anything.")
        write_report(options.report, about, rows, what, table)


if __name__ == "__main__":
    main()
