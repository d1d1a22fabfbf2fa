/* What would crash a program, or go unnoticed, with NVIDIA's driver. */

#include <stddef.h>
#include <stdio.h>

typedef unsigned long long CUdeviceptr;
typedef void *CUcontext;
unsigned cuInit(unsigned flags);
unsigned cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
unsigned cuCtxDestroy_v2(CUcontext context);
unsigned cuCtxPushCurrent_v2(CUcontext context);
unsigned cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
unsigned cuMemFree_v2(CUdeviceptr pointer);
unsigned cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);

static void leaves_a_context(CUcontext *context) { cuCtxCreate_v2(context, 0, 0); }

int main(void) {
    CUcontext first, left;
    CUdeviceptr pointer;
    char host[128];
    cuInit(0);
    cuCtxCreate_v2(&first, 0, 0);
    cuCtxDestroy_v2(first);
    printf("a freed context: %u\n", cuCtxPushCurrent_v2(first));
    leaves_a_context(&left);
    cuMemAlloc_v2(&pointer, 64);
    printf("behind an allocation: %u\n", cuMemcpyDtoH_v2(host, pointer, 128));
    cuMemFree_v2(pointer);
    printf("a freed pointer: %u\n", cuMemcpyDtoH_v2(host, pointer, 64));
    return 0;
}
