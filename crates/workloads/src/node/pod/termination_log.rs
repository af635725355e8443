//! Provides the file for a container's termination message, which the container sees at its `terminationMessagePath`.
//!
//! The usual path is in `/dev`, and the machine's own `/dev` must not be written to. In a mount namespace the file
//! covers the path; otherwise a variable names the file. The supervisor reads it when the container has exited.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use super::environment::config_error;
use super::mount_path;
use super::pod_folders;
use super::status::StartRefusal;
use crate::node::NodeShared;
use crate::node::supervisor::protocol::{ContainerKey, Mount, MountOrigin};

/// Kubernetes' default.
const PATH: &str = "/dev/termination-log";
/// The path at which a container in a mount namespace finds the file if its own path is a link.
const FALLBACK_PATH: &str = "/run/homeostat/termination-log";
/// The variable that names the file for the container.
pub(crate) const VARIABLE: &str = "HOMEOSTAT_TERMINATION_LOG";
/// The policy that uses the end of the log if there is no message.
const OR_LOG: &str = "FallbackToLogsOnError";

/// Returns whether the end of the log replaces a missing message.
pub(crate) fn falls_back_to_log(container: &Container) -> bool {
    container.termination_message_policy.as_deref() == Some(OR_LOG)
}

/// The file, and the path at which the container sees it.
pub(crate) struct TerminationLog {
    file: PathBuf,
    path: String,
    seen: PathBuf,
}

impl TerminationLog {
    pub(crate) fn new(
        shared: &NodeShared,
        pod: &Pod,
        container: &Container,
        folders: &pod_folders::VisiblePodFolders,
    ) -> Self {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let file = shared.layout.message(&ContainerKey { pod: uid, container: container.name.clone() });
        let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
        let path = path.unwrap_or(PATH).to_owned();
        let seen = match (shared.has_namespaces && path.starts_with('/'), folders.is_remapped) {
            (true, _) => PathBuf::from(&path),
            (false, true) => FALLBACK_PATH.into(),
            (false, false) => file.clone(),
        };
        Self { file, path, seen }
    }

    /// Returns the file's path in the container.
    pub(crate) fn path_in_container(&self) -> String {
        self.seen.display().to_string()
    }

    /// Creates the file. Returns the mount for the launcher to perform.
    pub(crate) fn make(
        self,
        shared: &NodeShared,
        folders: &pod_folders::VisiblePodFolders,
    ) -> Result<Option<Mount>, StartRefusal> {
        let failed = |error: io::Error| config_error(format!("cannot make {}: {error}", self.file.display()));
        make_file(&self.file).map_err(failed)?;
        let mount = VolumeMount {
            name: "termination-log".to_owned(),
            mount_path: self.path,
            ..VolumeMount::default()
        };
        let source = |seen: PathBuf| mount_path::MountSource {
            path: self.file.clone(),
            part: PathBuf::new(),
            seen,
            is_read_only: false,
            origin: MountOrigin::Pod,
        };
        let is_at_fallback = self.seen == Path::new(FALLBACK_PATH);
        let placed = mount_path::place_volume(shared, folders, &mount, source(self.seen.clone()))?;
        Ok(placed.or_else(|| is_at_fallback.then(|| source(PathBuf::new()).at(FALLBACK_PATH.into()))))
    }
}

/// Creates the file, writable by any user of the Pod; the folders above are closed to everyone else. An existing file
/// stays, even a link that the container put in its place: the reader does not follow it.
fn make_file(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(made) => made.set_permissions(fs::Permissions::from_mode(0o666)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("main/words"), folder.path().join("elsewhere"));
        make_file(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o666);
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        make_file(&file).unwrap();
        assert!(!elsewhere.exists());
    }
}
