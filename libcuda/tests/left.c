/* What a program has not given back when it ends. */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long CUdeviceptr, CUphysical;
typedef void *CUcontext, *CUarray, *CUuserObject, *CUgraph;
typedef struct { size_t width, height; unsigned format, channels; } CUarrayDescriptor;
typedef struct { unsigned type, handles; struct { unsigned type; int id; } location; void *windows; unsigned char flags[8]; } CUproperties;
unsigned cuInit(unsigned flags);
unsigned cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
unsigned cuMemHostRegister_v2(void *memory, size_t size, unsigned flags);
unsigned cuMemHostUnregister(void *memory);
unsigned cuArrayCreate_v2(CUarray *array, const CUarrayDescriptor *descriptor);
unsigned cuMemCreate(CUphysical *handle, size_t size, const CUproperties *properties, unsigned long long flags);
unsigned cuMemRelease(CUphysical handle);
unsigned cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags);
unsigned cuMemAddressFree(CUdeviceptr at, size_t size);
unsigned cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUphysical handle, unsigned long long flags);
unsigned cuMemUnmap(CUdeviceptr at, size_t size);
unsigned cuUserObjectCreate(CUuserObject *object, void *data, void (*destroy)(void *), unsigned count, unsigned flags);
unsigned cuUserObjectRelease(CUuserObject object, unsigned count);
unsigned cuGraphCreate(CUgraph *graph, unsigned flags);
unsigned cuGraphDestroy(CUgraph graph);
unsigned cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);

#define CHECK(call) do { unsigned status = call; if (status) { fprintf(stderr, "%s: %u\n", #call, status); exit(1); } } while (0)
#define SIZE ((size_t)2 << 20)

static char registered[8192];
static void nothing(void *data) { (void)data; }

int main(void) {
    CUcontext context;
    CUarray array;
    CUarrayDescriptor descriptor = {16, 16, 0x20, 1};
    CUproperties properties;
    CUphysical physical, released;
    CUdeviceptr at, freed;
    CUuserObject left, given_back, moved;
    CUgraph graph;
    memset(&properties, 0, sizeof properties);
    properties.type = properties.location.type = 1;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemHostRegister_v2(registered + 4096, 4096, 0));
    CHECK(cuMemHostUnregister(registered + 4096));
    CHECK(cuMemHostRegister_v2(registered, 4096, 0));
    CHECK(cuArrayCreate_v2(&array, &descriptor));
    CHECK(cuMemCreate(&released, SIZE, &properties, 0));
    CHECK(cuMemCreate(&physical, SIZE, &properties, 0));
    CHECK(cuMemAddressReserve(&freed, SIZE, 0, 0, 0));
    CHECK(cuMemMap(freed, SIZE, 0, released, 0));
    CHECK(cuMemRelease(released));
    CHECK(cuMemUnmap(freed, SIZE));
    CHECK(cuMemAddressFree(freed, SIZE));
    CHECK(cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    CHECK(cuMemMap(at, SIZE, 0, physical, 0));
    CHECK(cuUserObjectCreate(&left, 0, nothing, 2, 1));
    CHECK(cuUserObjectRelease(left, 1));
    CHECK(cuUserObjectCreate(&given_back, 0, nothing, 2, 1));
    CHECK(cuUserObjectRelease(given_back, 2));
    CHECK(cuUserObjectCreate(&moved, 0, nothing, 1, 1));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphRetainUserObject(graph, moved, 1, 1));
    CHECK(cuGraphDestroy(graph));
    return 0;
}
