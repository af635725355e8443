//! Prepares volumes as folders of the Pod.
//!
//! Every volume is a folder below the Pod's own, or a link there to an [`ExternalVolume`]. If a container wants it
//! elsewhere on the machine, the container sees it there in its own mount namespace, if the system offers one. Without
//! one, a `mountPath` is reached as `$HOME` + `mountPath` and as `$HOMEOSTAT_VOLUMES/NAME`, and the Pod's events say
//! so: the host's own files are never touched.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, KeyToPath, Pod,
    ProjectedVolumeSource, Secret, Volume, VolumeMount,
};
use rustix::fs::{Gid, Mode, Uid};

use super::container_identity::PodIdentities;
use super::downward_api;
use super::environment::{Environment, config_error, require_object};
use super::expand_variables::expand;
use super::external_volume::ExternalVolume;
use super::mount_path;
use super::pod_folders::VisiblePodFolders;
use super::service_account;
use super::status::StartRefusal;
use super::value_sources::ValueSources;
use super::volume_files::{FileContent, FileDefaults, VolumeFiles, write_files};
use crate::node::NodeShared;
use crate::node::service_account_tokens::TokenSpec;
use crate::node::supervisor::protocol::{Mount, MountOrigin};
use crate::node::supervisor::safe_path;

/// The settings that a container's volumes depend on, apart from its declaration.
pub(crate) struct VolumeSettings<'a> {
    pub(crate) sources: &'a dyn ValueSources,
    pub(crate) environment: &'a Environment,
    pub(crate) folders: &'a VisiblePodFolders,
}

/// Prepares the volumes that this container mounts. Returns the mounts for its launcher to perform.
pub(crate) fn prepare_volumes(
    shared: &NodeShared,
    identities: &PodIdentities<'_>,
    container: &Container,
    settings: &VolumeSettings<'_>,
) -> Result<Vec<Mount>, StartRefusal> {
    let &VolumeSettings { sources, environment, folders } = settings;
    let spec = identities.pod.spec.as_ref();
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = spec.and_then(|spec| spec.volumes.iter().flatten().find(|one| one.name == mount.name));
        let volume = volume.ok_or_else(|| config_error(format!("volume {} does not exist", mount.name)))?;
        let filled = prepare_volume(shared, identities, volume, sources)?;
        let part = sub_path(mount, environment)?;
        if let Some(folder) = &filled.folder {
            make_part(folder, &part, identities)
                .map_err(|error| config_error(format!("subPath {part} of volume {}: {error}", mount.name)))?;
        }
        let is_closed =
            volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.read_only == Some(true));
        let is_only_read =
            |mount: &VolumeMount| mount.read_only == Some(true) || is_closed || comes_from_api(volume);
        let is_read_only = is_only_read(mount);
        let PreparedVolume { path, origin, inside, .. } = filled;
        let among_others = folders.volumes.join(&volume.name);
        let mut all = container.volume_mounts.iter().flatten().filter(|one| one.name == mount.name);
        let whole = folders.is_remapped.then(|| Mount {
            source: path.clone(),
            part: PathBuf::new(),
            target: among_others.clone(),
            // It is read-only, so that it cannot be used to bypass a read-only mount.
            is_read_only: all.all(is_only_read),
            origin: origin.clone(),
        });
        let mut seen = if inside == VolumeLocation::Elsewhere { path.clone() } else { among_others };
        seen.extend(Path::new(&part).components().filter(|part| matches!(part, Component::Normal(_))));
        let source = mount_path::MountSource { path, part: part.into(), seen, is_read_only, origin };
        mounts.extend(mount_path::place_volume(shared, folders, mount, source)?);
        // This comes after the requested path, so that an error names that path.
        mounts.extend(whole.filter(|whole| !mounts.contains(whole)));
    }
    Ok(mounts)
}

/// Creates the requested part of a volume as a folder with the permissions of the whole, unless something already
/// exists there.
fn make_part(folder: &OwnedFd, part: &str, identities: &PodIdentities<'_>) -> io::Result<()> {
    let reached = safe_path::resolve_beneath(folder, Path::new(part))?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    safe_path::make_folders(reached.at, &reached.missing, |made| {
        give_to_pod(made, identities)?;
        Ok(rustix::fs::fchmod(made, mode)?)
    })?;
    Ok(())
}

/// Gives a new file or folder to the Pod's user, if the Pod has its own.
fn give_to_pod(made: impl AsFd, identities: &PodIdentities<'_>) -> io::Result<()> {
    let group = identities.volume_group().or_else(|| identities.owning_group());
    let (user, group) = (identities.owner().map(Uid::from_raw), group.map(Gid::from_raw));
    if user.is_some() { Ok(rustix::fs::fchown(made, user, group)?) } else { Ok(()) }
}

/// Updates existing volumes: ConfigMaps and Secrets change under running containers.
pub(crate) fn refresh(shared: &NodeShared, identities: &PodIdentities<'_>, sources: &dyn ValueSources) {
    let uid = identities.pod.metadata.uid.as_deref().unwrap_or_default();
    let volumes = identities.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    for volume in volumes
        .filter(|volume| comes_from_api(volume) && shared.layout.volumes(uid).join(&volume.name).exists())
    {
        // A volume whose source is gone keeps its files, as in Kubernetes.
        let _ = prepare_volume(shared, identities, volume, sources);
    }
}

/// A prepared volume: its path, and the folder itself if the node created it.
pub(super) struct PreparedVolume {
    pub(super) path: PathBuf,
    pub(super) folder: Option<OwnedFd>,
    pub(super) origin: MountOrigin,
    pub(super) inside: VolumeLocation,
}

/// How a volume is reached in the Pod's volume folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeLocation {
    /// It is there.
    Itself,
    /// It is mounted there.
    Mounted,
    /// A link leads to it.
    Elsewhere,
}

/// Prepares a volume's folder and its files.
fn prepare_volume(
    shared: &NodeShared,
    identities: &PodIdentities<'_>,
    volume: &Volume,
    sources: &dyn ValueSources,
) -> Result<PreparedVolume, StartRefusal> {
    let pod = identities.pod;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let failed = |error: io::Error| config_error(format!("cannot make volume {}: {error}", volume.name));
    let group = identities.volume_group();
    let path = shared.layout.volumes(uid).join(&volume.name);
    if let Some(outside) = ExternalVolume::find(shared, pod, volume, sources)? {
        let filled = outside.open(shared, group).map_err(failed)?;
        match filled.inside {
            VolumeLocation::Elsewhere => {
                mount_path::make_link(&filled.path, &shared.layout.volumes(uid), Path::new(&volume.name))
            }
            VolumeLocation::Itself | VolumeLocation::Mounted => {
                safe_path::open_or_make_folder(&path).map(drop)
            }
        }
        .map_err(failed)?;
        return Ok(filled);
    }
    // Its permissions are opened only once, so that containers' later changes to an empty volume stay.
    let is_new_and_empty = volume.empty_dir.is_some() && !path.exists();
    let folder = safe_path::open_or_make_folder(&path).map_err(failed)?;
    if is_new_and_empty {
        give_to_pod(&folder, identities).map_err(failed)?;
    }
    let mode = if is_new_and_empty { FolderMode::ForEverybody } else { FolderMode::Unchanged };
    grant_access(&folder, mode, group).map_err(failed)?;
    if let Some((mut files, mode)) = volume_files(identities, volume, sources)? {
        let kubeconfig = service_account::kubeconfig(shared, pod, volume);
        files.extend(kubeconfig.map(|text| ("kubeconfig".to_owned(), text.into_bytes().into())));
        let group = group.or_else(|| identities.owning_group());
        write_files(
            &folder,
            &files,
            &FileDefaults {
                mode,
                owner: identities.owner(),
                group,
                is_groups: identities.volume_group().is_some(),
            },
        )
        .map_err(failed)?;
    }
    Ok(PreparedVolume {
        path,
        folder: Some(folder),
        origin: MountOrigin::Pod,
        inside: VolumeLocation::Itself,
    })
}

/// How a volume's mode changes when the Pod's users get access to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FolderMode {
    ForEverybody,
    Unchanged,
}

/// Gives the Pod's users access: all of them if the volume starts empty, as in Kubernetes, because the folder above is
/// closed to everyone else; and its group, which then owns everything created in it.
pub(super) fn grant_access(folder: &OwnedFd, mode: FolderMode, group: Option<u32>) -> io::Result<()> {
    const ALL: u32 = 0o777;
    /// The group may read and enter, and new files inherit it.
    const OF_GROUP: u32 = 0o2050;
    let mut wanted = match mode {
        FolderMode::ForEverybody => ALL,
        FolderMode::Unchanged => rustix::fs::fstat(folder)?.st_mode,
    };
    if let Some(group) = group {
        rustix::fs::fchown(folder, None, Some(Gid::from_raw(group)))?;
        wanted |= OF_GROUP;
    }
    if mode == FolderMode::ForEverybody || group.is_some() {
        rustix::fs::fchmod(folder, Mode::from_raw_mode(wanted))?;
    }
    Ok(())
}

/// Returns whether its content comes from the API, so that containers only read it.
fn comes_from_api(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// Returns the files of a volume whose content comes from the API, and their mode; `None` for a volume that starts
/// empty.
fn volume_files(
    identities: &PodIdentities<'_>,
    volume: &Volume,
    sources: &dyn ValueSources,
) -> Result<Option<(VolumeFiles, u32)>, StartRefusal> {
    /// Kubernetes' default.
    const MODE: u32 = 0o644;
    let mode = |mode: Option<i32>| mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(MODE);
    if let Some(source) = &volume.config_map {
        return Ok(Some((config_map_files(source, sources)?, mode(source.default_mode))));
    }
    if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        let found = require_object(sources.secret(name)?, "secret", name, source.optional)?;
        let all = found.map(|secret| files_of_secret(&secret)).unwrap_or_default();
        return Ok(Some((
            pick_items(all, source.items.as_deref(), source.optional)?,
            mode(source.default_mode),
        )));
    }
    if let Some(source) = &volume.downward_api {
        return Ok(Some((
            downward_files(identities.pod, source.items.as_deref())?,
            mode(source.default_mode),
        )));
    }
    if let Some(source) = &volume.projected {
        return Ok(Some((projected_files(identities, source, sources)?, mode(source.default_mode))));
    }
    if volume.empty_dir.is_some() {
        return Ok(None);
    }
    Err(config_error(format!(
        "volume {} has a type that this node does not support: use emptyDir, configMap, secret, downwardAPI, projected, \
         persistentVolumeClaim, ephemeral or hostPath",
        volume.name
    )))
}

fn config_map_files(
    source: &ConfigMapVolumeSource,
    sources: &dyn ValueSources,
) -> Result<VolumeFiles, StartRefusal> {
    let found =
        require_object(sources.config_map(&source.name)?, "configmap", &source.name, source.optional)?;
    let all = found.map(|map| files_of_config_map(&map)).unwrap_or_default();
    pick_items(all, source.items.as_deref(), source.optional)
}

fn projected_files(
    identities: &PodIdentities<'_>,
    source: &ProjectedVolumeSource,
    sources: &dyn ValueSources,
) -> Result<VolumeFiles, StartRefusal> {
    let mut files = VolumeFiles::new();
    for one in source.sources.iter().flatten() {
        if let Some(map) = &one.config_map {
            let found = require_object(sources.config_map(&map.name)?, "configmap", &map.name, map.optional)?;
            let all = found.map(|map| files_of_config_map(&map)).unwrap_or_default();
            files.extend(pick_items(all, map.items.as_deref(), map.optional)?);
        } else if let Some(secret) = &one.secret {
            let found =
                require_object(sources.secret(&secret.name)?, "secret", &secret.name, secret.optional)?;
            let all = found.map(|secret| files_of_secret(&secret)).unwrap_or_default();
            files.extend(pick_items(all, secret.items.as_deref(), secret.optional)?);
        } else if let Some(downward_api) = &one.downward_api {
            files.extend(downward_files(identities.pod, downward_api.items.as_deref())?);
        } else if let Some(token) = &one.service_account_token {
            let spec = TokenSpec::new(token.audience.as_deref(), token.expiration_seconds);
            files.insert(token.path.clone(), secret_content(identities, sources.token(&spec)?));
        } else if one.cluster_trust_bundle.as_ref().is_none_or(|bundle| bundle.optional != Some(true)) {
            let message = "this node does not support this type of projected source: use configMap, secret, downwardAPI or serviceAccountToken";
            return Err(config_error(message.to_owned()));
        }
    }
    Ok(files)
}

fn files_of_config_map(map: &ConfigMap) -> VolumeFiles {
    let texts =
        map.data.iter().flatten().map(|(name, text)| (name.clone(), text.clone().into_bytes().into()));
    let bytes = map.binary_data.iter().flatten().map(|(name, bytes)| (name.clone(), bytes.0.clone().into()));
    texts.chain(bytes).collect()
}

fn files_of_secret(secret: &Secret) -> VolumeFiles {
    secret.data.iter().flatten().map(|(name, bytes)| (name.clone(), bytes.0.clone().into())).collect()
}

/// Returns a file for the Pod's user only. If its containers run as several users, all may read it: no other user can
/// reach its folder.
fn secret_content(identities: &PodIdentities<'_>, text: String) -> FileContent {
    let bytes = text.into_bytes();
    match identities.only_user() {
        Ok(owner) => FileContent { bytes, mode: Some(0o600), owner },
        Err(()) => FileContent { bytes, mode: Some(0o644), owner: None },
    }
}

/// Picks the named keys, at their paths, if any are named.
fn pick_items(
    mut all: VolumeFiles,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
) -> Result<VolumeFiles, StartRefusal> {
    let Some(items) = items else { return Ok(all) };
    let mut files = VolumeFiles::new();
    for item in items {
        match all.remove(&item.key) {
            Some(content) => {
                files.insert(item.path.clone(), FileContent { mode: own_mode(item.mode), ..content });
            }
            None if optional == Some(true) => {}
            None => return Err(config_error(format!("references non-existent config key: {}", item.key))),
        }
    }
    Ok(files)
}

fn own_mode(mode: Option<i32>) -> Option<u32> {
    mode.and_then(|mode| u32::try_from(mode).ok())
}

fn downward_files(pod: &Pod, items: Option<&[DownwardAPIVolumeFile]>) -> Result<VolumeFiles, StartRefusal> {
    let mut files = VolumeFiles::new();
    for item in items.into_iter().flatten() {
        let field = item.field_ref.as_ref().and_then(|field| downward_api::pod_field(pod, &field.field_path));
        let resource = item.resource_field_ref.as_ref().and_then(|selector| {
            let wanted = selector.container_name.as_deref().unwrap_or_default();
            let mut all = pod.spec.iter().flat_map(|spec| &spec.containers);
            downward_api::resource_field(all.find(|container| container.name == wanted)?, selector)
        });
        let text = field.or(resource);
        let text = text.ok_or_else(|| {
            config_error(format!(
                "cannot write the file {}: this node does not support its source",
                item.path
            ))
        })?;
        let content = FileContent { mode: own_mode(item.mode), ..FileContent::from(text.into_bytes()) };
        files.insert(item.path.clone(), content);
    }
    Ok(files)
}

/// Returns the requested part of the volume; an expression may use only known variables.
fn sub_path(mount: &VolumeMount, environment: &Environment) -> Result<String, StartRefusal> {
    let Some(expression) = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(mount.sub_path.clone().unwrap_or_default());
    };
    let is_known = Cell::new(true);
    let text = expand(expression, |name| {
        let value = environment.get(name).cloned();
        is_known.set(is_known.get() && value.is_some());
        value
    });
    if is_known.get() {
        return Ok(text);
    }
    Err(config_error(format!("subPathExpr {expression} of volume {} names an unknown variable", mount.name)))
}

/// Returns a container's mounts that it does not see at their paths.
pub(crate) fn misplaced_mounts<'a>(
    shared: &NodeShared,
    container: &'a Container,
) -> impl Iterator<Item = &'a VolumeMount> {
    let has_namespaces = shared.has_namespaces;
    let mounts = container.volume_mounts.iter().flatten();
    // The account is found through its variables instead.
    let mounts = mounts.filter(|mount| mount.name != service_account::VOLUME);
    mounts.filter(move |mount| !has_namespaces && mount.mount_path.starts_with('/'))
}
