//! The folder in which the library has the names by which programs open it.

use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// How many folders others may have made under the names that this program would use.
const MOST_TAKEN: usize = 100;

/// A folder with links to this library, which stays when the program has ended.
///
/// No process is left to remove it, because the program replaces this one. So its name tells the user and the path of the
/// library, and what is in it follows from these: all runs of one user with one library share it, at once or later, and
/// there are as many folders as libraries that were run with, until the system tidies its folder for such files. It is not
/// beside the library, which may be installed where its users may not write, and not in the user's own folder, which may
/// be missing or read-only where tests run in containers.
///
/// In a folder to which everybody writes, somebody else may have made one of this name, with a library of his own. Such a
/// one is passed over for one of another name. Those that this makes only their owner can change, and anybody can read, as
/// the program may go on as another user.
pub(crate) fn folder_of(library: &Path) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let (user, key) = (user(), hasher.finish());
    // The program may go to another folder, so that a relative path would not lead there.
    let temporary = env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let temporary = std::path::absolute(temporary.unwrap_or_else(|| "/tmp".into()))?;
    for taken in 0..MOST_TAKEN {
        let number = if taken == 0 { String::new() } else { format!("-{taken}") };
        let folder = temporary.join(format!("custack-run-{user}-{key:016x}{number}"));
        match DirBuilder::new().mode(0o755).create(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display()))),
        }
        // Of a link this says what the link is.
        let found = fs::symlink_metadata(&folder)?;
        if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
            for name in ["libcuda.so.1", "libcuda.so"] {
                link(library, &folder, name)?;
            }
            return Ok(folder);
        }
    }
    let why = format!("others have made all that it could be in {}", temporary.display());
    Err(io::Error::new(ErrorKind::AlreadyExists, why))
}

/// Sees to a link to the library. What another run has made meanwhile is the same link; anything else that has the name is
/// replaced in one step, so that no program finds the name missing.
fn link(library: &Path, folder: &Path, name: &str) -> io::Result<()> {
    let link = folder.join(name);
    if fs::read_link(&link).is_ok_and(|to| to == library) {
        return Ok(());
    }
    let new = folder.join(format!("{name}.{}", std::process::id()));
    match symlink(library, &new) {
        // A run with this number has ended before it could rename it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(&new)?;
            symlink(library, &new)?;
        }
        other => other?,
    }
    fs::rename(new, link)
}

/// The number of the user as whom this process makes files.
fn user() -> u32 {
    unsafe extern "C" {
        // It takes nothing, and always succeeds.
        safe fn geteuid() -> u32;
    }
    geteuid()
}
