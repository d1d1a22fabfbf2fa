/* Calls while a thread ends and while the process ends. */

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long CUdeviceptr;
typedef void *CUcontext;
unsigned cuInit(unsigned flags);
unsigned cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
unsigned cuCtxGetCurrent(CUcontext *context);
unsigned cuCtxSetCurrent(CUcontext context);
unsigned cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
unsigned cuMemFree_v2(CUdeviceptr pointer);

static CUcontext context;
static CUdeviceptr pointers[3];
static pthread_key_t key;

static void end_of_thread(void *value) {
    CUcontext current;
    unsigned status = cuCtxGetCurrent(&current);
    printf("at a thread's end: %u %u\n", status, cuMemFree_v2(*(CUdeviceptr *)value));
}

/* Its first calls are made while it ends. */
static void end_of_idle_thread(void *value) { printf("its first call: %u\n", cuMemFree_v2(*(CUdeviceptr *)value)); }
static pthread_key_t idle_key;

static void *thread(void *unused) {
    cuCtxSetCurrent(context);
    pthread_setspecific(key, &pointers[1]);
    return unused;
}

static void *idle_thread(void *unused) {
    pthread_setspecific(idle_key, &pointers[2]);
    return unused;
}

static void end_of_process(void) {
    printf("at the end: %u\n", cuMemFree_v2(pointers[0]));
    fflush(stdout);
}

int main(void) {
    pthread_t one;
    atexit(end_of_process);
    cuInit(0);
    cuCtxCreate_v2(&context, 0, 0);
    for (int i = 0; i < 3; i++) cuMemAlloc_v2(&pointers[i], 64);
    pthread_key_create(&key, end_of_thread);
    pthread_key_create(&idle_key, end_of_idle_thread);
    pthread_create(&one, 0, thread, 0);
    pthread_join(one, 0);
    pthread_create(&one, 0, idle_thread, 0);
    pthread_join(one, 0);
    return 3;
}
