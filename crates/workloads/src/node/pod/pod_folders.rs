//! Determines where a container finds the Pod's own folders.
//!
//! In a mount namespace the node's folder is hidden, and the Pod's home and volumes are mounted at paths that everyone
//! can reach. Without one they stay where they are; if the Pod's user is not the node's user, only the Pod's group may
//! traverse the folders above.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use rustix::fs::{Gid, Uid};

use super::change_owner;
use super::container_identity::{ContainerIdentity, PodIdentities};
use super::environment::config_error;
use super::status::StartRefusal;
use crate::node::NodeShared;
use crate::node::supervisor::protocol::{Mount, MountOrigin};
use crate::node::supervisor::safe_path;

/// The path at which a container in a mount namespace finds the Pod's own folder. Containers see a view of `/run`
/// anyway, so this path costs nothing extra.
const HOME: &str = "/run/homeostat/home";
/// The path at which it finds the volumes that it mounts.
const VOLUMES: &str = "/run/homeostat/volumes";

/// The Pod's folders as a container sees them.
pub(crate) struct VisiblePodFolders {
    /// The home's path on the machine.
    pub(crate) folder: PathBuf,
    /// Whether the container sees the folders at different paths from the machine's.
    pub(crate) is_remapped: bool,
    pub(crate) home: PathBuf,
    pub(crate) volumes: PathBuf,
    pub(crate) mounts: Vec<Mount>,
}

impl VisiblePodFolders {
    /// Creates the Pod's folders for this container. If the containers of a Pod run as several users, each has its own
    /// home.
    pub(crate) fn make(
        shared: &NodeShared,
        identities: &PodIdentities<'_>,
        container: &Container,
        identity: &ContainerIdentity,
    ) -> Result<Self, StartRefusal> {
        let uid = identities.pod.metadata.uid.as_deref().unwrap_or_default();
        let folder = match identity.machine_user {
            Some(user) if identities.only_user().is_err() => shared.layout.home(uid, user),
            _ => shared.layout.work(uid),
        };
        let volumes = shared.layout.volumes(uid);
        make_folder(&volumes)?;
        give_to_user(&make_folder(&folder)?, identity).map_err(|error| cannot_make(&folder, &error))?;
        if !shared.has_namespaces {
            return Ok(Self {
                home: folder.clone(),
                folder,
                volumes,
                is_remapped: false,
                mounts: Vec::new(),
            });
        }
        let context = container.security_context.as_ref();
        let is_closed = context.and_then(|context| context.read_only_root_filesystem) == Some(true);
        // The home takes the place of the container's own files. Volumes are mounted one by one, each with the
        // container's access.
        let home = Mount {
            source: folder.clone(),
            part: PathBuf::new(),
            target: HOME.into(),
            is_read_only: is_closed,
            origin: MountOrigin::Pod,
        };
        Ok(Self { folder, home: HOME.into(), volumes: VOLUMES.into(), is_remapped: true, mounts: vec![home] })
    }
}

/// Transfers a home and everything in it to its user: the Pod may have had a different user before a reboot, or run as
/// root under an earlier release.
fn give_to_user(home: &OwnedFd, identity: &ContainerIdentity) -> io::Result<()> {
    let Some(user) = identity.machine_user else { return Ok(()) };
    let before = rustix::fs::fstat(home)?.st_uid;
    if before == user {
        return Ok(());
    }
    change_owner::change_owner(home, |id| (id == before).then_some(user))?;
    Ok(rustix::fs::fchown(home, Some(Uid::from_raw(user)), identity.machine_group.map(Gid::from_raw))?)
}

fn make_folder(folder: &Path) -> Result<OwnedFd, StartRefusal> {
    safe_path::open_or_make_folder(folder).map_err(|error| cannot_make(folder, &error))
}

fn cannot_make(folder: &Path, error: &io::Error) -> StartRefusal {
    config_error(format!("cannot make {}: {error}", folder.display()))
}
