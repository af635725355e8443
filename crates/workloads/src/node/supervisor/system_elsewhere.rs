//! Stands in for `system` on systems other than Linux, and does less. A supervisor that is killed leaves its processes
//! to the next one, which knows them by their records; daemons are not found.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Opens a file without blocking.
pub(super) const LOOK: OFlags = OFlags::NONBLOCK;

#[expect(clippy::unnecessary_wraps, reason = "its counterpart on Linux can fail")]
pub(super) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "its counterpart on Linux can fail")]
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

pub(super) fn set_tag(_: u64) {}

pub(super) fn tag_of(_: i32) -> Option<u64> {
    None
}

pub(super) fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn socket(_: &File, folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

pub(super) fn open_descriptor(_: i32, _: i32) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Changes the mode of the folder with that name to the chosen one, if any. A link in its place is not followed.
pub(crate) fn change_mode(
    parent: BorrowedFd<'_>,
    name: &[u8],
    choose: impl Fn(&Stat) -> Option<Mode>,
) -> io::Result<()> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if !FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    if let Some(mode) = choose(&stat) {
        rustix::fs::chmodat(parent, name, mode, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}
