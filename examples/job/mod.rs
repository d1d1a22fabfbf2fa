//! A folder that the processes of one job on one machine share, and no one else. Through its files they hand
//! things to each other: all launchers have those, so that no port has to be agreed on, and no library linked.
//!
//! The temporary folder is open to every user, and outlives jobs that crash. So the first process makes the folder, for
//! itself alone, and fails if it is there already; the others take it only if it is their user's. Nothing is read that an
//! earlier job has left, and nothing that another user has put there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

const PATIENCE: Duration = Duration::from_secs(60);

/// The folder; the first process removes it when it drops this.
pub(crate) struct Job {
    folder: PathBuf,
    is_first: bool,
}

impl Job {
    /// The folder of this path, or one that is named after the launcher: process `rank` of the job makes it if it is the
    /// first, and waits for it otherwise.
    pub(crate) fn meet(rank: usize, path: Option<PathBuf>) -> io::Result<Job> {
        let folder = path.unwrap_or_else(of_launcher);
        let is_first = rank == 0;
        if is_first {
            make(&folder)?;
        } else {
            wait_for(&folder, "process 0 has not made")?;
            refuse_a_strangers(&folder)?;
        }
        Ok(Job { folder, is_first })
    }

    /// Hands something over under a name, as a whole: a file is renamed when it is complete.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let begun = self.folder.join(format!("begun-{}-{name}", process::id()));
        fs::write(&begun, bytes)?;
        fs::rename(begun, self.folder.join(name))
    }

    /// What another process hands over under this name, once it is there.
    pub(crate) fn take(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.folder.join(name);
        wait_for(&file, "no process has written")?;
        fs::read(file)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.is_first {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Named after the launcher's process on this machine, which is the parent of all, and when that process began: a later
/// job whose launcher has the same number has another folder.
fn of_launcher() -> PathBuf {
    #[cfg(unix)]
    let launcher = std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    let launcher = "job";
    let begun = begun(&launcher.to_string()).unwrap_or_default();
    env::temp_dir().join(format!("custack-job-{launcher}{begun}"))
}

/// When a process began, in ticks after the machine did, and which run of the machine that is, as Linux tells both.
fn begun(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, in parentheses, may have spaces; the twenty-second is the time.
    let ticks = stat.rsplit(')').next()?.split_whitespace().nth(19)?.to_owned();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("-{ticks}-{}", boot.trim()))
}

fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        let left = match error.kind() {
            io::ErrorKind::AlreadyExists => "; a job that ended early has left it, or another one uses it",
            _ => "",
        };
        io::Error::new(error.kind(), format!("{} cannot be made: {error}{left}", folder.display()))
    })
}

fn wait_for(path: &Path, missing: &str) -> io::Result<()> {
    let begun = Instant::now();
    while fs::symlink_metadata(path).is_err() {
        if begun.elapsed() > PATIENCE {
            let text = format!("{missing} {} within a minute", path.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// An error unless the folder is this user's, and no one else may write in it.
#[cfg(unix)]
fn refuse_a_strangers(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::symlink_metadata(folder)?;
    // Linux lists this process as its user's.
    let own = fs::metadata("/proc/self").map_or(found.uid(), |own| own.uid());
    if found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let text = format!("{} is not this user's own folder", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(not(unix))]
fn refuse_a_strangers(_: &Path) -> io::Result<()> {
    Ok(())
}
