"""One table of several reports of dag_bench: a run of many sizes in parts, as one command may last too long.

    python3 bench/dag/summary.py bench/reports/dag-turns-h200.json bench/reports/dag-1g-h200.json ...

Pergola's time against the best hand-written form's and the serial form's, by size and measure, and the geometric means;
the device's memory of both; the worst cell. Of a cell that several reports have, the last one given counts. Reports of
different devices or commits are named as such. Ends with 1 where no report has a whole cell.
"""
import json
import math
import pathlib
import sys

BY_HAND = ("streams", "capture", "graph")


def cells_of(paths):
    """{(bytes, measure, problem, other parameters): {form: (median ms, MiB of the device)}}, and where they are from."""
    cells, sources = {}, {}
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text())
        sources.setdefault((report["device"], report["commit"]), []).append(pathlib.Path(path).name)
        fresh = {}
        for row in report["rows"]:
            params = dict(row["params"])
            measure, size, mib = params.pop("measure", ""), params.pop("bytes"), params.pop("device_mib", 0)
            if measure not in ("cold", "resident") or not row["checked"]:
                continue
            params.pop("runs", None)  # in which order runs came
            key = (size, measure, row["problem"], json.dumps(params, sort_keys=True))
            fresh.setdefault(key, {})[row["form"]] = (row["median_ms"], mib)
        cells.update({key: forms for key, forms in fresh.items() if {"serial", "pergola", *BY_HAND} <= forms.keys()})
    return cells, sources


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    cells, sources = cells_of(sys.argv[1:])
    if not cells:
        print("None of these reports has a cell with the serial form, all hand-written ones and Pergola.")
        return 1
    for (device, commit), names in sources.items():
        print(f"{device}, commit {commit}: {', '.join(names)}")
    print("\n| size | measure | problem | best form | MiB, best and Pergola | over best | over serial | graphs over best |")
    print("|---|---|---|---|---|---|---|---|")
    over_best, over_serial = {}, {}
    for (size, measure, problem, params), forms in sorted(cells.items()):
        best = min(BY_HAND, key=lambda form: forms[form][0])
        ms, mib = forms["pergola"]
        ratio = forms[best][0] / ms
        over_best.setdefault(measure, {})[f"{problem} at {size / 1e6:g} MB"] = ratio
        over_serial.setdefault(measure, []).append(forms["serial"][0] / ms)
        graphs = f"{forms[best][0] / forms['pergola-graphs'][0]:.3f}" if "pergola-graphs" in forms else ""
        print(f"| {size / 1e6:g} MB | {measure} | {problem} | {best} | {forms[best][1]}, {mib} | {ratio:.3f} "
              f"| {forms['serial'][0] / ms:.3f} | {graphs} |")
    for measure, ratios in over_best.items():
        worst = min(ratios, key=ratios.get)
        print(f"\n{measure}: {mean(ratios.values()):.3f} over the best hand-written form, {mean(over_serial[measure]):.3f} over "
              f"serial, in the geometric mean of {len(ratios)} cells; least {ratios[worst]:.3f}, {worst}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
