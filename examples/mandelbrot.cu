// The kernel of the example `mandelbrot`. `mandelbrot.ptx` is what NVRTC 12.9 made of it, for any device from compute
// capability 8.0 on: `nvcc --ptx --gpu-architecture=compute_80 mandelbrot.cu`, or with `custack::nvrtc`.

/// How many steps of z = z * z + c each point stays near, at most `most`.
extern "C" __global__ void mandelbrot(unsigned *steps, unsigned width, unsigned height, float left, float top, float size,
                                      unsigned most) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float real = left + size * x, imaginary = top - size * y;
    float a = 0.0f, b = 0.0f;
    unsigned step = 0;
    while (step < most && a * a + b * b < 16.0f) {
        float next = a * a - b * b + real;
        b = 2.0f * a * b + imaginary;
        a = next;
        step++;
    }
    steps[y * width + x] = step;
}
