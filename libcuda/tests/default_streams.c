/* Copies and fills without a stream: those of the legacy stream, and those of the thread's default stream, which programs
   have that are compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM. */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The declarations of the driver that it uses: no header is there without CUDA's toolkit. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream, *CUgraph, *CUgraphExec;
unsigned cuInit(unsigned flags);
unsigned cuCtxCreate(CUcontext *context, unsigned flags, int device);
unsigned cuCtxSynchronize(void);
unsigned cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
unsigned cuMemAllocHost_v2(void **pointer, size_t bytes);
unsigned cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
unsigned cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
unsigned cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes);
unsigned cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
unsigned cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
unsigned cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count);
unsigned cuStreamCreate(CUstream *stream, unsigned flags);
unsigned cuStreamQuery(CUstream stream);
unsigned cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data);
unsigned cuStreamBeginCapture_v2(CUstream stream, unsigned mode);
unsigned cuStreamIsCapturing(CUstream stream, unsigned *status);
unsigned cuStreamEndCapture(CUstream stream, CUgraph *graph);
unsigned cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph, void *params);
unsigned cuGraphCreate(CUgraph *graph, unsigned flags);

static void expect(unsigned status, unsigned expected, const char *what) {
    if (status != expected) {
        fprintf(stderr, "%s: %u\n", what, status);
        exit(1);
    }
}
#define CHECK(call) expect(call, 0, #call)

static void sleep_a_while(void *data) {
    (void)data;
    usleep(400000);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double begun;

/* Has a stream work for a while. */
static void busy(CUstream stream) {
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchHostFunc(stream, sleep_a_while, NULL));
    begun = now();
}

static const char *waited(void) { return now() - begun > 0.2 ? "waits" : "does not wait"; }

int main(void) {
    CUcontext context;
    CUdeviceptr a, b;
    CUstream blocking, of_thread = (CUstream)2;
    CUgraph graph;
    CUgraphExec executable;
    unsigned char *page_locked, from[64], to[64];
    unsigned status;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&a, 64));
    CHECK(cuMemAlloc_v2(&b, 64));
    CHECK(cuMemAllocHost_v2((void **)&page_locked, 64));
    CHECK(cuStreamCreate(&blocking, 0));
    memset(from, 7, sizeof from);

    busy(blocking);
    CHECK(cuMemcpyHtoD_v2(a, from, 64));
    printf("legacy, beside a stream: %s\n", waited());
    busy(blocking);
    CHECK(cuMemcpyHtoD_v2_ptds(a, from, 64));
    CHECK(cuMemcpyDtoH_v2_ptds(to, a, 64));
    printf("the thread's, beside a stream: %s, %d\n", waited(), to[63]);
    busy(of_thread);
    CHECK(cuMemcpyHtoD_v2_ptds(a, from, 64));
    printf("to the device, behind its own: %s\n", waited());
    busy(of_thread);
    CHECK(cuMemcpy_ptds(a, (CUdeviceptr)page_locked, 64));
    printf("of any kind, behind its own: %s\n", waited());
    busy(of_thread);
    CHECK(cuMemsetD8_v2_ptds(a, 9, 64));
    CHECK(cuMemcpyDtoD_v2_ptds(b, a, 64));
    printf("within the device: %s, %u\n", waited(), cuStreamQuery(of_thread));
    CHECK(cuMemcpyDtoH_v2_ptds(to, b, 64));
    printf("then: %d\n", to[63]);
    busy(of_thread);
    CHECK(cuMemsetD8_v2_ptds((CUdeviceptr)page_locked, 5, 64));
    printf("of host memory: %s, %d\n", waited(), page_locked[63]);

    /* A stream that captures has nothing to do with the thread's, whose own capture ends. */
    CHECK(cuStreamBeginCapture_v2(blocking, 2));
    CHECK(cuMemcpyHtoD_v2_ptds(a, from, 64));
    CHECK(cuStreamIsCapturing(blocking, &status));
    printf("beside a capture: %u\n", status);
    CHECK(cuStreamEndCapture(blocking, &graph));
    CHECK(cuStreamBeginCapture_v2(of_thread, 2));
    expect(cuMemcpyHtoD_v2_ptds(a, from, 64), 900, "a copy in a capture");
    CHECK(cuStreamIsCapturing(of_thread, &status));
    expect(cuMemsetD8_v2_ptds(a, 1, 64), 900, "a fill in an ended capture");
    printf("in its own capture: %u\n", status);
    expect(cuStreamEndCapture(of_thread, &graph), 901, "the end");

    /* The stream that uploads a graph is in what an argument points to, and stays as the program has it. */
    struct {
        unsigned long long flags;
        CUstream stream;
        void *node;
        unsigned result;
    } params = {2, NULL, NULL, 9};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphInstantiateWithParams_ptsz(&executable, graph, &params));
    printf("instantiated: %u, %d\n", params.result, params.stream == NULL);
    return 0;
}
