#!/usr/bin/env python3
"""exports_test.py LIBRARY HEADER: the library exports the functions of the C header, versioned, and nothing else."""
import pathlib
import re
import subprocess
import sys
import unittest

LIBRARY, HEADER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def exported():
    lines = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines()}


def declared():
    return set(re.findall(r"^PERGOLA_API\s[^;(]*?(\w+)\(", HEADER.read_text(), re.M))


class Exports(unittest.TestCase):
    def test_exports_are_the_header(self):
        functions = declared()
        self.assertGreater(len(functions), 25)
        self.assertEqual(exported() - {"PERGOLA_0.1"}, {f"{name}@@PERGOLA_0.1" for name in functions})

    def test_soname_has_the_major_version(self):
        dynamic = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        self.assertIn("[libpergola.so.0]", dynamic)

    def test_no_driver_compiler_or_llvm_is_linked(self):
        dynamic = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"NEEDED.*\[(.*?)\]", dynamic)
        self.assertEqual([name for name in needed if re.match(r"lib(cuda|nvrtc|nvidia|LLVM|clang)", name)], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
