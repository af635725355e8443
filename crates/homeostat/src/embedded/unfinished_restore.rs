//! Marks a data folder while a backup is restored into it, so that a restore that was interrupted is noticed.
//!
//! The marker is a file that is written before anything else and removed after everything else is durable. Whoever
//! uses the folder looks for it after locking the store; the restore looks for a store after writing the marker. Of a
//! server and a restore that start at the same moment, at least one therefore sees the other.
//!
//! **Invariant:** a folder with a marker contains nothing but what a restore wrote, so the next restore may remove it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use homeostat_store::disk::files::{Files as _, Folder};

use super::data_folder_backup::{FILE_MODE, FOLDER_MODE};
use super::{Error, PKI_FOLDER, STORE_FOLDER};

/// The name of the marker.
const MARKER: &str = "restore-unfinished";
const IN_PROGRESS: &str = "another restore into this folder is running; wait until it ends";

/// Refuses a folder into which a backup is being restored, or was restored only in part.
pub(super) fn check_restored(data_dir: &Path) -> Result<(), Error> {
    match data_dir.join(MARKER).symlink_metadata() {
        Ok(_) => Err(Error::UnfinishedRestore { folder: data_dir.to_owned() }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(error) => Err(Error::file(data_dir, error)),
    }
}

/// A folder that is being restored. Dropping this leaves the folder marked.
#[derive(Debug)]
pub(super) struct MarkedFolder {
    path: PathBuf,
    /// Locked, so that only one restore uses the folder.
    _marker: File,
}

impl MarkedFolder {
    /// Creates the folder if necessary and marks it. Refuses a folder that contains anything but the remains of an
    /// interrupted restore, and removes these.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let is_interrupted = check_restored(path).is_err();
        let marked = mark(path, is_interrupted).map_err(|error| Error::file(path, error))?;
        if is_interrupted {
            marked.remove_remains()?;
        }
        Ok(marked)
    }

    /// Removes the marker; everything else must be durable. Once this returns, servers accept the folder.
    pub(super) fn finish(self) -> Result<(), Error> {
        let finish = || {
            sync_folder(&self.path)?;
            sync_folder(parent_of(&self.path))?;
            fs::remove_file(self.path.join(MARKER))?;
            sync_folder(&self.path)
        };
        finish().map_err(|error| Error::file(&self.path, error))
    }

    fn remove_remains(&self) -> Result<(), Error> {
        let pki = self.path.join(PKI_FOLDER);
        match fs::remove_dir_all(&pki) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file(&pki, error)),
            _ => {}
        }
        let store = self.path.join(STORE_FOLDER);
        // The lock refuses the store of a running process.
        let folder = Folder::open(&store)?;
        let names = folder.names().map_err(|error| Error::file(&store, error))?;
        let removed = names.iter().try_for_each(|name| folder.remove(name));
        removed.and_then(|()| folder.sync_names()).map_err(|error| Error::file(&store, error))
    }
}

/// Writes the marker, or locks the one that is there.
fn mark(path: &Path, is_interrupted: bool) -> io::Result<MarkedFolder> {
    let file = path.join(MARKER);
    if !is_interrupted {
        refuse_unless_empty(path)?;
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    }
    let marker = OpenOptions::new().write(true).create_new(!is_interrupted).mode(FILE_MODE).open(&file)?;
    match marker.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(io::Error::other(IN_PROGRESS)),
        // A network file system may have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    if is_interrupted {
        // The restore that held the lock may just have finished: what is there is then no remainder.
        file.symlink_metadata()?;
    } else {
        refuse_unless_empty(path).inspect_err(|_| drop(fs::remove_file(&file)))?;
        sync_folder(path)?;
    }
    Ok(MarkedFolder { path: path.to_owned(), _marker: marker })
}

/// Refuses a folder that contains anything but the marker.
fn refuse_unless_empty(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        if entry?.file_name() != MARKER {
            return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        }
    }
    Ok(())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
