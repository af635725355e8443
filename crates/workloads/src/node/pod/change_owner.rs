//! Changes the owner of everything in a folder, because a claim's files outlive the Pods that wrote them.
//!
//! **Invariant:** only files in the folder change owner, never the target of a symlink. A file with a second hard link
//! elsewhere changes owner only if it belongs to a Pod's user, so that a Pod cannot take over one of the machine's
//! files by linking to it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, Stat, Uid};

use crate::node::id_blocks::is_reserved;
use crate::node::supervisor::safe_path::OPEN_FOLDER;

/// Changes the owner of the folder and everything in it: `new_owner` maps the ID of a user or group to the new ID, if
/// any.
pub(super) fn change_owner(folder: &OwnedFd, new_owner: impl Fn(u32) -> Option<u32>) -> io::Result<()> {
    let mut folders = vec![rustix::fs::openat(folder, c".", OPEN_FOLDER, Mode::empty())?];
    change_one(folder, c"", AtFlags::EMPTY_PATH, &new_owner)?;
    while let Some(here) = folders.pop() {
        for entry in Dir::read_from(&here)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = change_one(&here, name, AtFlags::SYMLINK_NOFOLLOW, &new_owner)?;
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                folders.push(rustix::fs::openat(&here, name, OPEN_FOLDER, Mode::empty())?);
            }
        }
    }
    Ok(())
}

fn change_one(
    at: impl AsFd,
    name: &CStr,
    flags: AtFlags,
    new_owner: impl Fn(u32) -> Option<u32>,
) -> io::Result<Stat> {
    let stat = rustix::fs::statat(&at, name, flags)?;
    let is_shared = stat.st_nlink > 1 && !FileType::from_raw_mode(stat.st_mode).is_dir();
    if is_shared && !is_reserved(stat.st_uid) {
        return Ok(stat);
    }
    let (user, group) = (new_owner(stat.st_uid), new_owner(stat.st_gid));
    if user.is_some() || group.is_some() {
        rustix::fs::chownat(&at, name, user.map(Uid::from_raw), group.map(Gid::from_raw), flags)?;
    }
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};

    use super::*;
    use crate::node::supervisor::safe_path::open_or_make_folder;

    /// The user of a Pod that is gone.
    const BEFORE: u32 = 0x7000_0001;

    #[test]
    fn all_in_a_folder_is_given_and_nothing_else() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let (folder, outside) = (root.path().join("folder"), root.path().join("outside"));
        fs::create_dir_all(folder.join("deep/er")).unwrap();
        for file in ["deep/er/file", "own", "stranger"] {
            fs::write(folder.join(file), "").unwrap();
        }
        fs::write(&outside, "").unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        fs::hard_link(&outside, folder.join("second name")).unwrap();
        for path in ["deep", "deep/er", "deep/er/file", "own"] {
            chown(folder.join(path), Some(BEFORE), Some(BEFORE)).unwrap();
        }
        lchown(folder.join("link"), Some(BEFORE), Some(BEFORE)).unwrap();
        chown(folder.join("stranger"), Some(7), Some(BEFORE)).unwrap();
        change_owner(&open_or_make_folder(&folder).unwrap(), |id| matches!(id, 0 | BEFORE).then_some(42))
            .unwrap();
        let owners = |path: &std::path::Path| {
            let meta = fs::symlink_metadata(path).unwrap();
            (meta.uid(), meta.gid())
        };
        for path in ["", "deep", "deep/er", "deep/er/file", "own", "link"] {
            assert_eq!(owners(&folder.join(path)), (42, 42), "{path}");
        }
        assert_eq!(owners(&folder.join("stranger")), (7, 42));
        assert_eq!(owners(&outside), (0, 0), "neither by a link nor by a second name");
    }
}
