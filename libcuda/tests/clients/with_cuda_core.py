"""cuda.core: contexts on two threads, a kernel in a stream of each, and what is current before and after."""

import ctypes

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch

import two_threads
from two_threads import COUNT, PTX



def asked(answer):
    """What the driver wrote, after a look at its status."""
    status, *written = answer
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return written[0] if written else None


def current():
    return int(asked(driver.cuCtxGetCurrent()))


def add(own):
    """Adds two vectors of numbers in the current context."""
    device = Device(0)
    stream = device.create_stream()
    a = device.allocate(4 * COUNT, stream=stream)
    b = device.allocate(4 * COUNT, stream=stream)
    x = np.arange(COUNT, dtype=np.float32)
    y = np.full(COUNT, 100 * own, dtype=np.float32)
    asked(driver.cuMemcpyHtoDAsync(int(a.handle), x.ctypes.data, x.nbytes, stream.handle))
    asked(driver.cuMemcpyHtoDAsync(int(b.handle), y.ctypes.data, y.nbytes, stream.handle))
    kernel = ObjectCode.from_ptx(PTX).get_kernel("sum")
    assert kernel.attributes.max_threads_per_block >= 128
    config = LaunchConfig(grid=8, block=128)
    launch(stream, config, kernel, int(a.handle), int(b.handle), ctypes.c_uint32(COUNT))
    asked(driver.cuMemcpyDtoHAsync(x.ctypes.data, int(a.handle), x.nbytes, stream.handle))
    stream.sync()
    assert (x == np.arange(COUNT) + 100 * own).all(), x
    for buffer in (a, b):
        buffer.close(stream)
    stream.close()


def work(own):
    assert current() == 0
    device = Device(0)
    device.set_current()
    primary = current()
    assert primary != 0
    add(own)
    # A context of its own over the primary one, and the primary one again below it.
    context = asked(driver.cuCtxCreate(None, 0, 0))
    assert current() == int(context) != primary
    assert int(asked(driver.cuCtxPopCurrent())) == int(context)
    assert current() == primary
    asked(driver.cuCtxDestroy(context))
    assert int(asked(driver.cuCtxPopCurrent())) == primary
    assert current() == 0


asked(driver.cuInit(0))
two_threads.run(work)
