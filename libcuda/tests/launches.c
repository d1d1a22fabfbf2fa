/* Launches of CUDA 2 and 3, for which a function keeps the shape of its blocks and its arguments. */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The declarations of the driver that it uses: no header is there without CUDA's toolkit. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream;
unsigned cuInit(unsigned flags);
unsigned cuCtxCreate(CUcontext *context, unsigned flags, int device);
unsigned cuCtxDestroy(CUcontext context);
unsigned cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
unsigned cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
unsigned cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
unsigned cuModuleLoadData(CUmodule *module, const void *image);
unsigned cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
unsigned cuStreamCreate(CUstream *stream, unsigned flags);
unsigned cuStreamSynchronize(CUstream stream);
unsigned cuFuncSetBlockShape(CUfunction function, int x, int y, int z);
unsigned cuFuncSetSharedSize(CUfunction function, unsigned bytes);
unsigned cuParamSetSize(CUfunction function, unsigned bytes);
unsigned cuParamSeti(CUfunction function, int offset, unsigned value);
unsigned cuParamSetf(CUfunction function, int offset, float value);
unsigned cuParamSetv(CUfunction function, int offset, void *from, unsigned bytes);
unsigned cuLaunch(CUfunction function);
unsigned cuLaunchGrid(CUfunction function, int width, int height);
unsigned cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream);

/* Adds a number to each of some numbers. */
static const char *const ADD =
    ".version 7.0 .target sm_70 .address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u32 n, .param .f32 x) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<6>;\n"
    "  ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [x];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p1, %r5, %r1; @%p1 bra END;\n"
    "  mul.wide.u32 %rd3, %r5, 4; add.u64 %rd4, %rd1, %rd3;\n"
    "  ld.global.f32 %f2, [%rd4]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd4], %f3;\n"
    "END: ret; }\n";

static void expect(unsigned status, unsigned expected, const char *what) {
    if (status != expected) {
        fprintf(stderr, "%s: %u\n", what, status);
        exit(1);
    }
}
#define CHECK(call) expect(call, 0, #call)
#define REFUSED(call) expect(call, 1, #call)
#define NO_FUNCTION(call) expect(call, 400, #call)

static void show(const char *what, CUdeviceptr a) {
    float x[4];
    CHECK(cuMemcpyDtoH_v2(x, a, sizeof x));
    printf("%s: %g %g %g %g\n", what, x[0], x[1], x[2], x[3]);
}

int main(void) {
    CUcontext context;
    CUdeviceptr a;
    CUmodule module;
    CUfunction add;
    CUstream stream;
    float x[4] = {0, 1, 3, 7};
    CHECK(cuInit(0));
    CHECK(cuCtxCreate(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&a, sizeof x));
    CHECK(cuMemcpyHtoD_v2(a, x, sizeof x));
    CHECK(cuModuleLoadData(&module, ADD));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    REFUSED(cuFuncSetBlockShape(add, 0, 1, 1));
    REFUSED(cuFuncSetBlockShape(add, 1025, 1, 1));
    REFUSED(cuFuncSetBlockShape(add, 1, 1, 65));
    NO_FUNCTION(cuFuncSetBlockShape(0, 0, 1, 1));
    NO_FUNCTION(cuParamSetSize(0, 0));
    REFUSED(cuFuncSetSharedSize(add, 49153));
    /* These are checked only by the launch. */
    CHECK(cuParamSetSize(add, 100000));
    CHECK(cuParamSetv(add, 5000, &a, sizeof a));
    expect(cuLaunch(add), 701, "a launch with more arguments than there are");
    REFUSED(cuParamSetv(add, -1, &a, sizeof a));
    CHECK(cuFuncSetSharedSize(add, 0));
    CHECK(cuParamSetSize(add, 16));
    CHECK(cuParamSetv(add, 0, &a, sizeof a));
    CHECK(cuParamSeti(add, 8, 4));
    CHECK(cuParamSetf(add, 12, 1));
    /* As long as nothing is said of it a block is one thread. */
    CHECK(cuLaunch(add));
    show("one thread", a);
    CHECK(cuFuncSetBlockShape(add, 4, 1, 1));
    CHECK(cuLaunch(add));
    show("one block", a);
    /* Three of them in two blocks. */
    CHECK(cuFuncSetBlockShape(add, 2, 1, 1));
    CHECK(cuParamSeti(add, 8, 3));
    CHECK(cuLaunchGrid(add, 2, 1));
    show("two blocks", a);
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuParamSetf(add, 12, 0.5));
    CHECK(cuLaunchGridAsync(add, 2, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    show("in a stream", a);
    CHECK(cuCtxDestroy(context));
    return 0;
}
