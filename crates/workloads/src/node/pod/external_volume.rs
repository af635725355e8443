//! Opens volumes that are not the Pod's own: paths on the machine, and claimed volumes.

use std::io;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use rustix::fs::Mode;

use super::environment::config_error;
use super::status::StartRefusal;
use super::value_sources::ValueSources;
use super::volumes::{FolderMode, PreparedVolume, VolumeLocation, grant_access};
use crate::node::NodeShared;
use crate::node::storage;
use crate::node::supervisor::protocol::MountOrigin;
use crate::node::supervisor::{host_path, safe_path};

/// A volume that is not the Pod's own.
pub(super) enum ExternalVolume {
    /// A folder or file on the machine.
    Host(HostPathVolumeSource),
    /// One of the node's folders.
    Claimed(PathBuf),
}

impl ExternalVolume {
    /// Opens it, and gives the Pod's group access to a claimed one. A path on the machine is only checked: the launcher
    /// creates it with the permissions of the container's user.
    pub(super) fn open(self, shared: &NodeShared, group: Option<u32>) -> io::Result<PreparedVolume> {
        match self {
            Self::Host(host) => {
                let (path, kind) = (PathBuf::from(&host.path), host.type_.unwrap_or_default());
                if !kind.ends_with("OrCreate") {
                    host_path::check_kind(&path, &kind)?;
                }
                Ok(PreparedVolume {
                    path,
                    folder: None,
                    origin: MountOrigin::Machine(kind),
                    inside: VolumeLocation::Elsewhere,
                })
            }
            Self::Claimed(path) => {
                let folder = safe_path::open_or_make_folder(&path)?;
                grant_access(&folder, FolderMode::Unchanged, group)?;
                if shared.blocks.is_some() && !shared.has_namespaces {
                    close_to_others(&folder)?;
                }
                let inside =
                    if shared.has_namespaces { VolumeLocation::Mounted } else { VolumeLocation::Elsewhere };
                Ok(PreparedVolume { path, folder: Some(folder), origin: MountOrigin::Pod, inside })
            }
        }
    }

    /// Finds the volume, if it is not one of the Pod's own.
    pub(super) fn find(
        shared: &NodeShared,
        pod: &Pod,
        volume: &Volume,
        sources: &dyn ValueSources,
    ) -> Result<Option<Self>, StartRefusal> {
        if let Some(host) = &volume.host_path {
            return Ok(Some(Self::Host(host.clone())));
        }
        let Some(claim) = storage::claim_name(pod, volume) else { return Ok(None) };
        let claimed = sources.claimed_volume(volume, &claim)?;
        let name = claimed.metadata.name.as_deref().unwrap_or_default();
        if storage::is_ours(&claimed) {
            return Ok(Some(Self::Claimed(shared.layout.claim(name))));
        }
        let spec = claimed.spec.as_ref();
        let local = spec.and_then(|spec| spec.local.as_ref()).map(|local| local.path.clone());
        let host = local.map(|path| HostPathVolumeSource { path, type_: None });
        let host = host.or_else(|| spec.and_then(|spec| spec.host_path.clone()));
        let host = host.ok_or_else(|| {
            let message = format!("this node does not support the type of persistentvolume \"{name}\"");
            config_error(format!(
                "{message}: use hostPath or local, or a claim with the storage class standard"
            ))
        })?;
        Ok(Some(Self::Host(host)))
    }
}

/// Closes a claim's folder to everyone except the claim's group, for Pods that reach it by its path.
fn close_to_others(folder: &std::os::fd::OwnedFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    if mode.intersects(Mode::RWXO) {
        rustix::fs::fchmod(folder, mode.difference(Mode::RWXO) | Mode::RWXG)?;
    }
    Ok(())
}
