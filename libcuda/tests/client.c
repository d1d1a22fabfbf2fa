/* A program with two threads, each with a context of its own: memory is copied, and a kernel launched. */

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The declarations of the driver that it uses: no header is there without CUDA's toolkit. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream;
unsigned cuInit(unsigned flags);
unsigned cuDeviceGet(int *device, int ordinal);
unsigned cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
unsigned cuCtxDestroy_v2(CUcontext context);
unsigned cuCtxDetach(CUcontext context);
unsigned cuCtxPushCurrent_v2(CUcontext context);
unsigned cuCtxPopCurrent_v2(CUcontext *context);
unsigned cuCtxGetCurrent(CUcontext *context);
unsigned cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
unsigned cuMemFree_v2(CUdeviceptr pointer);
unsigned cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
unsigned cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
unsigned cuModuleLoadData(CUmodule *module, const void *image);
unsigned cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
unsigned cuModuleUnload(CUmodule module);
unsigned cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra);
unsigned cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra);
unsigned cuStreamSynchronize_ptsz(CUstream stream);
unsigned cuGetErrorName(unsigned error, const char **name);
unsigned cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status);

#define COUNT 1000

static const char *const SUM =
    ".version 7.0 .target sm_70 .address_size 64\n"
    ".visible .entry sum(.param .u64 a, .param .u64 b, .param .u32 n) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<6>;\n"
    "  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p1, %r5, %r1; @%p1 bra END;\n"
    "  mul.wide.u32 %rd3, %r5, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\n"
    "  ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [%rd5]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd4], %f3;\n"
    "END: ret; }\n";

static void check(unsigned status, const char *what) {
    const char *name = NULL;
    if (status) {
        cuGetErrorName(status, &name);
        fprintf(stderr, "%s: %s\n", what, name);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static void *work(void *number) {
    int device, own = *(int *)number;
    CUcontext context, other;
    CUdeviceptr a, b;
    CUmodule module;
    CUfunction function;
    float x[COUNT], y[COUNT];
    unsigned count = COUNT;
    void *parameters[] = {&a, &b, &count};
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuCtxPopCurrent_v2(&other));
    if (other != context) exit(2);
    CHECK(cuCtxPushCurrent_v2(context));
    for (int i = 0; i < COUNT; i++) x[i] = i, y[i] = own * 100;
    CHECK(cuMemAlloc_v2(&a, sizeof x));
    CHECK(cuMemAlloc_v2(&b, sizeof y));
    CHECK(cuMemcpyHtoD_v2(a, x, sizeof x));
    CHECK(cuMemcpyHtoD_v2(b, y, sizeof y));
    CHECK(cuModuleLoadData(&module, SUM));
    CHECK(cuModuleGetFunction(&function, module, "sum"));
    if (own) {
        CHECK(cuLaunchKernel_ptsz(function, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
        CHECK(cuStreamSynchronize_ptsz(NULL));
    } else {
        CHECK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
    }
    CHECK(cuMemcpyDtoH_v2(x, a, sizeof x));
    for (int i = 0; i < COUNT; i++)
        if (x[i] != i + own * 100) exit(3);
    CHECK(cuModuleUnload(module));
    CHECK(cuMemFree_v2(a));
    CHECK(cuMemFree_v2(b));
    if (own)
        CHECK(cuCtxDetach(context));
    else
        CHECK(cuCtxDestroy_v2(context));
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    int numbers[2] = {0, 1}, status;
    unsigned (*init)(unsigned);
    void *address;
    CHECK(cuGetProcAddress_v2("cuInit", &address, 12000, 0, &status));
    init = (unsigned (*)(unsigned))address;
    if (status || !init) return 4;
    CHECK(init(0));
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, work, &numbers[i]);
        pthread_join(threads[i], NULL);
        printf("%d: %d sums are right\n", i, COUNT);
    }
    fflush(stdout);
    if (fork() == 0) {
        int device;
        printf("the child of a fork was told %u\n", cuInit(0));
        fflush(stdout);
        _exit(cuDeviceGet(&device, 0) == 3 ? 0 : 1);
    }
    wait(&status);
    return status != 0;
}
