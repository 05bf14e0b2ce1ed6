"""A GPU that a fake driver plays: its memory is the host's, its kernels do nothing."""
import os
import subprocess
import sys
import textwrap

import pytest

FAKE = os.environ.get("PERGOLA_FAKE_CUDA", "")


def run_on_fake_gpu(tmp_path, body):
    (tmp_path / "libcuda.so.1").symlink_to(FAKE)
    code = textwrap.dedent("""
        import gc, sys, numpy as np, pergola as pg
        assert pg.device().id == "cuda:0"
        class Stream:
            def __init__(self, handle): self.handle = handle
            def __cuda_stream__(self): return (0, self.handle)
        class OnGpu:
            "Another library's array, by both protocols."
            def __init__(self, array, **changes):
                self.array = array
                self.changes = changes
            def __del__(self): gone.append(1)
            @property
            def __cuda_array_interface__(self):
                return {"shape": self.array.shape, "typestr": self.array.dtype.str, "strides": None, "version": 3,
                        "data": (self.array.__array_interface__["data"][0], False), "stream": 1, **self.changes}
        gone = []
        host = np.arange(6, dtype="f4").reshape(2, 3)
    """) + textwrap.dedent(body)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                            env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PERGOLA_DEVICE": "cuda:0"})
    assert result.returncode == 0, result.stdout + result.stderr


needs_fake = pytest.mark.skipif(FAKE == "", reason="the fake driver is of builds with tests")
