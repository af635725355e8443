//! Places a volume at the path that a container asks for: its launcher mounts it there, or a link in its home leads to
//! it.
//!
//! **Invariant:** nothing is created outside the home, even if the container put links there. The launcher is
//! responsible for what it creates itself.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::VolumeMount;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::environment::config_error;
use super::pod_folders;
use super::status::StartRefusal;
use crate::node::NodeShared;
use crate::node::supervisor::protocol::{Mount, MountOrigin};
use crate::node::supervisor::safe_path;

/// The file or folder that is mounted or linked.
pub(crate) struct MountSource {
    /// Its path on the machine.
    pub(crate) path: PathBuf,
    /// The requested part of it.
    pub(crate) part: PathBuf,
    /// The path at which the container finds that part without a mount.
    pub(crate) seen: PathBuf,
    pub(crate) is_read_only: bool,
    pub(crate) origin: MountOrigin,
}

impl MountSource {
    /// Returns a mount of it at this path.
    pub(crate) fn at(self, target: PathBuf) -> Mount {
        Mount {
            source: self.path,
            part: self.part,
            target,
            is_read_only: self.is_read_only,
            origin: self.origin,
        }
    }
}

/// Places the volume. Returns the mount for the launcher to perform, or only to create if it is a path on the machine.
pub(crate) fn place_volume(
    shared: &NodeShared,
    folders: &pod_folders::VisiblePodFolders,
    mount: &VolumeMount,
    source: MountSource,
) -> Result<Option<Mount>, StartRefusal> {
    let failed = |error: io::Error| config_error(format!("cannot place volume {}: {error}", mount.name));
    let path = normalize(&mount.mount_path).map_err(failed)?;
    if path.as_os_str().is_empty() {
        return Err(config_error(format!(
            "volume {} cannot be mounted at {}: choose a path below it",
            mount.name, mount.mount_path
        )));
    }
    if shared.has_namespaces && mount.mount_path.starts_with('/') {
        return Ok(Some(source.at(Path::new("/").join(path))));
    }
    make_link(&source.seen, &folders.folder, &path).map_err(failed)?;
    Ok((source.origin != MountOrigin::Pod).then(|| source.at(PathBuf::new())))
}

/// Returns the path relative to its root, without `.` and `..`.
pub(crate) fn normalize(path: &str) -> io::Result<PathBuf> {
    let (mut clean, whole) = (PathBuf::new(), Path::new(path));
    for component in whole.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            // The folder above the root is the root.
            Component::ParentDir if clean.pop() || whole.is_absolute() => {}
            Component::ParentDir => return Err(io::Error::other(format!("{path} leads out of the volume"))),
            _ => {}
        }
    }
    Ok(clean)
}

/// Creates a link at a path below a home. Replaces anything there except a folder.
pub(crate) fn make_link(target: &Path, home: &Path, path: &Path) -> io::Result<()> {
    let (folder, name) = safe_path::make_parent_folder(safe_path::open_or_make_folder(home)?, path)?;
    let current = rustix::fs::readlinkat(&folder, name, Vec::new());
    if current.is_ok_and(|current| OsStr::from_bytes(current.as_bytes()) == target) {
        return Ok(());
    }
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::symlinkat(target, &folder, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_detours() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(normalize(path).ok().as_deref(), expected.map(Path::new), "{path}");
        };
        for root in ["/", "/./", "//", "/a/..", "/../..", "", "."] {
            check(root, Some(""));
        }
        check("/a/./b//c/", Some("a/b/c"));
        check("/../a/../b", Some("b"));
        check("a/../b", Some("b"));
        check("../b", None);
        check("a/../../b", None);
    }
}
