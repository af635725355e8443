//! Walks through a directory by handles: name by name, without following links below it.
//!
//! Hidden directories are not entered. What disappears meanwhile, or may not be read, is skipped.

use std::io;
use std::path::Path;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The longest path below the directory: others must be able to open it by its full path (4096 bytes on Linux).
pub(crate) const PATH_BYTES_MAX: usize = 2048;

/// Something found below the directory, hidden or not.
pub(crate) struct Entry<'a> {
    pub(crate) parent: BorrowedFd<'a>,
    /// The path of its directory.
    pub(crate) folder: &'a str,
    pub(crate) name: &'a str,
    pub(crate) stat: Stat,
}

/// Visits everything in directories that are not hidden.
pub(crate) fn walk(root: &Path, mut visit: impl FnMut(Entry<'_>)) -> io::Result<()> {
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = match enter(root, &folder).and_then(Dir::new) {
            Err(Errno::NOENT) => continue,
            Err(_) if !folder.is_empty() => continue,
            entries => entries?,
        };
        walk_folder(&folder, entries, &mut folders, &mut visit)?;
    }
    Ok(())
}

fn walk_folder(
    folder: &str,
    mut entries: Dir,
    folders: &mut Vec<String>,
    visit: &mut impl FnMut(Entry<'_>),
) -> io::Result<()> {
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().ok().filter(|name| !matches!(*name, "." | "..")) else {
            continue;
        };
        let parent = entries.fd()?;
        // It may have been removed meanwhile.
        let Ok(stat) = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let path = below(folder, name);
        let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
        if is_folder && !name.starts_with('.') && path.len() <= PATH_BYTES_MAX {
            folders.push(path);
        }
        visit(Entry { parent, folder, name, stat });
    }
    Ok(())
}

pub(crate) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

pub(crate) fn open_folder(parent: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Opens the directory itself, which may be reached through links: the user who started the operator chose it.
pub(crate) fn open_root(root: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(crate) fn parts(folders: &str) -> impl Iterator<Item = &str> {
    folders.split('/').filter(|part| !part.is_empty())
}

pub(crate) fn enter(root: &Path, folders: &str) -> rustix::io::Result<OwnedFd> {
    parts(folders).try_fold(open_root(root)?, |parent, name| open_folder(&parent, name))
}
