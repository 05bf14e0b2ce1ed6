"""What the GPU does in an iteration of each problem of dag_bench, serial against Pergola: the paper's Figure 12.

    python3 bench/dag/counters.py --bench build/dev/bin/dag_bench --times bench/reports/dag-h200.json --bytes 100M,1G \\
                                  --report bench/reports/dag-counters-h200

Needs ncu (NVIDIA Nsight Compute) and the report of a run of dag_bench on the same GPU. Counters are of one resident
iteration, kernel by kernel; throughput and instructions a cycle are those sums over the iteration's time, serial and
by Pergola, as in section V-F: kernels that overlap do the same work in less time.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys

FLOPS = {"fadd": 1, "fmul": 1, "ffma": 2, "dadd": 1, "dmul": 1, "dfma": 2}
METRICS = ["dram__bytes.sum", "lts__t_bytes.sum", "smsp__inst_executed.sum", "gpu__time_duration.sum"]
METRICS += [f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in FLOPS]
PROBLEMS = ["VEC", "B&S", "IMG", "ML", "HITS", "DL"]


def number(text):
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def counters(options, problem, size):
    """The sums over the kernels of one iteration, and how many those are."""
    command = ["ncu", "--csv", "--print-units", "base", "--target-processes", "all", "--clock-control", "none",
               "--metrics", ",".join(METRICS), options.bench, "--kernels", options.kernels, "--only", problem,
               "--bytes", str(size), "--once", "serial"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    sums, kernels = dict.fromkeys(METRICS, 0.0), set()
    for row in csv.DictReader(lines):
        sums[row["Metric Name"]] += float(row["Metric Value"].replace(",", ""))
        kernels.add(row["ID"])
    return sums, len(kernels)


def median(times, problem, form, size):
    for row in times["rows"]:
        params = row["params"]
        if (row["problem"], row["form"], params.get("measure"), params.get("bytes")) == (problem, form, "resident", size):
            return row["median_ms"]
    sys.exit(f"{problem} with {size} bytes, form {form}, is not in the report of times.")


def write_report(path, about, rows, what, table):
    """PATH.json and PATH.md; `about` has the suite and the device, `table` lines of Markdown."""
    path.with_suffix(".json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    path.with_suffix(".md").write_text(
        f"# {about['suite']} on {about['device']}\n\n" + "".join(f"- {key}: {value}\n" for key, value in about.items()) +
        f"\n{what}\n\n" + "\n".join(table) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/dev/bin/dag_bench", help="the program dag_bench")
    parser.add_argument("--kernels", default="bench/dag/kernels.cu")
    parser.add_argument("--times", required=True, help="the JSON report of a run of it on this GPU")
    parser.add_argument("--bytes", default="100M,1G", help="sizes that are in that report")
    parser.add_argument("--form", default="pergola-graphs", help="the form that stands for Pergola")
    parser.add_argument("--multiprocessors", type=int, default=132)
    parser.add_argument("--clock-mhz", type=float, default=1980.0, help="of the multiprocessors, under load")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds a problem")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    times = json.loads(pathlib.Path(options.times).read_text())
    head = ["problem", "bytes", "kernels", "DRAM GB/s serial", "Pergola", "L2 GB/s serial", "Pergola", "IPC serial",
            "Pergola", "GFLOP/s serial", "Pergola", "serial / Pergola"]
    table, rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)], []
    for problem in PROBLEMS:
        for size in map(number, options.bytes.split(",")):
            sums, kernels = counters(options, problem, size)
            flops = sum(weight * sums[f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"] for op, weight in FLOPS.items())
            row = {"problem": problem, "bytes": size, "kernels": kernels, "counters": sums}
            for name, form in (("serial", "serial"), ("pergola", options.form)):
                seconds = median(times, problem, form, size) / 1e3
                cycles = seconds * options.clock_mhz * 1e6 * options.multiprocessors
                row[name] = {"ms": seconds * 1e3, "dram_gb_s": sums["dram__bytes.sum"] / seconds / 1e9,
                             "l2_gb_s": sums["lts__t_bytes.sum"] / seconds / 1e9,
                             "ipc": sums["smsp__inst_executed.sum"] / cycles, "gflop_s": flops / seconds / 1e9}
            rows.append(row)
            both = [f"{row[form][key]:.{digits}f}" for key, digits in (("dram_gb_s", 0), ("l2_gb_s", 0), ("ipc", 2), ("gflop_s", 0))
                    for form in ("serial", "pergola")]
            table.append("| " + " | ".join([problem, str(size), str(kernels), *both,
                                            f"{row['serial']['ms'] / row['pergola']['ms']:.2f}"]) + " |")
            print(table[-1], flush=True)
    if options.report:
        about = {"suite": "dag-counters", "device": times["device"], "driver": times["driver"],
                 "commit": os.environ.get("PERGOLA_COMMIT", ""), "times": f"{times['date']}, commit {times['commit']}",
                 "date": datetime.date.today().isoformat(), "command": " ".join(sys.argv)}
        write_report(options.report, about, rows, "Sums of one iteration's counters over its time, serial and by Pergola.", table)


if __name__ == "__main__":
    main()
