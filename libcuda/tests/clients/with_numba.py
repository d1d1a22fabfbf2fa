"""numba: a kernel compiled from Python, on two threads, and what is current before and after."""

import warnings

import numpy as np
from cuda.bindings import driver
from numba import cuda
from numba.core.errors import NumbaPerformanceWarning

import two_threads
from two_threads import COUNT

warnings.simplefilter("ignore", NumbaPerformanceWarning)


@cuda.jit
def add(a, b):
    index = cuda.grid(1)
    if index < a.size:
        a[index] += b[index]


def current():
    status, context = driver.cuCtxGetCurrent()
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return int(context)


def work(own):
    assert current() == 0
    a = cuda.to_device(np.arange(COUNT, dtype=np.float32))
    primary = current()
    assert primary != 0
    b = cuda.to_device(np.full(COUNT, 100 * own, dtype=np.float32))
    add[8, 128](a, b)
    assert (a.copy_to_host() == np.arange(COUNT) + 100 * own).all()
    with cuda.gpus[0]:
        assert current() == primary
    assert current() == primary


driver.cuInit(0)
two_threads.run(work)
