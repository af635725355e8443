//! Creates or checks the paths on the machine that a Pod requests (`hostPath`), as their type requires.
//!
//! The launcher does all of this as the container's user. **Invariant:** a Pod reaches, creates and sees only those
//! files on the machine that its user may access, even if the node is root.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use super::safe_path::{self, FinalLink, ResolvedPath};

/// Opens a part of a path on the machine, and creates both if the type says so.
pub(super) fn open(path: &Path, kind: &str, part: &Path) -> io::Result<OwnedFd> {
    make(path, kind)?;
    check_kind(path, kind)?;
    let ResolvedPath { at, missing } =
        safe_path::resolve_beneath(safe_path::open_path(path, FinalLink::Follow)?, part)?;
    safe_path::make_folders(at, &missing, safe_path::make_passable)
}

fn make(path: &Path, kind: &str) -> io::Result<()> {
    match kind {
        "DirectoryOrCreate" => fs::create_dir_all(path),
        "FileOrCreate" if !path.exists() => fs::write(path, ""),
        _ => Ok(()),
    }
}

/// Checks that the path is of that type.
pub(crate) fn check_kind(path: &Path, kind: &str) -> io::Result<()> {
    let is_it: fn(&fs::FileType) -> bool = match kind {
        "" => return Ok(()),
        "Directory" | "DirectoryOrCreate" => fs::FileType::is_dir,
        "File" | "FileOrCreate" => fs::FileType::is_file,
        "Socket" => |kind| kind.is_socket(),
        "CharDevice" => |kind| kind.is_char_device(),
        "BlockDevice" => |kind| kind.is_block_device(),
        _ => return Err(io::Error::other(format!("unknown hostPath type {kind}"))),
    };
    if fs::metadata(path).is_ok_and(|meta| is_it(&meta.file_type())) {
        return Ok(());
    }
    Err(io::Error::other(format!("hostPath type check failed: {} is not a {kind}", path.display())))
}
