//! Removes a folder with everything in it, regardless of what containers did to it.
//!
//! A user other than root cannot empty a folder that a container made read-only (mode 555 or 000, as Go's module cache
//! does) before changing its mode. **Invariant:** only folders below the one to remove, and only those of this user,
//! are made writable. No link is followed, not even one that replaces a folder in the meantime. Other users' files stay
//! and cause an error.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, Stat};

use super::supervisor::safe_path::OPEN_FOLDER;
use super::supervisor::system;

/// Removes a folder with everything in it, even what its owner has made read-only. A missing folder is not an error.
///
/// # Errors
/// Fails if something in it cannot be removed; the error names the folder.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    let removed = fs::remove_dir_all(folder).or_else(|error| {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Err(error);
        }
        make_all_writable(folder);
        fs::remove_dir_all(folder)
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("cannot remove {}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Makes each of our folders writable, as far as possible: one that stays closed causes an error when it is removed.
fn make_all_writable(folder: &Path) {
    // From the folder to remove down to the one being read: one descriptor per level, no matter how many folders there
    // are.
    let mut passed: Vec<Dir> = enter(CWD, folder.as_os_str().as_bytes()).into_iter().collect();
    while let Some(here) = passed.last_mut() {
        let Some(entry) = here.next() else {
            passed.pop();
            continue;
        };
        let below = entry.ok().and_then(|entry| folder_in(here, entry.file_name(), entry.file_type()));
        passed.extend(below);
    }
}

fn folder_in(here: &Dir, name: &CStr, kind: FileType) -> Option<Dir> {
    let may_be_folder = matches!(kind, FileType::Directory | FileType::Unknown);
    let is_another = name != c"." && name != c"..";
    (may_be_folder && is_another).then(|| enter(here.fd().ok()?, name.to_bytes()).ok()).flatten()
}

/// Makes the folder with this name writable, and reads it.
fn enter(here: BorrowedFd<'_>, name: &[u8]) -> io::Result<Dir> {
    system::change_mode(here, name, writable_mode)?;
    Ok(Dir::new(rustix::fs::openat(here, name, OPEN_FOLDER, Mode::empty())?)?)
}

/// Returns the mode with which its owner can empty a folder, if the folder is ours and has a different mode.
fn writable_mode(stat: &Stat) -> Option<Mode> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
    (is_ours && !mode.contains(Mode::RWXU)).then_some(mode | Mode::RWXU)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

    use super::*;

    /// A user who owns nothing.
    const NOBODY: u32 = 65_534;

    /// Runs `act` as an ordinary user who owns the folder, because no mode stops root. Only one thread changes its
    /// user.
    fn as_ordinary_user(act: impl FnOnce(&Path) + Send) {
        let folder = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let work = || {
            if is_root {
                let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
                set_thread_res_gid(group, group, group).unwrap();
                set_thread_res_uid(user, user, user).unwrap();
            }
            act(folder.path());
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    fn close(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_that_were_closed_go_and_links_are_not_followed() {
        as_ordinary_user(|folder| {
            let (gone, stays) = (folder.join("gone"), folder.join("stays"));
            fs::create_dir_all(gone.join("shut/in/deep")).unwrap();
            fs::create_dir(&stays).unwrap();
            fs::write(gone.join("shut/in/deep/file"), "").unwrap();
            symlink(&stays, gone.join("shut/link")).unwrap();
            for (closed, mode) in [("shut/in/deep", 0o555), ("shut/in", 0), ("shut", 0o555), ("", 0)] {
                close(&gone.join(closed), mode);
            }
            close(&stays, 0o500);
            let error = fs::remove_dir_all(&gone).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "else this tests nothing");
            remove_folder(&gone).unwrap();
            assert!(!gone.exists());
            assert_eq!(fs::metadata(&stays).unwrap().mode() & 0o777, 0o500);
            remove_folder(&gone).expect("what is not there is removed already");
        });
    }

    #[test]
    fn what_cannot_be_removed_is_named() {
        as_ordinary_user(|folder| {
            let inner = folder.join("outer/inner");
            fs::create_dir_all(&inner).unwrap();
            close(&folder.join("outer"), 0o555);
            let message = remove_folder(&inner).unwrap_err().to_string();
            assert!(message.starts_with(&format!("cannot remove {}: ", inner.display())), "{message}");
            remove_folder(&folder.join("outer")).unwrap();
        });
    }
}
