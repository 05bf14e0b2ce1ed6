"""The report of a benchmark in Python: the format of report.h."""
import datetime
import json
import os
import platform
import statistics
import sys

import pergola as pg


def row(problem, form, params, times_ms, checked):
    """One row; `times_ms` are the single runs, `checked` says that this run's result was compared with a reference."""
    return {"problem": problem, "form": form, "params": params, "median_ms": statistics.median(times_ms),
            "min_ms": min(times_ms), "max_ms": max(times_ms), "runs": len(times_ms), "checked": bool(checked)}


def finish(suite, rows, path):
    """Prints the rows and, where `path` (a pathlib.Path) is given, writes PATH.json and PATH.md. 0, or 1 where a row is unchecked."""
    keys = list(rows[0])
    cell = {dict: json.dumps, float: "{:.6f}".format, bool: lambda value: "yes" if value else "no"}
    table = "| " + " | ".join(keys) + " |\n|" + "---|" * len(keys) + "\n"
    table += "".join("| " + " | ".join(cell.get(type(r[key]), str)(r[key]) for key in keys) + " |\n" for r in rows)
    print(table, end="")
    if path:
        device = pg.device()
        head = {"suite": suite, "device": device.name, "driver": device.driver, "cuda": "",
                "host": f"{os.cpu_count()} cores, Python {platform.python_version()}",
                "commit": os.environ.get("PERGOLA_COMMIT", ""), "date": datetime.date.today().isoformat(),
                "command": " ".join(sys.argv)}
        path.with_suffix(".json").write_text(json.dumps({**head, "rows": rows, "notes": ""}, indent=1) + "\n")
        path.with_suffix(".md").write_text(
            f"# {suite} on {device.name}\n\n" + "".join(f"- {k}: {v}\n" for k, v in head.items()) + "\n" + table)
    return 0 if all(r["checked"] for r in rows) else 1
