// Registers memory that is there, is there twice, or is not there, and says what the driver answers.

#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int CUresult;
typedef struct CUctx_st *CUcontext;
CUresult cuInit(unsigned flags);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
CUresult cuMemHostRegister_v2(void *memory, size_t size, unsigned flags);
CUresult cuMemHostUnregister(void *memory);
CUresult cuMemsetD8_v2(unsigned long long to, unsigned char value, size_t count);
CUresult cuCtxSynchronize(void);

static char own[8192];

static void *pages(size_t count, int access) {
    return mmap(NULL, count * sysconf(_SC_PAGESIZE), access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void says(const char *what, CUresult status) { printf("%s: %d\n", what, status); }

int main(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    CUcontext context;
    if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0)) return 1;
    says("there", cuMemHostRegister_v2(own, 100, 0));
    says("there twice", cuMemHostRegister_v2(own, 100, 0));
    says("in part", cuMemHostRegister_v2(own + 99, 100, 0));
    says("more than there can be", cuMemHostRegister_v2(own, (size_t)-1, 0));
    says("more behind it", cuMemHostRegister_v2(own + 4096, (size_t)-1 - 4096, 0));
    char *gone = pages(2, PROT_READ | PROT_WRITE);
    munmap(gone, 2 * page);
    says("gone", cuMemHostRegister_v2(gone, 2 * page, 0));
    says("a fill of it", cuMemsetD8_v2((unsigned long long)gone, 1, 4));
    char *hole = pages(3, PROT_READ | PROT_WRITE);
    munmap(hole + page, page);
    says("with a hole", cuMemHostRegister_v2(hole, 3 * page, 0));
    says("before the hole", cuMemHostRegister_v2(hole + 1, page - 1, 0));
    char *several = pages(3, PROT_READ | PROT_WRITE);
    mprotect(several + page, page, PROT_READ);
    says("read-only in part", cuMemHostRegister_v2(several, 3 * page, 0));
    says("of several mappings, to be read", cuMemHostRegister_v2(several, 3 * page, 8));
    says("closed", cuMemHostRegister_v2(pages(1, PROT_NONE), page, 0));
    says("unregistered", cuMemHostUnregister(own));
    says("unregistered twice", cuMemHostUnregister(own));
    says("the end", cuCtxSynchronize());
    return 0;
}
