//! Arrays, which have a descriptor and no contents.

use crate::driver::ffi::CUDA_ARRAY3D_DESCRIPTOR;
use crate::sim::machine::*;

#[derive(Clone, Copy)]
pub(in crate::sim) struct Array {
    pub(in crate::sim) context: Handle,
    pub(in crate::sim) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
}

impl Machine {
    pub(in crate::sim) fn create_array(
        &mut self,
        has_out: bool,
        descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    ) -> Answer<usize> {
        let context = self.healthy_current()?;
        let known_format = [1, 2, 3, 8, 9, 10, 16, 32].contains(&descriptor.Format);
        let channels = [1, 2, 4].contains(&descriptor.NumChannels);
        let layered = descriptor.Flags & 1 != 0;
        let cubes = descriptor.Flags & 4 != 0;
        let cube_like =
            descriptor.Width == descriptor.Height && descriptor.Depth % 6 == 0 && descriptor.Depth > 0;
        let shape = descriptor.Width > 0
            && (layered || descriptor.Depth == 0 || descriptor.Height > 0)
            && (!cubes || cube_like && (layered || descriptor.Depth == 6));
        if !has_out || !known_format || !channels || !shape {
            return self.refuse(INVALID_VALUE, format_args!("an array of {descriptor:?}"));
        }
        Ok(self.objects.add(Object::Array(Array { context, descriptor })))
    }

    pub(in crate::sim) fn array(&mut self, handle: usize) -> Answer<Array> {
        self.ready()?;
        let Some(Object::Array(array)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is not an array"));
        };
        let array = *array;
        self.healthy(array.context)?;
        Ok(array)
    }

    pub(in crate::sim) fn destroy_array(&mut self, handle: usize) -> Answer<()> {
        self.array(handle)?;
        self.objects.remove(handle);
        Ok(())
    }
}
