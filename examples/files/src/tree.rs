//! Reads and writes files below one directory by handles: name by name, without following links, so nothing outside the
//! directory is ever read or written, whatever links others put into it meanwhile.
//!
//! **Invariant:** nothing here waits for another process (a pipe is inspected, never opened), and a file appears whole
//! under its name or not at all. A crash leaves at most a hidden draft (`drafts` removes it). Empty directories are
//! left behind.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::drafts;
use crate::walk::{PATH_BYTES_MAX, below, enter, open_folder, open_root, parts, walk};

/// The longest name of a file or directory, as most file systems have it.
const NAME_BYTES_MAX: usize = 255;

/// No object is this large, so no larger file is as wanted.
const CONTENT_BYTES_MAX: u64 = 4 << 20;

/// What was found under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its text; `None` unless it is a regular file of text that we may read.
    pub(crate) content: Option<String>,
    pub(crate) mode: Mode,
}

/// Distinguishes a file from its former self without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace([i128; 5]);

/// How a file is put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Only if nothing is there.
    New,
    /// Replaces whatever is there, unless it is a directory.
    Over,
}

/// Checks that this is the path of a file below the directory. Returns what is wrong with it.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > PATH_BYTES_MAX {
        return Err("is longer than 2048 bytes");
    }
    for part in path.split('/') {
        match part {
            "" => return Err("begins or ends with a slash, or contains an empty name"),
            _ if part.starts_with('.') => return Err("leads to a hidden file, or out of the directory"),
            _ if part.contains('\0') => return Err("contains a zero byte"),
            _ if part.len() > NAME_BYTES_MAX => return Err("contains a name longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// Returns what is there; nothing below a link.
pub(crate) fn look(root: &Path, path: &str) -> io::Result<Option<Found>> {
    let (folders, leaf) = split(path);
    let look = || {
        let parent = enter(root, folders)?;
        let stat = rustix::fs::statat(&parent, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Found { content: text(&parent, leaf, &stat)?, mode: mode_of(&stat) })
    };
    match look() {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Writes a file under another name in the same directory and moves it into place.
pub(crate) fn put(root: &Path, path: &str, content: &str, mode: Mode, placing: Placing) -> io::Result<()> {
    let (folders, leaf) = split(path);
    let parent = make_folders(root, folders)?;
    let draft = drafts::name();
    let placed = write_draft(&parent, &draft, content, mode).and_then(|()| match placing {
        // A hard link fails if something is there; a rename would replace it.
        Placing::New => Ok(rustix::fs::linkat(&parent, &*draft, &parent, leaf, AtFlags::empty())?),
        Placing::Over => Ok(rustix::fs::renameat(&parent, &*draft, &parent, leaf)?),
    });
    if placing == Placing::New || placed.is_err() {
        gone(rustix::fs::unlinkat(&parent, &*draft, AtFlags::empty()))?;
    }
    placed
}

/// Removes a file without looking into it. A directory is not ours.
pub(crate) fn remove(root: &Path, path: &str) -> io::Result<()> {
    let (folders, leaf) = split(path);
    let removed =
        enter(root, folders).and_then(|parent| rustix::fs::unlinkat(parent, leaf, AtFlags::empty()));
    match removed {
        Err(Errno::NOTDIR | Errno::LOOP | Errno::ISDIR) => Ok(()),
        removed => Ok(gone(removed)?),
    }
}

/// Returns every file that is not hidden. What we may not look into, and what has no name as text, is not ours and is
/// skipped; a missing directory has none.
pub(crate) fn scan(root: &Path) -> io::Result<BTreeMap<String, Trace>> {
    let mut found = BTreeMap::new();
    walk(root, |entry| {
        if !entry.name.starts_with('.') && FileType::from_raw_mode(entry.stat.st_mode).is_file() {
            found.insert(below(entry.folder, entry.name), trace(&entry.stat));
        }
    })?;
    Ok(found)
}

fn trace(stat: &Stat) -> Trace {
    let parts = [stat.st_mtime.into(), stat.st_mtime_nsec.into(), stat.st_size.into()];
    let [seconds, nanoseconds, size] = parts;
    Trace([seconds, nanoseconds, size, stat.st_mode.into(), stat.st_ino.into()])
}

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

/// Splits a path into its directories and its last name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn make_folders(root: &Path, folders: &str) -> io::Result<OwnedFd> {
    std::fs::create_dir_all(root)?;
    let mut folder = open_root(root)?;
    for name in parts(folders) {
        match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
        folder = open_folder(&folder, name)?;
    }
    Ok(folder)
}

fn write_draft(parent: &OwnedFd, draft: &str, content: &str, mode: Mode) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::openat(parent, draft, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(content.as_bytes())?;
    Ok(rustix::fs::fchmod(file, mode)?)
}

/// Returns a file's text, if it is a regular file of text that we may read.
fn text(parent: &OwnedFd, name: &str, stat: &Stat) -> rustix::io::Result<Option<String>> {
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Ok(None);
    }
    // It may have become a link or a pipe since: then this fails, or does not wait.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS | Errno::PERM | Errno::LOOP) => return Ok(None),
        file => file?,
    };
    if !FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::from(file).take(CONTENT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= CONTENT_BYTES_MAX))
}

fn gone(removed: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    const MODE: Mode = Mode::RUSR;

    /// Runs `work` as a user who may not do everything.
    fn as_nobody(work: impl FnOnce() + Send) {
        const NOBODY: u32 = 65534;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                #[cfg(target_os = "linux")]
                if rustix::process::geteuid().is_root() {
                    rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
                }
                work();
            });
            worker.join().unwrap();
        });
    }

    fn everybodys(folder: &TempDir) -> &Path {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        folder.path()
    }

    #[test]
    fn a_path_must_lead_to_a_file_below() {
        for path in ["a", "etc/motd", "a b/ü", &"x".repeat(255)] {
            assert_eq!(check_path(path), Ok(()), "{path:?}");
        }
        let (long, deep) = ("x".repeat(256), "x/".repeat(1024) + "x");
        for path in ["", "/etc/x", "a/", "a//b", "../x", "a/../b", ".ssh", "a/.b", ".", "a\0b", &long, &deep]
        {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn links_are_not_followed() {
        let (folder, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let root = folder.path();
        fs::write(outside.path().join("victim"), "theirs").unwrap();
        symlink(outside.path(), root.join("way")).unwrap();
        symlink(outside.path().join("victim"), root.join("leaf")).unwrap();
        assert_eq!(look(root, "way/victim").unwrap(), None);
        assert_eq!(look(root, "leaf").unwrap().unwrap().content, None);
        assert!(put(root, "way/pwn", "x", MODE, Placing::New).is_err());
        assert!(put(root, "way/victim", "x", MODE, Placing::Over).is_err());
        assert!(put(root, "leaf", "x", MODE, Placing::New).is_err());
        remove(root, "way/victim").unwrap();
        assert!(scan(root).unwrap().is_empty());
        put(root, "leaf", "ours", MODE, Placing::Over).unwrap();
        assert_eq!(
            look(root, "leaf").unwrap().unwrap().content.as_deref(),
            Some("ours"),
            "the link is replaced"
        );
        assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_not_opened_and_can_be_replaced() {
        let folder = TempDir::new().unwrap();
        let root = folder.path();
        let pipe = root.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(look(root, "pipe").unwrap().unwrap().content, None);
        assert!(scan(root).unwrap().is_empty());
        put(root, "pipe", "file", MODE, Placing::Over).unwrap();
        assert_eq!(fs::read_to_string(&pipe).unwrap(), "file");
    }

    #[test]
    fn what_may_not_be_read_stops_nothing() {
        let folder = TempDir::new().unwrap();
        let root = everybodys(&folder);
        as_nobody(|| {
            put(root, "ours", "x", Mode::empty(), Placing::New).unwrap();
            put(root, "shut/in", "x", MODE, Placing::New).unwrap();
            fs::set_permissions(root.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
            let names: Vec<String> = scan(root).unwrap().into_keys().collect();
            assert_eq!(names, ["ours"]);
            let found = Found { content: None, mode: Mode::empty() };
            assert_eq!(look(root, "ours").unwrap(), Some(found));
            remove(root, "ours").unwrap();
            assert_eq!(look(root, "ours").unwrap(), None);
            assert!(look(root, "shut/in").is_err(), "nobody knows whether it is there");
            fs::set_permissions(root.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
        });
    }

    #[test]
    fn a_failure_leaves_no_draft() {
        let folder = TempDir::new().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("folder")).unwrap();
        for placing in [Placing::New, Placing::Over] {
            assert!(put(root, "folder", "x", MODE, placing).is_err());
        }
        remove(root, "folder").unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 1, "the directory stays, and nothing else is there");
    }

    #[test]
    fn what_is_no_text_is_not_taken_for_text() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("bytes"), b"\xff").unwrap();
        assert_eq!(look(folder.path(), "bytes").unwrap().unwrap().content, None);
    }
}
