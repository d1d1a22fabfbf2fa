/* Memory is freed in the order of a stream right before its context ends, and allocated anew in the next one. */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The declarations of the driver that it uses: no header is there without CUDA's toolkit. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUevent, *CUstream;
unsigned cuInit(unsigned flags);
unsigned cuDevicePrimaryCtxRetain(CUcontext *context, int device);
unsigned cuDevicePrimaryCtxRelease_v2(int device);
unsigned cuCtxSetCurrent(CUcontext context);
unsigned cuEventCreate(CUevent *event, unsigned flags);
unsigned cuEventDestroy_v2(CUevent event);
unsigned cuEventRecord(CUevent event, CUstream stream);
unsigned cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
unsigned cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
unsigned cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
unsigned cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
unsigned cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);

static void check(unsigned status, const char *what) {
    if (status) {
        fprintf(stderr, "%s: %u\n", what, status);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

int main(void) {
    CHECK(cuInit(0));
    for (int round = 0; round < 1000; round++) {
        CUcontext context;
        CUdeviceptr pointers[4];
        CUevent event;
        int numbers[10] = {round};
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuCtxSetCurrent(context));
        for (int i = 0; i < 4; i++) {
            CHECK(cuMemAllocAsync(&pointers[i], sizeof numbers, NULL));
            CHECK(cuMemcpyHtoDAsync_v2(pointers[i], numbers, sizeof numbers, NULL));
        }
        numbers[0] = -1;
        CHECK(cuMemcpyDtoHAsync_v2(numbers, pointers[3], sizeof numbers, NULL));
        if (numbers[0] != round) return 2;
        CHECK(cuEventCreate(&event, 0));
        CHECK(cuEventRecord(event, NULL));
        for (int i = 0; i < 4; i++) {
            CHECK(cuStreamWaitEvent(NULL, event, 0));
            CHECK(cuMemFreeAsync(pointers[i], NULL));
        }
        CHECK(cuEventDestroy_v2(event));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    }
    printf("1000 contexts have ended\n");
    return 0;
}
