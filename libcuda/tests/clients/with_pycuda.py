"""PyCUDA: contexts on two threads, pushed and popped, and a kernel in each."""


import numpy as np
import pycuda.driver as cuda

import two_threads
from two_threads import COUNT, PTX



def work(own):
    assert cuda.Context.get_current() is None
    context = cuda.Device(0).make_context()
    other = cuda.Device(0).make_context()
    assert cuda.Context.get_current() == other
    cuda.Context.pop()
    assert cuda.Context.get_current() == context
    a = np.arange(COUNT, dtype=np.float32)
    b = np.full(COUNT, 100 * own, dtype=np.float32)
    add = cuda.module_from_buffer(PTX).get_function("sum")
    add(cuda.InOut(a), cuda.In(b), np.uint32(COUNT), grid=(8, 1), block=(128, 1, 1))
    assert (a == np.arange(COUNT) + 100 * own).all(), a
    # In the other context the module's functions are not valid, but its own memory is.
    other.push()
    kept = cuda.to_device(b)
    assert (cuda.from_device_like(kept, b) == b).all()
    kept.free()
    cuda.Context.pop()
    assert cuda.Context.get_current() == context
    other.detach()
    context.pop()
    assert cuda.Context.get_current() is None
    context.detach()
    assert cuda.Context.get_current() is None


cuda.init()
two_threads.run(work)
