//! A temporary folder that is removed at the end.
//!
//! Its owner holds a lock in it for as long as it lives. **Invariant:** a folder whose lock is not held belonged to a
//! process that was killed: the next process removes it, and ends what a node in it left running. Other users' folders,
//! and those of a release that took no lock, are left alone. If a killed owner's node is still ending its Pods, a later
//! process removes the folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use homeostat::embedded::{end_leftover_processes, remove_folder};
use homeostat_core::Entropy;
use rustix::fs::{FlockOperation, OFlags, flock};

/// The mode of the folder: only its owner may enter, because the kubeconfig in it is a secret.
const MODE: u32 = 0o700;
/// The number of random letters in the name: with 27^10 names, no other user can guess one and take it first.
const SUFFIX_LETTERS: usize = 10;
/// The prefix of its name.
const PREFIX: &str = "homeostat-";
/// The file that its owner locks.
const LOCK: &str = "owner.lock";
/// The node's folder in it.
const NODE: &str = "node";

/// A new folder, removed with everything in it when dropped.
pub(crate) struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder where the system keeps temporary files, and removes those of killed owners. Fails if the name
    /// is taken.
    pub(crate) async fn create(entropy: &Entropy) -> io::Result<Self> {
        remove_abandoned_folders().await;
        loop {
            let path = std::env::temp_dir().join(format!("{PREFIX}{}", entropy.suffix(SUFFIX_LETTERS)));
            let made = DirBuilder::new().mode(MODE).create(&path).and_then(|()| take_lock(&path));
            let lock = made.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot create the folder {}: {error}", path.display()))
            })?;
            // If the lock fails, another process found the new folder without a lock, and is removing it as abandoned.
            if let Some(lock) = lock {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the node's folder in it.
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

/// Takes the lock of a new folder; `None` if another process has or had it.
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
        // Held until the folder is gone, so that no other process also finds it abandoned.
        let Some(_lock) = lock_of_abandoned(&path) else { continue };
        if end_leftover_processes(&path.join(NODE)).await
            && let Err(error) = remove_folder(&path)
        {
            tracing::warn!(%error, "cannot remove an abandoned folder: remove it by hand");
        }
    }
}

/// Returns the lock of this user's folder if no process holds it.
fn lock_of_abandoned(folder: &Path) -> Option<File> {
    let meta = fs::symlink_metadata(folder).ok()?;
    let is_ours = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let lock = || OpenOptions::new().write(true).custom_flags(flags).open(folder.join(LOCK)).ok();
    is_ours.then(lock).flatten().filter(is_locked)
}
