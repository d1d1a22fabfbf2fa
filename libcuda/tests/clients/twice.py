import ctypes
import threading

from cuda.core import Device, LaunchConfig, ObjectCode, launch

TWICE = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 numbers, .param .u32 count) {
  .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %n<3>; .reg .f32 %f;
  ld.param.u64 %n1, [numbers]; ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4; setp.ge.u32 %p, %r2, %r1; @%p ret;
  mul.wide.u32 %n2, %r2, 4; add.u64 %n1, %n1, %n2;
  ld.global.f32 %f, [%n1]; add.f32 %f, %f, %f; st.global.f32 [%n1], %f; ret;
}"""
COUNT = 100_000


def work():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    numbers = device.allocate(4 * COUNT, stream=stream)
    twice = ObjectCode.from_ptx(TWICE).get_kernel("twice")
    for _ in range(3):
        config = LaunchConfig(grid=(COUNT + 255) // 256, block=256)
        launch(stream, config, twice, int(numbers.handle), ctypes.c_uint32(COUNT))
    stream.sync()
    numbers.close(stream)
    stream.close()


threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
