/* A program that wants all its functions when it starts, those for OpenGL, EGL and VDPAU among them. */

#include <stdio.h>

unsigned cuInit(unsigned flags);
unsigned cuGraphicsGLRegisterBuffer(void **resource, unsigned buffer, unsigned flags);
unsigned cuGLGetDevices_v2(unsigned *count, int *devices, unsigned room, unsigned list);
unsigned cuEGLStreamConsumerConnect(void **connection, void *stream);
unsigned cuGraphicsVDPAURegisterVideoSurface(void **resource, unsigned surface, unsigned flags);

int main(void) {
    void *made = NULL;
    unsigned count = 7;
    int device;
    printf("%u\n", cuInit(0));
    printf("%u %u\n", cuGraphicsGLRegisterBuffer(&made, 1, 0), cuGLGetDevices_v2(&count, &device, 1, 1));
    printf("%u %u\n", cuEGLStreamConsumerConnect(&made, &made), cuGraphicsVDPAURegisterVideoSurface(&made, 1, 0));
    printf("%u %d\n", count, made == NULL);
    return 0;
}
