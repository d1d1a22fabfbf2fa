//! Memory that several processes of this machine have in common.
//!
//! It is in a file without a name, which other processes open by the number that it has in the process which made it. So
//! nothing is left behind when processes end, in whatever way.

// Words that processes share.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub(super) use linux::Shared;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Shared;

use std::io::{ErrorKind, Result};
use std::os::raw::c_char;
use std::path::Path;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// How other processes find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) process: u32,
    number: u32,
    /// Which file has the number, which another one may have later.
    file: u64,
    volume: u64,
    pub(super) size: u64,
}

/// What a file has, which says so at its end.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Memory = 1,
    Record = 2,
    Pool = 3,
}

/// The bytes of a handle.
pub(super) type Bytes = [c_char; 64];

impl Name {
    fn words(&self) -> [u64; 5] {
        [self.process.into(), self.number.into(), self.file, self.volume, self.size]
    }

    /// The bytes of a handle of this kind.
    pub(super) fn to_bytes(self, kind: [u8; 8]) -> Bytes {
        let words = self.words().into_iter().flat_map(u64::to_ne_bytes);
        let mut bytes = [0; 64];
        bytes.iter_mut().zip(kind.into_iter().chain(words)).for_each(|(to, from)| *to = from as c_char);
        bytes
    }

    /// `None` if these are not the bytes of a handle of this kind.
    pub(super) fn from_bytes(kind: [u8; 8], bytes: &Bytes) -> Option<Name> {
        let bytes = bytes.map(|byte| byte as u8);
        let (first, rest) = bytes.split_at(8);
        let mut words = rest.chunks_exact(8).map(|eight| {
            let mut word = [0; 8];
            word.copy_from_slice(eight);
            u64::from_ne_bytes(word)
        });
        let mut next = || words.next().unwrap_or_default();
        let (process, number) = (next() as u32, next() as u32);
        let name = Name { process, number, file: next(), volume: next(), size: next() };
        (first == kind && name.size > 0).then_some(name)
    }

    /// The same for all numbers that the file has, in all processes.
    pub(super) fn of_file(self) -> Name {
        Name { process: 0, number: 0, ..self }
    }

    /// Whether it is this process that has it.
    pub(super) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

/// Some of the memory that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) of: Name,
    pub(super) at: u64,
    pub(super) size: u64,
}

impl Part {
    const AT: usize = 48;

    /// The bytes of a handle of this kind.
    pub(super) fn to_bytes(self, kind: [u8; 8]) -> Bytes {
        let mut bytes = self.of.to_bytes(kind);
        let words = [self.at, self.size].into_iter().flat_map(u64::to_ne_bytes);
        bytes[Part::AT..].iter_mut().zip(words).for_each(|(to, from)| *to = from as c_char);
        bytes
    }

    /// `None` if these are not the bytes of a handle of this kind.
    pub(super) fn from_bytes(kind: [u8; 8], bytes: &Bytes) -> Option<Part> {
        let of = Name::from_bytes(kind, bytes)?;
        let mut words = [[0; 8]; 2];
        for (to, from) in words.iter_mut().flatten().zip(&bytes[Part::AT..]) {
            *to = *from as u8;
        }
        let [at, size] = words.map(u64::from_ne_bytes);
        let fits = size > 0 && at.checked_add(size).is_some_and(|end| end <= of.size);
        fits.then_some(Part { of, at, size })
    }
}

/// The records of an event that processes share: how many were made, which of them has come, and who made the last one.
pub(super) struct Record(Shared);

impl Record {
    const SIZE: usize = 24;

    pub(super) fn new() -> Result<Record> {
        Shared::new(Content::Record, Record::SIZE).map(Record)
    }

    pub(super) fn open(name: &Name) -> Result<Record> {
        let is_record = name.size == Record::SIZE as u64;
        let shared = if is_record { Shared::open(name) } else { Err(ErrorKind::NotFound.into()) };
        shared.map(Record)
    }

    pub(super) fn name(&self) -> Result<Name> {
        self.0.name()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the callers pass an index within the memory, which begins at a page and is mapped as long as `self`
        // exists; all processes access its words by atomic operations only.
        unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut::<u64>(self.0.start()).add(at)) }
    }

    /// The number of the last record, or 0.
    pub(super) fn last(&self) -> u64 {
        self.word(0).load(Ordering::SeqCst)
    }

    /// The number of one that this process makes now.
    pub(super) fn next(&self) -> u64 {
        self.word(2).store(std::process::id().into(), Ordering::SeqCst);
        self.word(0).fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn comes(&self, number: u64) {
        self.word(1).fetch_max(number, Ordering::SeqCst);
    }

    /// Whether it has come, or never will because the process has ended that made it.
    pub(super) fn has_come(&self, number: u64) -> bool {
        let maker = self.word(2).load(Ordering::SeqCst);
        self.word(1).load(Ordering::SeqCst) >= number || !Path::new(&format!("/proc/{maker}")).exists()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Content, Name, Part};
    use memmap2::{MmapOptions, MmapRaw};
    use std::fs::{File, OpenOptions, remove_file};
    use std::io::{Error, ErrorKind, Result};
    use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
    use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The end of a file: this word, its content and the size of that.
    const MARK: u64 = u64::from_ne_bytes(*b"CUSTACK1");
    const END: usize = 24;

    fn end(content: Content, size: usize) -> [u8; END] {
        let mut bytes = [0; END];
        let words = [MARK, content as u64, size as u64].into_iter().flat_map(u64::to_ne_bytes);
        bytes.iter_mut().zip(words).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Memory of this process that is mapped to the file.
    pub(crate) struct Shared {
        map: MmapRaw,
        file: File,
        size: usize,
    }

    impl Shared {
        /// Zeros.
        pub(crate) fn new(content: Content, size: usize) -> Result<Shared> {
            static MADE: AtomicU64 = AtomicU64::new(0);
            // A file system in memory, if there is one.
            let memory = Path::new("/dev/shm");
            let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("custack-{}-{number}", std::process::id()));
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            remove_file(&path)?;
            file.write_all_at(&end(content, size), size as u64)?;
            Shared::map(file, size)
        }

        /// That of the process that has this name for it.
        pub(crate) fn open(name: &Name) -> Result<Shared> {
            Shared::open_part(&Part { of: *name, at: 0, size: name.size })
        }

        pub(crate) fn open_part(part: &Part) -> Result<Shared> {
            let name = &part.of;
            let path = format!("/proc/{}/fd/{}", name.process, name.number);
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            let found = file.metadata()?;
            let length = name.size + END as u64;
            if (found.ino(), found.dev(), found.len()) != (name.file, name.volume, length) {
                return Err(Error::from(ErrorKind::NotFound));
            }
            let map = MmapOptions::new().offset(part.at).len(part.size as usize).map_raw(&file)?;
            Ok(Shared { map, file, size: part.size as usize })
        }

        /// That of a file which this process has open under a number, as a descriptor. That stays the program's own.
        pub(crate) fn of_descriptor(content: Content, number: i32) -> Result<Shared> {
            let none = || Error::from(ErrorKind::NotFound);
            if number < 0 {
                return Err(none());
            }
            // SAFETY: not -1; it is used for this one call, which fails if no file is open under the number.
            let file = File::from(unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?);
            let size = file.metadata()?.len().checked_sub(END as u64).ok_or_else(none)?;
            let mut found = [0; END];
            file.read_exact_at(&mut found, size)?;
            if found != end(content, size as usize) {
                return Err(none());
            }
            Shared::map(file, size as usize)
        }

        /// A descriptor for the program, which closes it.
        pub(crate) fn descriptor(&self) -> Result<i32> {
            self.file.try_clone().map(IntoRawFd::into_raw_fd)
        }

        /// The same memory at another address.
        pub(crate) fn again(&self) -> Result<Shared> {
            Shared::map(self.file.try_clone()?, self.size)
        }

        pub(crate) fn size(&self) -> usize {
            self.size
        }

        fn map(file: File, size: usize) -> Result<Shared> {
            let map = MmapOptions::new().len(size).map_raw(&file)?;
            Ok(Shared { map, file, size })
        }

        /// The address of the first byte, which begins a page.
        pub(crate) fn start(&self) -> usize {
            self.map.as_mut_ptr().expose_provenance()
        }

        pub(crate) fn name(&self) -> Result<Name> {
            let (found, number) = (self.file.metadata()?, self.file.as_raw_fd() as u32);
            let (process, size) = (std::process::id(), self.size as u64);
            Ok(Name { process, number, file: found.ino(), volume: found.dev(), size })
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Content, Name, Part};
    use std::convert::Infallible;
    use std::io::{Error, ErrorKind, Result};

    /// There is none.
    pub(crate) struct Shared(Infallible);

    impl Shared {
        pub(crate) fn new(_content: Content, _size: usize) -> Result<Shared> {
            Err(Error::new(ErrorKind::Unsupported, "processes share memory on Linux only"))
        }

        pub(crate) fn open(_name: &Name) -> Result<Shared> {
            Shared::new(Content::Memory, 0)
        }

        pub(crate) fn open_part(_part: &Part) -> Result<Shared> {
            Shared::new(Content::Memory, 0)
        }

        pub(crate) fn of_descriptor(content: Content, _number: i32) -> Result<Shared> {
            Shared::new(content, 0)
        }

        pub(crate) fn descriptor(&self) -> Result<i32> {
            match self.0 {}
        }

        pub(crate) fn again(&self) -> Result<Shared> {
            match self.0 {}
        }

        pub(crate) fn size(&self) -> usize {
            match self.0 {}
        }

        pub(crate) fn start(&self) -> usize {
            match self.0 {}
        }

        pub(crate) fn name(&self) -> Result<Name> {
            match self.0 {}
        }
    }
}
