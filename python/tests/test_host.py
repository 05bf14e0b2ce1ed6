"""Arrays that the host works on by pointer."""
import gc
import weakref

import numpy as np
import pergola as pg
import pytest

from fake_gpu import needs_fake, run_on_fake_gpu


def test_written_on_the_host_read_on_the_host():
    x = pg.empty((3, 4), "f4")
    host = x.host("w")
    assert host.shape == (3, 4) and host.dtype == np.float32 and host.flags.writeable
    host[:] = 2
    assert (x.numpy() == 2).all()
    x.fill(5)
    again = x.host()
    assert (again == 5).all()
    again[1] = 6
    assert x.host("r")[1].tolist() == [6] * 4 and x[2, 0] == 5


def test_kernels_between_host_accesses(saxpy):
    n = 1000
    x, y = pg.empty(n, "f4"), pg.empty(n, "f4")
    x.host("w")[:] = np.arange(n)
    y.host("w")[:] = 1
    x.prefetch()
    saxpy[n](2.0, x, y, n)
    y.prefetch("host")
    assert (y.host("r") == 2 * np.arange(n) + 1).all()


def test_a_view_is_its_part():
    x = pg.array(np.arange(10, dtype="i4"))
    part = x[2:5]
    part.host("rw")[:] = -1
    assert x.tolist() == [0, 1, -1, -1, -1, 5, 6, 7, 8, 9]
    with pytest.raises(ValueError, match="rest of the array"):
        part.host("w")


def test_read_only_where_it_is_only_read():
    host = pg.zeros(4, "i4").host("r")
    with pytest.raises(ValueError, match="read-only"):
        host[0] = 1


def test_empty_array_has_an_empty_host_side():
    assert pg.empty((0, 3), "f8").host().shape == (0, 3)


def test_the_array_lives_as_long_as_its_host_side():
    x = pg.array(np.arange(4, dtype="u8"))
    gone = weakref.ref(x)
    host = x.host()
    with pytest.raises(BufferError, match="host"):
        x.free()
    del x
    gc.collect()
    assert host.tolist() == [0, 1, 2, 3]
    del host
    gc.collect()
    assert gone() is None
    x = pg.array(np.arange(4))
    host = x.host()
    del host
    x.free()
    assert x.freed
    with pytest.raises(pg.FailedPrecondition, match="freed"):
        x.host()


def test_what_is_refused():
    x = pg.zeros(4, "i4")
    with pytest.raises(ValueError, match="'r', 'w' or 'rw'"):
        x.host("read")
    with pytest.raises(ValueError, match="'device' or 'host'"):
        x.prefetch("both")
    with pytest.raises(TypeError):
        pg._core.HostMemory()


def test_location_is_told():
    x = pg.zeros(4, "i4")
    assert x.location in ("device", "both")
    x.host("w")[:] = 1
    assert x.location in ("host", "both")


def test_managed_memory_on_the_cpu_device_is_the_array():
    session = pg.session(device="cpu", scheduler="memory=managed")
    x = session.zeros(100, "f4")
    x.host("w")[:] = 3
    assert x.location == "both" and (x.numpy() == 3).all()


@needs_fake
def test_what_others_own_is_known_by_its_address_whatever_its_host_side_is(tmp_path):
    run_on_fake_gpu(tmp_path, """
        for scheduler in ("memory=managed", "memory=device"):
            session = pg.session(device="cuda:0", scheduler=scheduler)
            theirs = np.arange(64, dtype="f4")
            whole = session.asarray(OnGpu(theirs))
            assert session.asarray(OnGpu(theirs))._is_view
            assert whole.host("r").tolist() == list(range(64))
            assert session.asarray(OnGpu(theirs))._is_view
            del whole
            others = [session.zeros(64, "f4") for _ in range(4)]  # one may have its place in Python's memory
            again = session.asarray(OnGpu(theirs))
            assert not again._is_view and again.tolist() == list(range(64)), scheduler
    """)


@needs_fake
def test_managed_memory_moves_to_whoever_uses_it(tmp_path):
    run_on_fake_gpu(tmp_path, """
        session = pg.session(device="cuda:0", scheduler="memory=managed")
        x = session.empty((2, 3), "f4")
        assert x.location == "host"
        x.host("w")[:] = host
        y = session.empty((2, 3), "f4")
        y[:] = x
        assert x.location == y.location == "device"
        assert y.host("r").tolist() == host.tolist() and y.location == "host"
    """)
