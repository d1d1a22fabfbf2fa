"""Kernels for Numba: `cuda.compile_ptx(kernel, types, cc=(8, 0))`, and the entry renamed to the function."""

from math import sqrt

from numba import cuda, int32, int64, types as T

i32, f64 = T.CPointer(T.int32), T.CPointer(T.float64)


def steps_to_one(to):
    i = cuda.grid(1)
    n = int64(i) + 1
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    to[i] = steps


def halves_exchanged(x, to):
    shared = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    shared[t] = x[cuda.blockIdx.x * 64 + t]
    cuda.syncthreads()
    size = 2
    while size <= 64:
        step = size // 2
        while step > 0:
            other = t ^ step
            if other > t:
                up = (t & size) == 0
                if (shared[t] > shared[other]) == up:
                    shared[t], shared[other] = shared[other], shared[t]
            cuda.syncthreads()
            step //= 2
        size *= 2
    to[cuda.blockIdx.x * 64 + t] = shared[t]


def roots_by_newton(x, to):
    i = cuda.grid(1)
    a = x[i]
    r = 1.0
    for k in range(30):
        r = 0.5 * (r + a / r)
    to[2 * i] = r
    to[2 * i + 1] = r - sqrt(a)


def days_of_dates(x, to):
    i = cuda.grid(1)
    z = x[i] + 719468
    era = z // 146097
    day = z - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    rest = day - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    to[3 * i] = year + era * 400 + (1 if month >= 10 else 0)
    to[3 * i + 1] = month + 3 if month < 10 else month - 9
    to[3 * i + 2] = rest - (153 * month + 2) // 5 + 1


KERNELS = [
    (steps_to_one, (i32,)),
    (halves_exchanged, (i32, i32)),
    (roots_by_newton, (f64, f64)),
    (days_of_dates, (i32, i32)),
]
