//! Which devices of the simulated machine the process sees: `CUDA_VISIBLE_DEVICES`.

use super::{Dev, uuid_of};
use crate::machine::*;
use std::env;

impl Machine {
    /// Leaves the devices that the environment names, in its order. Only for a machine whose size the environment gives
    /// too: otherwise a cluster's setting for its GPUs would leave a program on the simulated driver without a device.
    pub(crate) fn hide_devices(&mut self) -> Answer<()> {
        if env::var_os("CUSTACK_SIM_DEVICES").is_none_or(|count| count.is_empty()) {
            return Ok(());
        }
        let Some(list) = env::var_os("CUDA_VISIBLE_DEVICES") else { return Ok(()) };
        let numbers: Vec<usize> = self.devices.iter().map(|device| device.number).collect();
        let Some(visible) = named(&list.to_string_lossy(), &numbers) else {
            return self.refuse(INVALID_DEVICE, "CUDA_VISIBLE_DEVICES names a device twice");
        };
        self.devices = visible.into_iter().map(Dev::new).collect();
        self.hides = true;
        Ok(())
    }
}

/// The devices of this list: numbers, or UUIDs by their first digits. The first element says which; the list ends at the
/// first that is wrong. `None` if a device is there twice.
fn named(list: &str, numbers: &[usize]) -> Option<Vec<usize>> {
    let by_uuid = list.trim_start().starts_with("GPU-");
    let mut seen = Vec::new();
    for element in list.split(',') {
        let element = element.trim();
        let found = if by_uuid { by_prefix(element, numbers) } else { by_number(element, numbers) };
        let Some(found) = found else { break };
        if seen.contains(&found) {
            return None;
        }
        seen.push(found);
    }
    Some(seen)
}

/// The number that the element begins with, whatever follows it.
fn by_number(element: &str, numbers: &[usize]) -> Option<usize> {
    let digits = element.find(|c: char| !c.is_ascii_digit()).unwrap_or(element.len());
    numbers.get(element[..digits].parse::<usize>().ok()?).copied()
}

/// The one device whose UUID begins so.
fn by_prefix(element: &str, numbers: &[usize]) -> Option<usize> {
    let digits = |text: &str| text.replace('-', "").to_ascii_lowercase();
    let wanted = digits(element.strip_prefix("GPU-")?);
    let hex = |number: usize| uuid_of(number).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut found = numbers.iter().copied().filter(|number| hex(*number).starts_with(&wanted));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}
