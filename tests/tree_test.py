"""Style as a test: what a reader may rely on in every file of the tree."""
import json
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".cc", ".h", ".hpp", ".cu", ".cuh", ".py", ".sh"}
MAX_LINES = 800


def tracked():
    run = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    if run.returncode == 0 and run.stdout:
        return [ROOT / name for name in run.stdout.splitlines() if (ROOT / name).is_file()]
    return [path for folder in ("src", "include", "tools", "examples", "bench", "tests", "docs", "scripts")
            for path in (ROOT / folder).rglob("*") if path.is_file()]


class Tree(unittest.TestCase):
    files = tracked()

    def code(self):
        return [f for f in self.files if f.suffix in CODE and "tests/corpus/" not in f.as_posix()]

    def test_there_are_files(self):
        self.assertGreater(len(self.code()), 20)

    def test_no_file_is_over_the_limit(self):
        long = {str(f.relative_to(ROOT)): n for f in self.code()
                if (n := len(f.read_text(errors="replace").splitlines())) > MAX_LINES}
        self.assertEqual(long, {})

    def test_headers_open_with_a_comment_and_are_guarded(self):
        bad = []
        for f in self.code():
            if f.suffix not in (".h", ".hpp", ".cuh"):
                continue
            text = f.read_text(errors="replace")
            if not text.startswith(("//", "/*")) or ("#pragma once" not in text and "#ifndef" not in text):
                bad.append(str(f.relative_to(ROOT)))
        self.assertEqual(bad, [])

    def test_links_in_documents_lead_somewhere(self):
        broken = []
        for f in self.files:
            if f.suffix != ".md":
                continue
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", f.read_text(errors="replace")):
                if not (f.parent / target).exists():
                    broken.append(f"{f.relative_to(ROOT)}: {target}")
        self.assertEqual(broken, [])

    # Names by which code asks: setting("PERGOLA_LOG"), find_program("PERGOLA_PTXAS", ...), getenv("PERGOLA_DEVICE").
    def test_environment_variables_are_documented(self):
        ask = re.compile(r'(?:setting|read_number|find_program|getenv)\(\s*"(PERGOLA_\w+)"')
        read = {name for f in self.files if f.suffix in {".cc", ".h"} and not f.name.endswith(("_test.cc", "_fixture.h"))
                and f.relative_to(ROOT).parts[0] in ("src", "tools", "python")
                for name in ask.findall(f.read_text(errors="replace"))}
        documented = set(re.findall(r"^\| `(PERGOLA_\w+)` \|", (ROOT / "docs/environment.md").read_text(), re.MULTILINE))
        self.assertGreater(len(read), 20)
        self.assertEqual(documented, read)
        told = set(re.findall(r'"(PERGOLA_\w+)"', (ROOT / "tools/pergola/doctor_settings.cc").read_text()))
        self.assertEqual(told, read)

    def test_reports_can_be_read_and_are_listed(self):
        folder = ROOT / "bench/reports"
        index = (folder / "README.md").read_text()
        for f in folder.glob("*.json"):
            with self.subTest(f.name):
                report = json.loads(f.read_text())
                self.assertRegex(report["date"], r"^20\d\d-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?$")
                self.assertTrue(report["rows"])
        for f in folder.glob("*.md"):
            with self.subTest(f.name):
                self.assertTrue(f.name == "README.md" or f"({f.name})" in index, "not in bench/reports/README.md")

    def test_no_unfinished_marks(self):
        marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
        found = [f"{f.relative_to(ROOT)}:{n}" for f in self.code() if f != pathlib.Path(__file__).resolve()
                 for n, line in enumerate(f.read_text(errors="replace").splitlines(), 1) if marks.search(line)]
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
