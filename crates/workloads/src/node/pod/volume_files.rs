//! Writes the files of volumes whose content comes from the API: ConfigMaps, Secrets, the downward API, tokens.
//!
//! **Invariant:** a file is replaced as a whole, by a rename, so a container sees either the old or the new one. Links
//! that a container put there are never followed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use crate::node::supervisor::safe_path;

/// The temporary name of a file that is being written.
const FRESH: &str = "..fresh";

/// Files by path.
pub(super) type VolumeFiles = BTreeMap<String, FileContent>;

/// A file's content, with its own mode and owner if it has them.
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: Option<u32>,
    /// The owner, if it is not the node's user.
    pub(super) owner: Option<u32>,
}

impl From<Vec<u8>> for FileContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: None, owner: None }
    }
}

/// How to write files that have no mode or owner of their own.
pub(super) struct FileDefaults {
    pub(super) mode: u32,
    /// The owner, if it is not the node's user.
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    /// Whether the group may read them, regardless of their mode.
    pub(super) is_groups: bool,
}

/// The desired state of a file.
struct WantedFile<'a> {
    bytes: &'a [u8],
    mode: u32,
    /// The owner and group, if they are not the node's.
    owner: Option<u32>,
    group: Option<u32>,
}

/// Makes the folder contain exactly these files. Each is replaced as a whole, and only if it differs.
pub(super) fn write_files(folder: &OwnedFd, files: &VolumeFiles, defaults: &FileDefaults) -> io::Result<()> {
    /// The permission for the group to read.
    const OF_GROUP: u32 = 0o440;
    for (path, content) in files {
        let (parent, name) = safe_path::make_parent_folder(folder, Path::new(path))?;
        let mode = content.mode.unwrap_or(defaults.mode) | if defaults.is_groups { OF_GROUP } else { 0 };
        let owner = content.owner.or(defaults.owner);
        let file = WantedFile { bytes: &content.bytes, mode, owner, group: defaults.group };
        if !is_written(&parent, name, &file) {
            write_fresh(folder, &file)?;
            rustix::fs::renameat(folder, FRESH, &parent, name)?;
        }
    }
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let is_wanted = files.keys().any(|path| Path::new(path).starts_with(name));
        if !is_wanted && is_file(folder, name) {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn is_file(folder: &OwnedFd, name: &OsStr) -> bool {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Returns whether the file already has this content.
fn is_written(folder: &OwnedFd, name: &OsStr, wanted: &WantedFile<'_>) -> bool {
    /// The bits of a mode without the file's type.
    const MODE_BITS: u32 = 0o7777;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return false };
    let mut file = fs::File::from(file);
    let is_so = |meta: fs::Metadata| {
        let has_mode = meta.permissions().mode() & MODE_BITS == wanted.mode & MODE_BITS;
        meta.is_file() && has_mode && wanted.owner.is_none_or(|owner| meta.uid() == owner)
    };
    let mut current = Vec::new();
    file.metadata().is_ok_and(is_so) && file.read_to_end(&mut current).is_ok() && current == wanted.bytes
}

/// Writes a new file next to those in use.
fn write_fresh(folder: &OwnedFd, wanted: &WantedFile<'_>) -> io::Result<()> {
    // Removes a leftover file; if that fails, the next line reports it.
    let _ = rustix::fs::unlinkat(folder, FRESH, AtFlags::empty());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::openat(folder, FRESH, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(wanted.bytes)?;
    // The owner is set before the mode, because changing it may clear some mode bits.
    if wanted.owner.is_some() || wanted.group.is_some() {
        rustix::fs::fchown(&file, wanted.owner.map(Uid::from_raw), wanted.group.map(Gid::from_raw))?;
    }
    file.set_permissions(fs::Permissions::from_mode(wanted.mode))
}
