//! All access to the disk goes through a flat folder of files, each written from some position to its end.
//!
//! Everything the disk store does to its folder is one of these calls, so a test that implements [`Files`] can fail the
//! k-th call, or cut the power after it, for every k. Nothing else is needed: no truncation, no memory maps.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::Error;

/// A flat folder. The effect of a call is not durable when it returns: [`File::sync`] makes contents durable,
/// [`Files::sync_names`] makes names durable.
pub trait Files: fmt::Debug + Send + Sync + 'static {
    /// Returns the names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading from its start.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;
    /// Creates a file, or empties it.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Opens a file to overwrite it from byte `at` on. Its length stays the same.
    fn reopen(&self, name: &str, at: u64) -> io::Result<Box<dyn File>>;
    /// Renames a file, replacing the one that had the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Returns the folder's name for use in messages.
    fn place(&self) -> String;
}

/// A file that is written from the position where it was opened to its end.
pub trait File: fmt::Debug + Send {
    /// Writes all of `bytes` after the bytes written before. After an error, the end of the file is unknown.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Overwrites the start of the file with `bytes`.
    fn rewrite(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Fills the file with zeros up to the size `bytes`; later appends replace them. The zeros are written, not only
    /// reserved: a sync then records neither a new size nor new blocks, which is about half of its cost.
    fn reserve(&mut self, bytes: u64) -> io::Result<()>;
    /// Makes everything that was written durable. After an error nothing is certain, even if a later sync succeeds: the
    /// kernel may have dropped the pages it could not write.
    fn sync(&mut self) -> io::Result<()>;
}

/// How often to try to lock a folder: for a second in all, with [`LOCK_PAUSE`] between attempts. The kernel releases a
/// killed process's lock only after it has cleaned up the process.
const LOCK_ATTEMPTS: u32 = 20;
/// The pause between two attempts; see [`LOCK_ATTEMPTS`].
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The name of the file whose lock shows that a process uses the folder.
const LOCK: &str = "lock";
/// Only the owner may read the store: it contains secrets.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder of the operating system, locked against other processes until dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked like the file [`LOCK`] in it, because a user may remove the file as a leftover.
    itself: fs::File,
    _lock: fs::File,
    /// Whether syncs reach the disk.
    is_durable: bool,
}

impl Folder {
    /// Creates the folder if necessary and locks it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |reason: String| Error::Open { path: path.display().to_string(), reason };
        let make = || -> io::Result<[fs::File; 2]> {
            if !path.exists() {
                DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
                sync_folder(parent_of(path))?;
            }
            check_kind(&path.join(LOCK))?;
            let mut options = OpenOptions::new();
            let lock =
                options.create(true).truncate(false).write(true).mode(FILE_MODE).open(path.join(LOCK))?;
            Ok([lock, fs::File::open(path)?])
        };
        let opened =
            make().map_err(|error| fail(format!("{error}; choose a folder that can be written to")))?;
        let [file, itself] = opened;
        match lock_patiently(&file).and_then(|()| unless_impossible(lock_patiently(&itself))) {
            Ok(()) => Ok(Self { path: path.to_owned(), itself, _lock: file, is_durable: true }),
            Err(TryLockError::WouldBlock) => {
                Err(fail("another process uses it; stop that process or choose another folder".to_owned()))
            }
            Err(TryLockError::Error(error)) => Err(fail(format!("it cannot be locked: {error}"))),
        }
    }

    /// Leaves it to the operating system to decide when contents and names become durable: written data survives a
    /// crash of the process, but not of the machine. This is for test data that is worthless after a crash of the
    /// machine.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.is_durable = false;
        self
    }
}

/// A folder opened for reading only, even while another process uses it.
#[derive(Debug)]
pub(super) struct ReadOnlyFolder(pub(super) PathBuf);

impl ReadOnlyFolder {
    /// Keeps other processes from using the folder until the result is dropped; `None` if a process already uses it.
    pub(super) fn lock(&self) -> io::Result<Option<fs::File>> {
        let lock = fs::File::open(self.0.join(LOCK))?;
        match lock.try_lock_shared() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn refused<T>() -> io::Result<T> {
        Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem))
    }
}

impl Files for ReadOnlyFolder {
    fn names(&self) -> io::Result<Vec<String>> {
        names_in(&self.0)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        open_in(&self.0, name)
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn File>> {
        Self::refused()
    }

    fn reopen(&self, _: &str, _: u64) -> io::Result<Box<dyn File>> {
        Self::refused()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Self::refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Self::refused()
    }

    fn sync_names(&self) -> io::Result<()> {
        Self::refused()
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }
}

fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        // A name that is not UTF-8 is not one of ours.
        names.extend(entry?.file_name().into_string().ok().filter(|name| name != LOCK));
    }
    Ok(names)
}

fn open_in(path: &Path, name: &str) -> io::Result<Box<dyn Read + Send>> {
    let path = path.join(name);
    check_kind(&path)?;
    Ok(Box::new(fs::File::open(path)?))
}

/// Ignores that a network file system cannot lock folders; the lock on the file must then suffice.
fn unless_impossible(locked: Result<(), TryLockError>) -> Result<(), TryLockError> {
    match locked {
        Err(TryLockError::Error(_)) => Ok(()),
        locked => locked,
    }
}

/// Locks the file, waiting a moment for a process that was killed but is not quite gone yet.
#[expect(clippy::disallowed_methods, reason = "opening a store blocks; nothing else runs on this thread yet")]
fn lock_patiently(file: &fs::File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
    file.try_lock()
}

impl Files for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        names_in(&self.path)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        open_in(&self.path, name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(create_real_file(&self.path.join(name), self.is_durable)?))
    }

    fn reopen(&self, name: &str, at: u64) -> io::Result<Box<dyn File>> {
        let path = self.path.join(name);
        check_kind(&path)?;
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(Box::new(RealFile { file, end: at, blank_to: at, is_durable: self.is_durable }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        if self.is_durable { self.itself.sync_all() } else { Ok(()) }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Creates a file that only its owner may read, or empties it.
pub(super) fn create_file(path: &Path) -> io::Result<Box<dyn File>> {
    Ok(Box::new(create_real_file(path, true)?))
}

fn create_real_file(path: &Path, is_durable: bool) -> io::Result<RealFile> {
    check_kind(path)?;
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(FILE_MODE).open(path)?;
    Ok(RealFile { file, end: 0, blank_to: 0, is_durable })
}

/// Accepts only a regular file, or one that does not exist yet: a pipe would block forever, and a link may lead to a
/// file that is not ours.
fn check_kind(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let name = path.file_name().unwrap_or_default().display();
            Err(io::Error::other(format!("{name} is a link, a folder or a pipe, not a file of this store")))
        }
        _ => Ok(()),
    }
}

/// Returns the folder that contains a file or folder.
pub(super) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// The zeros that fill reserved space, piece by piece.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

#[derive(Debug)]
struct RealFile {
    file: fs::File,
    /// The position at which the next bytes are written.
    end: u64,
    /// The file is filled with zeros from `end` up to here, if this is larger.
    blank_to: u64,
    is_durable: bool,
}

impl File for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn rewrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let mut at = self.end.max(self.blank_to);
        while at < bytes {
            let length = usize::try_from(bytes - at).map_or(ZEROS.len(), |missing| missing.min(ZEROS.len()));
            self.file.write_all_at(&ZEROS[..length], at)?;
            at += length as u64;
            self.blank_to = at;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.is_durable { self.file.sync_data() } else { Ok(()) }
    }
}
