"""The layer check must itself be able to fail: planted violations are found, and the diagram is that of layers.txt."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent


def check(files, layers):
    with tempfile.TemporaryDirectory() as folder:
        src = pathlib.Path(folder)
        for name, text in files.items():
            path = src / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (src / "layers.txt").write_text(layers)
        run = subprocess.run([sys.executable, HERE / "check_layers.py", src, src / "layers.txt"],
                             capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


class Layers(unittest.TestCase):
    LAYERS = "base:\nptx: base\ndevice: base ptx\ndevice/cpu: base device\ndevice/cuda: base device\n"

    def test_downward_include_is_allowed(self):
        self.assertEqual(check({"ptx/a.cc": '#include "src/base/b.h"\n'}, self.LAYERS)[0], 0)

    def test_upward_include_is_refused_with_file_and_line(self):
        code, text = check({"base/a.h": '\n#include "src/ptx/b.h"\n'}, self.LAYERS)
        self.assertEqual(code, 1)
        self.assertIn("a.h:2: base may not include ptx", text)

    def test_sibling_include_is_refused(self):
        code, text = check({"device/cpu/a.cc": '#include "src/device/cuda/b.h"\n'}, self.LAYERS)
        self.assertEqual(code, 1)
        self.assertIn("device/cpu may not include device/cuda", text)

    def test_unlisted_folder_is_refused(self):
        self.assertEqual(check({"odd/a.cc": ""}, self.LAYERS)[0], 1)

    def test_layer_listed_above_what_it_needs_is_refused(self):
        self.assertNotEqual(check({}, "ptx: base\nbase:\n")[0], 0)

    def test_diagram_in_architecture_is_current(self):
        run = subprocess.run([sys.executable, ROOT / "scripts/layer_diagram.py", "--check"], capture_output=True,
                             text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
