//! Memory that host and device share.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{pushed, run};
use custack::memory::*;

#[test]
fn unified_values_behave_as_what_they_hold() {
    use std::collections::HashSet;
    run(|| {
        let _ctx = pushed();
        let (mut one, two) = (UnifiedBox::new(1u32).unwrap(), UnifiedBox::new(2u32).unwrap());
        assert!(one < two && one != two && one.cmp(&two).is_lt());
        assert_eq!(
            (format!("{one}"), format!("{one:p}")),
            ("1".to_owned(), format!("{:p}", one.as_unified_ptr()))
        );
        *one.as_mut() += 1;
        assert_eq!(one, two);
        assert_eq!((*one.as_ref(), *std::borrow::Borrow::<u32>::borrow(&two)), (2, 2));
        assert_eq!(HashSet::from([one, two]).len(), 1);
        let mut buffer = UnifiedBuffer::from_slice(&[3u8, 1, 2]).unwrap();
        buffer.sort_unstable();
        assert_eq!(buffer.as_slice(), [1, 2, 3]);
        assert_eq!(buffer.as_unified_ptr().as_raw(), buffer.as_slice().as_ptr());
        buffer.as_mut_slice()[0] = 9;
        assert_eq!(AsRef::<[u8]>::as_ref(&buffer), [9, 2, 3]);
        let leaked = UnifiedBox::leak(UnifiedBox::new(()).unwrap());
        assert_eq!(*leaked, ());
    });
}
