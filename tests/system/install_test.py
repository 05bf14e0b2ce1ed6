#!/usr/bin/env python3
"""install_test.py BUILD CONSUMER: what is installed is found by CMake and pkg-config, and works where it lies."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, CONSUMER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def run(*command, **environment):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                            env={**os.environ, **environment})
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="pergola_install_test."))
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        # A tree that was moved must work as well.
        (cls.folder / "first").rename(cls.folder / "moved")
        cls.prefix = cls.folder / "moved"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_cmake_finds_it(self):
        build = self.folder / "consumer"
        run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertEqual(run(build / "consumer"), "42\n")

    def test_cmake_finds_a_build_folder(self):
        build = self.folder / "consumer_of_build"
        run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={BUILD.absolute()}")
        run("cmake", "--build", build)
        self.assertEqual(run(build / "consumer"), "42\n")

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is not installed")
    def test_pkg_config_finds_it(self):
        path = next(self.prefix.rglob("pergola.pc")).parent
        flags = run("pkg-config", "--cflags", "--libs", "pergola", PKG_CONFIG_PATH=str(path)).split()
        libraries = next(flag[2:] for flag in flags if flag.startswith("-L"))
        program = self.folder / "c_consumer"
        run("cc", "-std=c11", "-Wall", "-Werror", CONSUMER / "main.c", "-o", program, *flags)
        self.assertEqual(run(program, LD_LIBRARY_PATH=libraries, PERGOLA_DEVICE="cpu"), "0.1.0\n")

    def test_program_starts(self):
        found = run(self.prefix / "bin" / "pergola", "doctor")
        self.assertRegex(found, "(Kernels run|PTX runs) on ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
