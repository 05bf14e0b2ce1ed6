"""bench/dag/summary.py on reports with known figures."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "bench" / "dag" / "summary.py"


def row(problem, form, ms, measure="resident", size=10_000_000, checked=True, mib=12):
    params = {"block": 256, "bytes": size, "measure": measure, "device_mib": mib}
    return {"problem": problem, "form": form, "params": params, "median_ms": ms, "checked": checked}


def cell(problem, serial, streams, capture, graph, pergola, **more):
    return [row(problem, form, ms, **more)
            for form, ms in zip(("serial", "streams", "capture", "graph", "pergola"), (serial, streams, capture, graph, pergola))]


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on(self, *reports):
        paths = []
        for number, rows in enumerate(reports):
            paths.append(self.folder / f"dag-{number}.json")
            paths[-1].write_text(json.dumps({"device": "a GPU", "commit": f"c{number}", "rows": rows}))
        return subprocess.run([sys.executable, SUMMARY, *paths], capture_output=True, text=True)

    def test_means_and_the_worst_cell_are_of_all_reports(self):
        done = self.run_on(cell("VEC", 4, 3, 2, 2.5, 1), cell("ML", 4, 1.8, 3, 3, 2, size=100_000_000))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 10 MB | resident | VEC | capture | 12, 12 | 2.000 | 4.000 |  |", done.stdout)
        self.assertIn("| 100 MB | resident | ML | streams | 12, 12 | 0.900 | 2.000 |  |", done.stdout)
        self.assertIn("resident: 1.342 over the best hand-written form, 2.828 over serial, in the geometric mean of 2 cells; "
                      "least 0.900, ML at 100 MB", done.stdout)

    def test_the_last_report_counts(self):
        done = self.run_on(cell("VEC", 4, 3, 2, 2.5, 1), cell("VEC", 4, 3, 2, 2.5, 4))
        self.assertIn("resident: 0.500 over", done.stdout)
        self.assertIn("a GPU, commit c1: dag-1.json", done.stdout)

    def test_what_is_unchecked_or_cut_short_is_no_cell(self):
        wrong = cell("VEC", 4, 3, 2, 2.5, 1)
        wrong[-1]["checked"] = False
        done = self.run_on(wrong, cell("ML", 4, 3, 2, 2.5, 1)[:-1])
        self.assertEqual(done.returncode, 1)
        self.assertIn("None of these reports has a cell", done.stdout)

    def test_without_reports_it_says_how(self):
        done = self.run_on()
        self.assertEqual(done.returncode, 2)
        self.assertIn("python3 bench/dag/summary.py", done.stdout)


if __name__ == "__main__":
    unittest.main()
