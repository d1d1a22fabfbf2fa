/* Graphs and captures as programs for CUDA 10 to 12.2 make them, by functions that newer ones have replaced. */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The declarations of the driver that it uses: no header is there without CUDA's toolkit. */
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream, *CUgraph, *CUgraphNode, *CUgraphExec, *CUlinkState;
typedef struct {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    void **arguments, **extra;
} Kernel;
unsigned cuInit(unsigned flags);
unsigned cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status);
unsigned cuCtxCreate(CUcontext *context, unsigned flags, int device);
unsigned cuCtxSynchronize(void);
unsigned cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
unsigned cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
unsigned cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
unsigned cuModuleLoadData(CUmodule *module, const void *image);
unsigned cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
unsigned cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f);
unsigned cuLibraryGetKernel(void **kernel, void *library, const char *name);
unsigned cuKernelGetFunction(CUfunction *function, void *kernel);
unsigned cuGraphCreate(CUgraph *graph, unsigned flags);
unsigned cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
unsigned cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags);
unsigned cuGraphLaunch(CUgraphExec executable, CUstream stream);
unsigned cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const void *params);
unsigned cuStreamCreate(CUstream *stream, unsigned flags);
unsigned cuStreamEndCapture(CUstream stream, CUgraph *graph);
unsigned cuStreamIsCapturing(CUstream stream, unsigned *status);
unsigned cuLinkComplete(CUlinkState state, void **image, size_t *size);
unsigned cuLinkDestroy(CUlinkState state);

/* The functions as they were: cuGetProcAddress finds them for their versions of CUDA. */
static unsigned (*add_kernel)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const Kernel *);
static unsigned (*get_kernel)(CUgraphNode, Kernel *);
static unsigned (*set_kernel)(CUgraphNode, const Kernel *);
static unsigned (*set_kernel_of_executable)(CUgraphExec, CUgraphNode, const Kernel *);
static unsigned (*add_node)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, void *);
static unsigned (*begin)(CUstream);
static unsigned (*begin_per_thread)(CUstream);
static unsigned (*info)(CUstream, unsigned *, unsigned long long *);
static unsigned (*link_create)(unsigned, void *, void **, CUlinkState *);
static unsigned (*link_data)(CUlinkState, unsigned, void *, size_t, const char *, unsigned, void *, void **);

static const char *const STORE =
    ".version 7.0 .target sm_70 .address_size 64\n"
    ".visible .entry store(.param .u64 a, .param .u32 x) {\n"
    "  .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    "  ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [x]; st.global.u32 [%rd1], %r1; ret; }\n";

static void expect(unsigned status, unsigned expected, const char *what) {
    if (status != expected) {
        fprintf(stderr, "%s: %u\n", what, status);
        exit(1);
    }
}
#define CHECK(call) expect(call, 0, #call)
#define INVALID(call) expect(call, 1, #call)
#define TRUE(what) expect(what, 1, #what)

static void *of(const char *name, int version, unsigned long long flags) {
    void *function;
    CHECK(cuGetProcAddress_v2(name, &function, version, flags, NULL));
    return function;
}

static unsigned value(CUdeviceptr a) {
    unsigned read = 0;
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(&read, a, sizeof read));
    return read;
}

static void kernels(CUdeviceptr a, CUfunction store) {
    unsigned x = 7;
    void *arguments[] = {&a, &x};
    Kernel kernel = {store, {1, 1, 1}, {1, 1, 1}, 0, arguments, NULL};
    CUgraph graph;
    CUgraphNode node, empty, other;
    CUgraphExec executable;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(add_kernel(&node, graph, NULL, 0, &kernel));
    INVALID(add_kernel(&other, graph, NULL, 0, NULL));
    INVALID(add_kernel(NULL, graph, NULL, 0, &kernel));
    /* What is behind the parameters as they were is not written. */
    struct {
        Kernel kernel;
        unsigned long long behind[2];
    } got;
    memset(&got, 0x5a, sizeof got);
    CHECK(get_kernel(node, &got.kernel));
    INVALID(get_kernel(node, NULL));
    TRUE(got.kernel.function == store && got.kernel.block[2] == 1 && *(unsigned *)got.kernel.arguments[1] == 7);
    TRUE(got.behind[0] == 0x5a5a5a5a5a5a5a5a && got.behind[1] == got.behind[0]);
    x = 8;
    CHECK(set_kernel(node, &kernel));
    INVALID(set_kernel(node, NULL));
    /* A node of no work after the first. */
    unsigned long long nothing[32] = {5};
    CHECK(add_node(&empty, graph, &node, 1, nothing));
    CUgraphNode from, to;
    size_t edges = 1;
    CHECK(cuGraphGetEdges(graph, &from, &to, &edges));
    TRUE(edges == 1 && from == node && to == empty);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, NULL));
    printf("a node: %u\n", value(a));
    x = 9;
    CHECK(set_kernel_of_executable(executable, node, &kernel));
    INVALID(set_kernel_of_executable(executable, node, NULL));
    CHECK(cuGraphLaunch(executable, NULL));
    printf("its executable: %u\n", value(a));
}

/* A node that launches the kernel of a library, of which older functions tell the function. */
static void kernel_of_library(CUdeviceptr a) {
    unsigned x = 10;
    void *library, *arguments[] = {&a, &x};
    struct {
        Kernel kernel;
        void *of_library;
        CUcontext context;
    } newer = {{NULL, {1, 1, 1}, {1, 1, 1}, 0, arguments, NULL}, NULL, NULL};
    Kernel got;
    CUfunction function;
    CUgraph graph;
    CUgraphNode node;
    CHECK(cuLibraryLoadData(&library, STORE, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&newer.of_library, library, "store"));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &newer));
    CHECK(get_kernel(node, &got));
    CHECK(cuKernelGetFunction(&function, newer.of_library));
    TRUE(got.function == function);
    printf("a kernel: %u\n", *(unsigned *)got.arguments[1]);
}

static void captures(CUdeviceptr a) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr other;
    unsigned status = 9;
    unsigned long long id = 0;
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(info(stream, &status, NULL));
    TRUE(status == 0);
    INVALID(info(stream, NULL, &id));
    CHECK(begin(stream));
    CHECK(info(stream, &status, &id));
    TRUE(status == 1 && id != 0);
    CHECK(cuMemsetD32Async(a, 11, 1, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, stream));
    printf("a capture: %u\n", value(a));
    /* There were no modes, so what may wait for the stream is not forbidden. */
    CHECK(begin(stream));
    CHECK(cuMemAlloc_v2(&other, 64));
    CHECK(cuStreamIsCapturing(stream, &status));
    printf("goes on: %u\n", status);
    CHECK(cuStreamEndCapture(stream, &graph));
    /* The legacy stream captures nothing, that of the thread does. */
    expect(begin(NULL), 900, "the legacy stream");
    CHECK(begin_per_thread(NULL));
    CHECK(cuStreamIsCapturing((CUstream)2, &status));
    printf("of the thread: %u\n", status);
    CHECK(cuStreamEndCapture((CUstream)2, &graph));
}

static void links(CUdeviceptr a) {
    CUlinkState state;
    CUmodule module;
    CUfunction store;
    void *image;
    size_t size;
    CHECK(link_create(0, NULL, NULL, &state));
    CHECK(link_data(state, 1, (void *)STORE, strlen(STORE) + 1, "store", 0, NULL, NULL));
    CHECK(cuLinkComplete(state, &image, &size));
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuModuleGetFunction(&store, module, "store"));
    CHECK(cuLinkDestroy(state));
    printf("linked: %d\n", store != NULL);
}

int main(void) {
    CUcontext context;
    CUmodule module;
    CUfunction store;
    CUdeviceptr a;
    add_kernel = of("cuGraphAddKernelNode", 11040, 0);
    get_kernel = of("cuGraphKernelNodeGetParams", 11040, 0);
    set_kernel = of("cuGraphKernelNodeSetParams", 11040, 0);
    set_kernel_of_executable = of("cuGraphExecKernelNodeSetParams", 11040, 0);
    add_node = of("cuGraphAddNode", 12020, 0);
    begin = of("cuStreamBeginCapture", 10000, 0);
    begin_per_thread = of("cuStreamBeginCapture", 10000, 2);
    info = of("cuStreamGetCaptureInfo", 10010, 0);
    link_create = of("cuLinkCreate", 6000, 0);
    link_data = of("cuLinkAddData", 6000, 0);
    CHECK(cuInit(0));
    CHECK(cuCtxCreate(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&a, 64));
    CHECK(cuModuleLoadData(&module, STORE));
    CHECK(cuModuleGetFunction(&store, module, "store"));
    kernels(a, store);
    kernel_of_library(a);
    captures(a);
    links(a);
    return 0;
}
