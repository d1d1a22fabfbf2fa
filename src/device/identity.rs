//! By what a device is known outside of the process: its UUID as tools write it, and which part of a GPU it is.

use super::Device;
use crate::error::{CudaError, CudaResult};
use std::fmt::Write;

/// What stands before the UUID of a whole GPU.
const GPU: &str = "GPU-";
/// What stands before that of an instance.
const MIG: &str = "MIG-";

impl Device {
    /// The UUID as `nvidia-smi` and `CUDA_VISIBLE_DEVICES` write it: `GPU-` or, for an instance of a partitioned GPU,
    /// `MIG-`, and 32 hexadecimal digits in five groups.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// assert_eq!(Device::by_uuid(&device.uuid_text()?)?, device);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[doc(alias("cuDeviceGetUuid", "cuDeviceGetUuid_v2"))]
    #[inline]
    pub fn uuid_text(self) -> CudaResult<String> {
        let kind = if self.mig_profile()?.is_some() { MIG } else { GPU };
        let mut text = String::from(kind);
        for (at, byte) in self.uuid()?.iter().enumerate() {
            let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{dash}{byte:02x}");
        }
        Ok(text)
    }

    /// The device whose [UUID](Self::uuid_text) begins with this text, as in `CUDA_VISIBLE_DEVICES`; upper and lower
    /// case are the same.
    ///
    /// # Errors
    ///
    /// [`InvalidDevice`](CudaError::InvalidDevice) if there is none, [`InvalidValue`](CudaError::InvalidValue) if there
    /// are several, or if the text does not begin with `GPU-` or `MIG-`.
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let error = Device::by_uuid("GPU-00000000-dead").unwrap_err();
    /// assert_eq!(error, custack::error::CudaError::InvalidDevice);
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[inline]
    pub fn by_uuid(text: &str) -> CudaResult<Device> {
        let refused = |error: CudaError, why: &str| {
            Err(error.note(format_args!("to find a device with UUID {text:?}: {why}")))
        };
        let begins = |uuid: &str, with: &str| {
            uuid.get(..with.len()).is_some_and(|part| part.eq_ignore_ascii_case(with))
        };
        if !begins(text, GPU) && !begins(text, MIG) {
            return refused(CudaError::InvalidValue, "it begins with neither GPU- nor MIG-");
        }
        let mut found = None;
        for device in Device::devices()? {
            let device = device?;
            if begins(&device.uuid_text()?, text) && found.replace(device).is_some() {
                return refused(CudaError::InvalidValue, "several begin so");
            }
        }
        match found {
            Some(device) => Ok(device),
            None => refused(CudaError::InvalidDevice, "no device that this process sees has it"),
        }
    }

    /// Which part of a GPU the device is, such as `1g.18gb`, if the GPU is partitioned (MIG) and this process sees one of
    /// the parts; `None` for a whole GPU. The driver says so in the [name](Self::name), behind the GPU's.
    ///
    /// # Errors
    ///
    /// See [`Device`].
    ///
    /// ```
    /// # use custack::device::Device;
    /// # custack::init(custack::CudaFlags::empty())?;
    /// let device = Device::get_device(0)?;
    /// match device.mig_profile()? {
    ///     Some(profile) => println!("an instance {profile} of a GPU"),
    ///     None => println!("a whole GPU"),
    /// }
    /// # Ok::<(), custack::error::CudaError>(())
    /// ```
    #[inline]
    pub fn mig_profile(self) -> CudaResult<Option<String>> {
        let name = self.name()?;
        Ok(name.split_once(" MIG ").map(|(_gpu, profile)| profile.to_owned()))
    }
}
