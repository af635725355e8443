//! System calls that only Linux has: parent death signals, adoption of orphans, files named by their descriptors.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::process::{Resource, Rlimit, Signal};

/// Opens a file without touching it.
pub(super) const LOOK: OFlags = OFlags::PATH;

/// From now on this process is killed when its parent ends, whatever it becomes by exec.
pub(super) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// From now on descendants whose parents end are ours.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Marks this process and all its descendants (see `tag`).
pub(super) fn set_tag(tag: u64) {
    // A brand that cannot be had leaves the other signs: inside a container of another node, without rights, the limit may
    // be lower already.
    let _ = rustix::process::setrlimit(Resource::Locks, Rlimit { current: Some(tag), maximum: Some(tag) });
}

/// The brand of a process, if it has one.
pub(super) fn tag_of(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    // Of the soft and the hard limit the second: the first may have been lowered.
    line.split_whitespace().nth(1)?.parse().ok()
}

/// This program, by the file that runs and not by its name: an upgrade may have replaced it.
#[expect(clippy::unnecessary_wraps, reason = "the twin of a call that can fail")]
pub(super) fn this_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// A path of a socket by way of its folder's descriptor: as such it may only have 108 bytes. Good while the file is open.
pub(crate) fn socket(folder: &File, _: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Gives the folder of that name the mode that is chosen for it, if any. A link in its place is an error.
pub(crate) fn change_mode(
    parent: BorrowedFd<'_>,
    name: &[u8],
    choose: impl Fn(&Stat) -> Option<Mode>,
) -> io::Result<()> {
    let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if let Some(mode) = choose(&rustix::fs::fstat(&found)?) {
        // A folder that may not be read has only such a descriptor, and that changes no mode by itself.
        rustix::fs::chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), mode)?;
    }
    Ok(())
}
