"""Kernels for Triton: `triton.compile(ASTSource(kernel, signature, constexprs), GPUTarget('cuda', arch, 32),
options={'ptx_version': 88})`."""

import triton
import triton.language as tl


@triton.jit
def sums_of_rows(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    v = tl.load(x + row * n + at, mask=at < n, other=0)
    tl.store(y + row, tl.sum(v, axis=0))


@triton.jit
def products_of_tiles(a, b, c, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, B)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for at in range(0, K, B):
        left = tl.load(a + i[:, None] * K + at + k[None, :])
        right = tl.load(b + (at + k[:, None]) * N + j[None, :])
        acc += tl.dot(left.to(tl.float16), right.to(tl.float16))
    tl.store(c + i[:, None] * N + j[None, :], acc)


@triton.jit
def first_of_the_greatest(x, y, B: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * B + tl.arange(0, B))
    tl.store(y + 2 * row, tl.max(v, axis=0))
    tl.store(y + 2 * row + 1, tl.argmax(v, axis=0))


@triton.jit
def sums_so_far(x, y, B: tl.constexpr):
    row = tl.program_id(0)
    at = row * B + tl.arange(0, B)
    tl.store(y + at, tl.cumsum(tl.load(x + at), axis=0))


@triton.jit
def means_removed(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    m = at < n
    v = tl.load(x + row * n + at, mask=m, other=0.0)
    mean = tl.sum(v, axis=0) / n
    d = tl.where(m, v - mean, 0.0)
    tl.store(y + row * n + at, d, mask=m)


@triton.jit
def sorted_in_blocks(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@triton.jit
def counted_into_bins(x, y, B: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * B + tl.arange(0, B))
    tl.store(y + tl.program_id(0) * 16 + tl.arange(0, 16), tl.histogram(v, 16))


# The kernel, its signature, its constants, and the compute capability.
KERNELS = [
    (sums_of_rows, {'x': '*i32', 'y': '*i32', 'n': 'i32', 'B': 'constexpr'}, {'B': 128}, 90),
    (products_of_tiles, {'a': '*i32', 'b': '*i32', 'c': '*fp32', 'K': 'i32', 'M': 'constexpr', 'N': 'constexpr', 'B': 'constexpr'}, {'M': 32, 'N': 32, 'B': 32}, 80),
    (first_of_the_greatest, {'x': '*i32', 'y': '*i32', 'B': 'constexpr'}, {'B': 256}, 80),
    (sums_so_far, {'x': '*i32', 'y': '*i32', 'B': 'constexpr'}, {'B': 256}, 90),
    (means_removed, {'x': '*fp32', 'y': '*fp32', 'n': 'i32', 'B': 'constexpr'}, {'B': 128}, 90),
    (sorted_in_blocks, {'x': '*i32', 'y': '*i32', 'B': 'constexpr'}, {'B': 64}, 80),
    (counted_into_bins, {'x': '*i32', 'y': '*i32', 'B': 'constexpr'}, {'B': 256}, 90),
]
