// Allocates more than the process may have, writes to it in all ways, and says what the driver answers. It is meant to be
// run with little address space: `ulimit -v 4000000`.

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
CUresult cuInit(unsigned flags);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t size);
CUresult cuMemAllocManaged(CUdeviceptr *memory, size_t size, unsigned flags);
CUresult cuMemHostAlloc(void **memory, size_t size, unsigned flags);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);
CUresult cuMemRangeGetAttribute(void *data, size_t size, int attribute, CUdeviceptr memory, size_t count);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra);

// Each thread writes a word of its own 64 KiB.
static const char *kernel =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry touch(.param .u64 at) {\n"
    ".reg .b32 %r<5>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [at]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd2, %r4, 65536; add.u64 %rd3, %rd1, %rd2;\n"
    "st.global.u32 [%rd3], %r4; ret; }\n";

static void says(const char *what, CUresult status) { printf("%s: %d\n", what, status); }

int main(void) {
    const size_t large = (size_t)20 << 30;
    CUcontext context;
    if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0)) return 1;
    CUdeviceptr first, second, managed;
    void *host;
    says("allocates", cuMemAlloc_v2(&first, large));
    says("allocates again", cuMemAlloc_v2(&second, large));
    says("fills", cuMemsetD8_v2(first, 1, large));
    says("fills later", cuMemsetD8Async(first, 1, large, NULL));
    says("fills rows", cuMemsetD2D8_v2(first, 65536, 1, 65535, large / 65536));
    says("fills many short rows", cuMemsetD2D8_v2(first, 1, 1, 1, large));
    says("fills with zeros", cuMemsetD8_v2(first, 0, large));
    says("copies what is zero", cuMemcpyDtoD_v2(second, first, large));
    says("fills a part", cuMemsetD8_v2(first + large / 2, 7, 1 << 20));
    says("copies all", cuMemcpyDtoD_v2(second, first, large));
    unsigned char values[2] = {0, 0};
    says("reads", cuMemcpyDtoH_v2(values, second + large / 2 + (1 << 20) - 1, 2));
    printf("has read: %d %d\n", values[0], values[1]);
    says("page-locks", cuMemHostAlloc(&host, large, 0));
    says("allocates managed memory", cuMemAllocManaged(&managed, large, 1));
    says("allocates less of it", cuMemAllocManaged(&managed, 4096, 1));
    says("asks who accesses it", cuMemRangeGetAttribute(values, (size_t)1 << 60, 3, managed, 4096));
    says("has done all", cuCtxSynchronize());
    CUmodule module;
    CUfunction function;
    if (cuModuleLoadData(&module, kernel) || cuModuleGetFunction(&function, module, "touch")) return 1;
    void *parameters[] = {&first};
    says("launches", cuLaunchKernel(function, large / 65536 / 64, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    says("waits", cuCtxSynchronize());
    return 0;
}
