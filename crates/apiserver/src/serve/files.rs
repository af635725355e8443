//! Writes files that only their owner may read, as a whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::Error;

/// Only the owner may read and write.
const FILE_MODE: u32 = 0o600;
/// Only the owner may enter.
const FOLDER_MODE: u32 = 0o700;

/// Writes the file under a temporary name, makes it durable, and moves it into place; creates missing folders. A file
/// that already has these contents is not written, so that starting the server needs no disk space.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> Result<(), Error> {
    if is_private(path) && fs::read(path).is_ok_and(|found| found == contents) {
        return Ok(());
    }
    let failed = |source| Error::File { path: path.into(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_private_folder(folder)?;
    let fresh = temporary_path(path);
    write_fresh(&fresh, contents)
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| File::open(folder)?.sync_all())
        .inspect_err(|_| drop(fs::remove_file(&fresh)))
        .map_err(failed)
}

/// Removes other users' permissions on an existing file. Refuses a folder or a pipe.
pub(crate) fn close_to_others(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    if !found.is_file() {
        return Err(failed(io::Error::other("it is not a file")));
    }
    if (found.permissions().mode() & 0o777) | FILE_MODE == FILE_MODE {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(FILE_MODE)).map_err(failed)
}

/// Returns whether this is a regular file that other users cannot access.
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o777 == FILE_MODE)
}

/// Creates the folder and its missing parents, inaccessible to other users. An existing folder is left unchanged.
pub(crate) fn create_private_folder(folder: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)
        .map_err(|source| Error::File { path: folder.into(), source })
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_fresh(path: &Path, contents: &[u8]) -> io::Result<()> {
    // A file left by a crash under the same process id may have any mode: so it is removed first.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_replaced_whole_and_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/file");
        for contents in ["first", "second"] {
            write_private(&path, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), FILE_MODE);
        assert_eq!(mode(path.parent().unwrap()), FOLDER_MODE);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn permissions_of_others_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        close_to_others(&path).expect("a missing file is not an error");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        close_to_others(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
        assert!(close_to_others(folder.path()).is_err());
    }

    #[test]
    fn an_unchanged_file_is_not_rewritten_unless_others_can_read_it() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = || {
            write_private(&path, b"same").unwrap();
            fs::symlink_metadata(&path).unwrap()
        };
        let first = write();
        assert_eq!(write().ino(), first.ino());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(write().mode() & 0o777, FILE_MODE);
        let other = folder.path().join("other");
        fs::rename(&path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(write().is_file(), "what another name leads to is not ours");
    }
}
