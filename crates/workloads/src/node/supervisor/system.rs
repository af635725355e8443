//! Wraps system calls that only Linux has: parent death signals, adoption of orphans, paths of descriptors.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::process::{Resource, Rlimit, Signal};

/// Opens a file without access to its content.
pub(super) const LOOK: OFlags = OFlags::PATH;

/// Has the kernel kill this process when its parent exits, even after an exec.
pub(super) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Makes this process adopt its descendants whose own parents exit.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Tags this process and all its descendants (see `process_tag`).
pub(super) fn set_tag(tag: u64) {
    // Without the tag, the other marks remain. Inside another node's container, without permissions, the limit may
    // already be lower.
    let _ = rustix::process::setrlimit(Resource::Locks, Rlimit { current: Some(tag), maximum: Some(tag) });
}

/// Returns the tag of a process, if it has one.
pub(super) fn tag_of(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    // This is the hard limit, because the soft one may have been lowered.
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the path of this program through its open file, not by name: an upgrade may have replaced it.
#[expect(clippy::unnecessary_wraps, reason = "its counterpart on other systems can fail")]
pub(super) fn this_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// Returns a socket's path through its folder's descriptor, because a socket path is limited to 108 bytes. The path is
/// valid while the file is open.
pub(crate) fn socket(folder: &File, _: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Opens the file that another process's descriptor refers to, for reading.
pub(super) fn open_descriptor(pid: i32, number: i32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/fd/{number}"))
}

/// Opens a new terminal: its master, and the end for processes.
pub(super) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let end = ioctl_tiocgptpeer(&master, flags)?;
    Ok((master, end))
}

/// Changes the mode of the folder with that name to the chosen one, if any. Fails if there is a link in its place.
pub(crate) fn change_mode(
    parent: BorrowedFd<'_>,
    name: &[u8],
    choose: impl Fn(&Stat) -> Option<Mode>,
) -> io::Result<()> {
    let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if let Some(mode) = choose(&rustix::fs::fstat(&found)?) {
        // A folder that is not readable can only be opened with such a descriptor, with which fchmod fails.
        rustix::fs::chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), mode)?;
    }
    Ok(())
}
