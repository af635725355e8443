//! What only Linux gives: death signals, adoption of orphans, files named by their descriptors.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

/// From now on this process is killed when its parent ends, whatever it becomes by exec.
pub(super) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// From now on descendants whose parents end are ours.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
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
