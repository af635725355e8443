//! Volumes that are not the Pod's own: paths of the machine, and volumes it claimed.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};

use super::environment::config_error;
use super::sources::Sources;
use super::status::Refusal;
use super::volumes::{Filled, open_up};
use crate::node::Ground;
use crate::node::keeper::walk;
use crate::node::storage;

/// A volume that is not the Pod's own.
pub(super) enum Outside {
    /// A folder or file of the machine.
    Host(HostPathVolumeSource),
    /// A folder of the node.
    Claimed(PathBuf),
}

impl Outside {
    /// Opens it; a claimed one also to the Pod's group.
    pub(super) fn open(self, group: Option<u32>) -> io::Result<Filled> {
        let (path, is_own) = match self {
            Self::Host(host) => (host_path(&host)?, false),
            Self::Claimed(path) => (path, true),
        };
        let folder = if is_own { walk::own_folder(&path)? } else { walk::look(&path, true)? };
        if is_own {
            open_up(&folder, false, group)?;
        }
        Ok(Filled { path, folder, is_own, is_inside: false })
    }
    /// Where the volume is, if not among the Pod's own.
    pub(super) fn of(
        ground: &Ground,
        pod: &Pod,
        volume: &Volume,
        sources: &dyn Sources,
    ) -> Result<Option<Self>, Refusal> {
        if let Some(host) = &volume.host_path {
            return Ok(Some(Self::Host(host.clone())));
        }
        let Some(claim) = storage::claim_name(pod, volume) else { return Ok(None) };
        let claimed = sources.claimed(&claim, volume.ephemeral.is_some())?;
        let name = claimed.metadata.name.as_deref().unwrap_or_default();
        if storage::is_ours(&claimed) {
            return Ok(Some(Self::Claimed(ground.layout.claim(name))));
        }
        let spec = claimed.spec.as_ref();
        let local = spec.and_then(|spec| spec.local.as_ref()).map(|local| local.path.clone());
        let host = local.map(|path| HostPathVolumeSource { path, type_: None });
        let host = host.or_else(|| spec.and_then(|spec| spec.host_path.clone()));
        let host = host.ok_or_else(|| {
            let message = format!("the persistentvolume \"{name}\" is of a sort this node does not have");
            config_error(format!("{message}: use hostPath or local, or a claim of the class standard"))
        })?;
        Ok(Some(Self::Host(host)))
    }
}

/// A path of the machine, made or checked as its type says.
fn host_path(host: &HostPathVolumeSource) -> io::Result<PathBuf> {
    let path = PathBuf::from(&host.path);
    let kind = host.type_.as_deref().unwrap_or_default();
    match kind {
        "DirectoryOrCreate" => fs::create_dir_all(&path)?,
        "FileOrCreate" if !path.exists() => fs::write(&path, "")?,
        _ => {}
    }
    let is_it: fn(&fs::FileType) -> bool = match kind {
        "" => return Ok(path),
        "Directory" | "DirectoryOrCreate" => fs::FileType::is_dir,
        "File" | "FileOrCreate" => fs::FileType::is_file,
        "Socket" => FileTypeExt::is_socket,
        "CharDevice" => FileTypeExt::is_char_device,
        "BlockDevice" => FileTypeExt::is_block_device,
        _ => return Err(io::Error::other(format!("unknown hostPath type {kind}"))),
    };
    if !fs::metadata(&path).is_ok_and(|meta| is_it(&meta.file_type())) {
        return Err(io::Error::other(format!("hostPath type check failed: {} is not a {kind}", host.path)));
    }
    Ok(path)
}
