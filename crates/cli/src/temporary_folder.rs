//! A folder of one's own that is gone at the end.
//!
//! Its owner holds a lock in it for as long as it lives. **Invariant:** whose lock nobody holds is of a process that was killed:
//! the next one removes it, with what a node in it left running. Folders of others, and of a release that took no lock, are
//! left alone. A killed owner's node may still be ending its Pods; then the one after that removes it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use homeostat::embedded::{end_leftover_processes, remove_folder};
use homeostat_core::Entropy;
use rustix::fs::{FlockOperation, OFlags, flock};

/// Owner enters, nobody else: the kubeconfig in it is a secret.
const MODE: u32 = 0o700;
/// Letters of the name's end: 27^10 names, so nobody can guess and take it first.
const SUFFIX_LETTERS: usize = 10;
/// How its name begins.
const PREFIX: &str = "homeostat-";
/// Locked by its owner.
const LOCK: &str = "owner.lock";
/// Where in it a node lives.
const NODE: &str = "node";

/// A fresh folder, removed with all it contains when dropped.
pub(crate) struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes one where the system keeps such things, and removes those whose owners were killed. Fails if the name is taken.
    pub(crate) async fn create(entropy: &Entropy) -> io::Result<Self> {
        remove_abandoned_folders().await;
        loop {
            let path = std::env::temp_dir().join(format!("{PREFIX}{}", entropy.suffix(SUFFIX_LETTERS)));
            let made = DirBuilder::new().mode(MODE).create(&path).and_then(|()| take_lock(&path));
            let lock = made.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot make the folder {}: {error}", path.display()))
            })?;
            // Without a lock somebody took it for abandoned in its first moment, and removes it.
            if let Some(lock) = lock {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where in it a node lives.
    pub(crate) fn node(&self) -> PathBuf {
        self.path.join(NODE)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.path) {
            tracing::warn!(%error, "cannot remove a temporary folder: remove it by hand");
        }
    }
}

/// Takes the lock of a new folder; none if somebody else has it or had it.
fn take_lock(folder: &Path) -> io::Result<Option<File>> {
    let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(LOCK))?;
    let is_ours = is_locked(&lock) && lock.metadata()?.nlink() > 0;
    Ok(is_ours.then_some(lock))
}

fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Removes the folders whose owners were killed.
async fn remove_abandoned_folders() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let path = entry.path();
        // Held until the folder is gone: nobody else shall find it abandoned as well.
        let Some(_lock) = lock_of_abandoned(&path) else { continue };
        if end_leftover_processes(&path.join(NODE)).await
            && let Err(error) = remove_folder(&path)
        {
            tracing::warn!(%error, "cannot remove an abandoned folder: remove it by hand");
        }
    }
}

/// The lock of a folder of this user that nobody holds.
fn lock_of_abandoned(folder: &Path) -> Option<File> {
    let meta = fs::symlink_metadata(folder).ok()?;
    let is_ours = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let lock = || OpenOptions::new().write(true).custom_flags(flags).open(folder.join(LOCK)).ok();
    is_ours.then(lock).flatten().filter(is_locked)
}
