//! Attributes of streams: how threads wait, and the priority.

use crate::machine::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SYNCHRONIZATION_POLICY: u32 = 3;
const PRIORITY: u32 = 8;
const MEMORY_DOMAIN: u32 = 10;
/// Returned for a policy that was never set.
const NO_POLICY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Values {
    policy: u32,
    priority: i32,
    domain: u32,
}

/// Shared by all who have the stream at hand.
#[derive(Clone)]
pub(crate) struct Attributes(Arc<Mutex<Values>>);

impl Attributes {
    pub(crate) fn new(priority: i32) -> Attributes {
        Attributes(Arc::new(Mutex::new(Values { policy: NO_POLICY, priority, domain: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn priority(&self) -> i32 {
        self.lock().priority
    }
}

impl Machine {
    pub(super) fn stream_attribute(&mut self, stream: usize, attribute: u32) -> Answer<u32> {
        let found = self.stream_of(stream)?;
        self.capturing(stream)?;
        let values = *found.attributes.lock();
        match attribute {
            SYNCHRONIZATION_POLICY => Ok(values.policy),
            PRIORITY => Ok(values.priority as u32),
            MEMORY_DOMAIN => Ok(values.domain),
            _ => self.no_attribute(attribute),
        }
    }

    /// A priority is moved into the range, as where a stream is made.
    pub(super) fn set_stream_attribute(&mut self, stream: usize, attribute: u32, value: u32) -> Answer<()> {
        let handle = stream;
        let stream = self.stream_of(handle)?;
        self.capturing(handle)?;
        match attribute {
            SYNCHRONIZATION_POLICY if (1..=4).contains(&value) => stream.attributes.lock().policy = value,
            SYNCHRONIZATION_POLICY => {
                return self.refuse(INVALID_VALUE, format_args!("{value} is no synchronization policy"));
            }
            PRIORITY => stream.attributes.lock().priority = clamped(value as i32),
            MEMORY_DOMAIN if value < 2 => stream.attributes.lock().domain = value,
            _ => return self.no_attribute(attribute),
        }
        Ok(())
    }

    fn no_attribute<T>(&mut self, attribute: u32) -> Answer<T> {
        self.refuse(INVALID_VALUE, format_args!("the attribute {attribute} of streams is not modelled"))
    }

    pub(super) fn copy_stream_attributes(&mut self, to: usize, from: usize) -> Answer<()> {
        let handles = (to, from);
        let to = self.stream_of(to)?;
        self.capturing(handles.0)?;
        let from = self.stream_of(from)?;
        self.capturing(handles.1)?;
        if to.context != from.context {
            return self.refuse(INVALID_VALUE, "attributes are copied between streams of one context");
        }
        let values = *from.attributes.lock();
        *to.attributes.lock() = values;
        Ok(())
    }
}

fn clamped(priority: i32) -> i32 {
    priority.clamp(super::GREATEST_PRIORITY, super::LEAST_PRIORITY)
}
