//! Volumes as folders of the Pod.
//!
//! Every volume is a folder below the Pod's own, or a link there to one of [`ExternalVolume`]. Where a container wants it somewhere
//! else on the machine, it sees it there in a mount namespace of its own if the system allows one. Without one, a
//! `mountPath` is reached as `$HOME` + `mountPath` and `$HOMEOSTAT_VOLUMES/NAME`, and the Pod's events say so: the host's
//! own files are never touched.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, KeyToPath, Pod,
    ProjectedVolumeSource, Secret, Volume, VolumeMount,
};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use super::downward_api;
use super::environment::{Environment, config_error, require_object};
use super::expand::expand;
use super::external_volume::ExternalVolume;
use super::identity::PodIdentities;
use super::mount_path;
use super::pod_folders::PodFolders;
use super::service_account;
use super::sources::ValueSources;
use super::status::StartRefusal;
use crate::node::NodeShared;
use crate::node::supervisor::protocol::{Mount, MountOrigin};
use crate::node::supervisor::safe_path;
use crate::node::tokens::TokenSpec;

/// A file on its way to its name.
const FRESH: &str = "..fresh";

/// Files by path.
type VolumeFiles = BTreeMap<String, FileContent>;

/// What is in a file, with a mode and an owner if it has its own.
struct FileContent {
    bytes: Vec<u8>,
    mode: Option<u32>,
    /// Whose it is, if not the node's.
    owner: Option<u32>,
}

impl From<Vec<u8>> for FileContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: None, owner: None }
    }
}

/// Makes the volumes this container mounts; gives what its launcher shall mount.
pub(crate) fn prepare_volumes(
    shared: &NodeShared,
    identities: &PodIdentities<'_>,
    container: &Container,
    (sources, environment, folders): (&dyn ValueSources, &Environment, &PodFolders),
) -> Result<Vec<Mount>, StartRefusal> {
    let spec = identities.pod.spec.as_ref();
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = spec.and_then(|spec| spec.volumes.iter().flatten().find(|one| one.name == mount.name));
        let volume = volume.ok_or_else(|| config_error(format!("there is no volume {}", mount.name)))?;
        let filled = prepare_volume(shared, identities, volume, sources)?;
        let part = sub_path(mount, environment)?;
        if let Some(folder) = &filled.folder {
            make_part(folder, &part, identities).map_err(|error| {
                config_error(format!("the subPath {part} of volume {}: {error}", mount.name))
            })?;
        }
        let is_closed =
            volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.read_only == Some(true));
        let is_only_read =
            |mount: &VolumeMount| mount.read_only == Some(true) || is_closed || is_given(volume);
        let is_read_only = is_only_read(mount);
        let PreparedVolume { path, origin, inside, .. } = filled;
        let among_others = folders.volumes.join(&volume.name);
        let mut all = container.volume_mounts.iter().flatten().filter(|one| one.name == mount.name);
        let whole = folders.is_apart.then(|| Mount {
            source: path.clone(),
            part: PathBuf::new(),
            target: among_others.clone(),
            // Not a way around a mount that is only read.
            is_read_only: all.all(is_only_read),
            origin: origin.clone(),
        });
        let mut seen = if inside == VolumeLocation::Elsewhere { path.clone() } else { among_others };
        seen.extend(Path::new(&part).components().filter(|part| matches!(part, Component::Normal(_))));
        let source = mount_path::MountSource { path, part: part.into(), seen, is_read_only, origin };
        mounts.extend(mount_path::place_volume(shared, folders, mount, source)?);
        // After the one asked for, which an error shall name.
        mounts.extend(whole.filter(|whole| !mounts.contains(whole)));
    }
    Ok(mounts)
}

/// Makes the wanted part of a volume a folder as open as the whole, unless there is something.
fn make_part(folder: &OwnedFd, part: &str, identities: &PodIdentities<'_>) -> io::Result<()> {
    let reached = safe_path::resolve_beneath(folder, Path::new(part))?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    safe_path::make_folders(reached.at, &reached.missing, |made| {
        give_to_pod(made, identities)?;
        Ok(rustix::fs::fchmod(made, mode)?)
    })?;
    Ok(())
}

/// Gives something that was made to the Pod's user, if it has one of its own.
fn give_to_pod(made: impl AsFd, identities: &PodIdentities<'_>) -> io::Result<()> {
    let group = identities.volume_group().or_else(|| identities.owning_group());
    let (user, group) = (identities.owner().map(Uid::from_raw), group.map(Gid::from_raw));
    if user.is_some() { Ok(rustix::fs::fchown(made, user, group)?) } else { Ok(()) }
}

/// Brings volumes that were made before up to date: ConfigMaps and Secrets change under running containers.
pub(crate) fn refresh(shared: &NodeShared, identities: &PodIdentities<'_>, sources: &dyn ValueSources) {
    let uid = identities.pod.metadata.uid.as_deref().unwrap_or_default();
    let volumes = identities.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    for volume in
        volumes.filter(|volume| is_given(volume) && shared.layout.volumes(uid).join(&volume.name).exists())
    {
        // One whose source is gone keeps what it had, as in Kubernetes.
        let _ = prepare_volume(shared, identities, volume, sources);
    }
}

/// A volume as it is: its path, and the folder itself if the node made it.
pub(super) struct PreparedVolume {
    pub(super) path: PathBuf,
    pub(super) folder: Option<OwnedFd>,
    pub(super) origin: MountOrigin,
    pub(super) inside: VolumeLocation,
}

/// How a volume is among the Pod's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeLocation {
    /// It lies there.
    Itself,
    /// It is mounted there.
    Mounted,
    /// A link leads to where it is.
    Elsewhere,
}

/// The folder of a volume, with what belongs in it.
fn prepare_volume(
    shared: &NodeShared,
    identities: &PodIdentities<'_>,
    volume: &Volume,
    sources: &dyn ValueSources,
) -> Result<PreparedVolume, StartRefusal> {
    let pod = identities.pod;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let failed = |error: io::Error| config_error(format!("cannot make the volume {}: {error}", volume.name));
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
    // Opened up once: what containers did to an empty one stays.
    let is_new_and_empty = volume.empty_dir.is_some() && !path.exists();
    let folder = safe_path::open_or_make_folder(&path).map_err(failed)?;
    if is_new_and_empty {
        give_to_pod(&folder, identities).map_err(failed)?;
    }
    open_up(&folder, is_new_and_empty, group).map_err(failed)?;
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

/// Lets the Pod's users in: all of them if it begins empty, as in Kubernetes, since the folder above is closed to everybody
/// else; and its group, whose all that is made in it is as well.
pub(super) fn open_up(folder: &OwnedFd, is_empty: bool, group: Option<u32>) -> io::Result<()> {
    const ALL: u32 = 0o777;
    /// The group reads and enters, and hands itself on.
    const OF_GROUP: u32 = 0o2050;
    let mode = rustix::fs::fstat(folder)?.st_mode;
    let mut wanted = if is_empty { ALL } else { mode };
    if let Some(group) = group {
        rustix::fs::fchown(folder, None, Some(Gid::from_raw(group)))?;
        wanted |= OF_GROUP;
    }
    if is_empty || group.is_some() {
        rustix::fs::fchmod(folder, Mode::from_raw_mode(wanted))?;
    }
    Ok(())
}

/// Is its content given, so that containers only read it?
fn is_given(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// The files of a volume that has given ones, and their mode; none for one that begins empty.
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
        "the volume {} has a type that this node does not support: use emptyDir, configMap, secret, downwardAPI, projected, \
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
            let wish = TokenSpec::new(token.audience.as_deref(), token.expiration_seconds);
            files.insert(token.path.clone(), secret_content(identities, sources.token(&wish)?));
        } else if one.cluster_trust_bundle.as_ref().is_none_or(|bundle| bundle.optional != Some(true)) {
            let message = "this node does not support the type of a projected source: use configMap, secret, downwardAPI or serviceAccountToken";
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

/// A file for the Pod's user only. Where its containers run as several, all of them read it: nobody else reaches its folder.
fn secret_content(identities: &PodIdentities<'_>, text: String) -> FileContent {
    let bytes = text.into_bytes();
    match identities.only_user() {
        Ok(owner) => FileContent { bytes, mode: Some(0o600), owner },
        Err(()) => FileContent { bytes, mode: Some(0o644), owner: None },
    }
}

/// Only the named keys, at their paths, if any are named.
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
                "the file {} cannot be written: this node does not offer its source",
                item.path
            ))
        })?;
        let content = FileContent { mode: own_mode(item.mode), ..FileContent::from(text.into_bytes()) };
        files.insert(item.path.clone(), content);
    }
    Ok(files)
}

/// How files are written that do not say it themselves.
struct FileDefaults {
    mode: u32,
    /// Whose they are, if not the node's.
    owner: Option<u32>,
    group: Option<u32>,
    /// Does the group read them, whatever their mode?
    is_groups: bool,
}

/// Makes the folder hold exactly these files. Each is replaced as a whole, and only when it differs.
fn write_files(folder: &OwnedFd, files: &VolumeFiles, manner: &FileDefaults) -> io::Result<()> {
    /// The group reads what is given to it.
    const OF_GROUP: u32 = 0o440;
    for (path, content) in files {
        let (parent, name) = safe_path::make_parent_folder(folder, Path::new(path))?;
        let mode = content.mode.unwrap_or(manner.mode) | if manner.is_groups { OF_GROUP } else { 0 };
        let owner = content.owner.or(manner.owner);
        if !is_written(&parent, name, (&content.bytes, mode, owner)) {
            let owners = (owner.map(Uid::from_raw), manner.group.map(Gid::from_raw));
            write_fresh(folder, &content.bytes, (mode, owners))?;
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

/// Is that in the file already?
fn is_written(folder: &OwnedFd, name: &OsStr, (bytes, mode, owner): (&[u8], u32, Option<u32>)) -> bool {
    /// Without the kind of the file.
    const MODE_BITS: u32 = 0o7777;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return false };
    let mut file = fs::File::from(file);
    let is_so = |meta: fs::Metadata| {
        let has_mode = meta.permissions().mode() & MODE_BITS == mode & MODE_BITS;
        meta.is_file() && has_mode && owner.is_none_or(|owner| meta.uid() == owner)
    };
    let mut current = Vec::new();
    file.metadata().is_ok_and(is_so) && file.read_to_end(&mut current).is_ok() && current == bytes
}

/// A new file beside those that are in use.
fn write_fresh(
    folder: &OwnedFd,
    bytes: &[u8],
    (mode, (user, group)): (u32, (Option<Uid>, Option<Gid>)),
) -> io::Result<()> {
    // One that was left over; if it cannot go, the next line says so.
    let _ = rustix::fs::unlinkat(folder, FRESH, AtFlags::empty());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::openat(folder, FRESH, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    // Before the mode, which a change of owner may cut.
    if user.is_some() || group.is_some() {
        rustix::fs::fchown(&file, user, group)?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// The part of the volume that is wanted; an expression must know all its variables.
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
    Err(config_error(format!(
        "the subPathExpr {expression} of volume {} names an unknown variable",
        mount.name
    )))
}

/// The mount paths of a container that it does not see where it asked for them.
pub(crate) fn misplaced_mounts<'a>(
    shared: &NodeShared,
    container: &'a Container,
) -> impl Iterator<Item = &'a VolumeMount> {
    let has_namespaces = shared.has_namespaces;
    let mounts = container.volume_mounts.iter().flatten();
    // The account is found by its variables then.
    let mounts = mounts.filter(|mount| mount.name != service_account::VOLUME);
    mounts.filter(move |mount| !has_namespaces && mount.mount_path.starts_with('/'))
}
