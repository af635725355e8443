//! Volumes as folders of the Pod.
//!
//! Every volume is a folder below the Pod's own. Where a container wants it somewhere else on the machine, it sees it there
//! in a mount namespace of its own if the system allows one. Without one, a `mountPath` is reached as
//! `$HOME` + `mountPath` and `$HOMEOSTAT_VOLUMES/NAME`, and the Pod's events say so: the host's own files are never touched.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, Pod,
    ProjectedVolumeSource, Secret, Volume, VolumeMount,
};

use super::account;
use super::environment::{Environment, config_error, required};
use super::expand::expand;
use super::fields;
use super::person;
use super::sources::Sources;
use super::status::Refusal;
use crate::node::Ground;
use crate::node::keeper::protocol::Mount;
use crate::node::tokens::Wish;

/// Files by path.
type Files = BTreeMap<String, Content>;

/// What is in a file, with a mode and an owner if it has its own.
struct Content {
    bytes: Vec<u8>,
    mode: Option<u32>,
    /// Whose it is, if not the node's.
    owner: Option<u32>,
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: None, owner: None }
    }
}

/// Makes the volumes this container mounts; gives what its launcher shall mount.
pub(crate) fn prepare(
    ground: &Ground,
    pod: &Pod,
    container: &Container,
    (sources, environment): (&dyn Sources, &Environment),
) -> Result<Vec<Mount>, Refusal> {
    let spec = pod.spec.as_ref();
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = spec.and_then(|spec| spec.volumes.iter().flatten().find(|one| one.name == mount.name));
        let volume = volume.ok_or_else(|| config_error(format!("there is no volume {}", mount.name)))?;
        let folder = fill(ground, pod, volume, sources)?;
        let sub_path = sub_path(mount, environment)?;
        let source = below(&folder, &sub_path)
            .map_err(|error| config_error(format!("the subPath of volume {}: {error}", mount.name)))?;
        if !sub_path.is_empty() && !source.exists() {
            fs::create_dir_all(&source)
                .map_err(|error| config_error(format!("cannot make the subPath {sub_path}: {error}")))?;
        }
        let is_read_only = mount.read_only == Some(true) || is_given(volume);
        mounts.extend(place(ground, pod, mount, (source, is_read_only))?);
    }
    Ok(mounts)
}

/// Brings volumes that were made before up to date: ConfigMaps and Secrets change under running containers.
pub(crate) fn refresh(ground: &Ground, pod: &Pod, sources: &dyn Sources) {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let changing = volumes.filter(|volume| volume.empty_dir.is_none() && volume.host_path.is_none());
    for volume in changing.filter(|volume| ground.layout.volumes(uid).join(&volume.name).exists()) {
        // One whose source is gone keeps what it had, as in Kubernetes.
        let _ = fill(ground, pod, volume, sources);
    }
}

/// The folder of a volume, with what belongs in it.
fn fill(ground: &Ground, pod: &Pod, volume: &Volume, sources: &dyn Sources) -> Result<PathBuf, Refusal> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let failed = |error: io::Error| config_error(format!("cannot make the volume {}: {error}", volume.name));
    if let Some(host) = &volume.host_path {
        return host_path(host).map_err(failed);
    }
    let folder = ground.layout.volumes(uid).join(&volume.name);
    fs::create_dir_all(&folder).map_err(failed)?;
    if volume.empty_dir.is_some() {
        // For any user of the Pod, as in Kubernetes; the folder above is closed to everybody else.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).map_err(failed)?;
    }
    let group = person::volume_group(pod);
    if group.is_some() {
        give_to_group(&folder, group).map_err(failed)?;
    }
    let Some((mut files, mode)) = content(pod, volume, sources)? else { return Ok(folder) };
    let kubeconfig = account::kubeconfig(ground, pod, volume);
    files.extend(kubeconfig.map(|text| ("kubeconfig".to_owned(), text.into_bytes().into())));
    write(&folder, &files, (mode, group)).map_err(failed)?;
    Ok(folder)
}

/// What is made in the folder is the group's as well.
fn give_to_group(folder: &Path, group: Option<u32>) -> io::Result<()> {
    /// The group reads and enters, and hands itself on.
    const OF_GROUP: u32 = 0o2050;
    chown(folder, None, group)?;
    let mode = fs::metadata(folder)?.permissions().mode();
    fs::set_permissions(folder, fs::Permissions::from_mode(mode | OF_GROUP))
}

/// Is its content given, so that containers only read it?
fn is_given(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
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

/// The files of a volume that has given ones, and their mode; none for one that begins empty.
fn content(pod: &Pod, volume: &Volume, sources: &dyn Sources) -> Result<Option<(Files, u32)>, Refusal> {
    /// Kubernetes' default.
    const MODE: u32 = 0o644;
    let mode = |mode: Option<i32>| mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(MODE);
    if let Some(source) = &volume.config_map {
        return Ok(Some((of_config_map(source, sources)?, mode(source.default_mode))));
    }
    if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        let found = required(sources.secret(name)?, "secret", name, source.optional)?;
        let all = found.map(|secret| secret_files(&secret)).unwrap_or_default();
        return Ok(Some((picked(all, source.items.as_deref(), source.optional)?, mode(source.default_mode))));
    }
    if let Some(source) = &volume.downward_api {
        return Ok(Some((downward(pod, source.items.as_deref())?, mode(source.default_mode))));
    }
    if let Some(source) = &volume.projected {
        return Ok(Some((projected(pod, source, sources)?, mode(source.default_mode))));
    }
    if volume.empty_dir.is_some() {
        return Ok(None);
    }
    Err(config_error(format!(
        "the volume {} is of a sort this node does not have: use emptyDir, configMap, secret, downwardAPI, projected or hostPath",
        volume.name
    )))
}

fn of_config_map(source: &ConfigMapVolumeSource, sources: &dyn Sources) -> Result<Files, Refusal> {
    let found = required(sources.config_map(&source.name)?, "configmap", &source.name, source.optional)?;
    let all = found.map(|map| config_files(&map)).unwrap_or_default();
    picked(all, source.items.as_deref(), source.optional)
}

fn projected(pod: &Pod, source: &ProjectedVolumeSource, sources: &dyn Sources) -> Result<Files, Refusal> {
    let mut files = Files::new();
    for one in source.sources.iter().flatten() {
        if let Some(map) = &one.config_map {
            let found = required(sources.config_map(&map.name)?, "configmap", &map.name, map.optional)?;
            let all = found.map(|map| config_files(&map)).unwrap_or_default();
            files.extend(picked(all, map.items.as_deref(), map.optional)?);
        } else if let Some(secret) = &one.secret {
            let found = required(sources.secret(&secret.name)?, "secret", &secret.name, secret.optional)?;
            let all = found.map(|secret| secret_files(&secret)).unwrap_or_default();
            files.extend(picked(all, secret.items.as_deref(), secret.optional)?);
        } else if let Some(downward_api) = &one.downward_api {
            files.extend(downward(pod, downward_api.items.as_deref())?);
        } else if let Some(token) = &one.service_account_token {
            let wish = Wish::new(token.audience.as_deref(), token.expiration_seconds);
            files.insert(token.path.clone(), secret_content(pod, sources.token(&wish)?));
        } else if one.cluster_trust_bundle.as_ref().is_none_or(|bundle| bundle.optional != Some(true)) {
            let message = "a projected source is of a sort this node does not have: use configMap, secret, downwardAPI or serviceAccountToken";
            return Err(config_error(message.to_owned()));
        }
    }
    Ok(files)
}

fn config_files(map: &ConfigMap) -> Files {
    let texts =
        map.data.iter().flatten().map(|(name, text)| (name.clone(), text.clone().into_bytes().into()));
    let bytes = map.binary_data.iter().flatten().map(|(name, bytes)| (name.clone(), bytes.0.clone().into()));
    texts.chain(bytes).collect()
}

fn secret_files(secret: &Secret) -> Files {
    secret.data.iter().flatten().map(|(name, bytes)| (name.clone(), bytes.0.clone().into())).collect()
}

/// A file for the Pod's user only. Where its containers run as several, all of them read it: nobody else reaches its folder.
fn secret_content(pod: &Pod, text: String) -> Content {
    let bytes = text.into_bytes();
    match person::only_user(pod) {
        Ok(owner) => Content { bytes, mode: Some(0o600), owner },
        Err(()) => Content { bytes, mode: Some(0o644), owner: None },
    }
}

/// Only the named keys, at their paths, if any are named.
fn picked(mut all: Files, items: Option<&[KeyToPath]>, optional: Option<bool>) -> Result<Files, Refusal> {
    let Some(items) = items else { return Ok(all) };
    let mut files = Files::new();
    for item in items {
        match all.remove(&item.key) {
            Some(content) => {
                files.insert(item.path.clone(), Content { mode: own_mode(item.mode), ..content });
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

fn downward(pod: &Pod, items: Option<&[DownwardAPIVolumeFile]>) -> Result<Files, Refusal> {
    let mut files = Files::new();
    for item in items.into_iter().flatten() {
        let field = item.field_ref.as_ref().and_then(|field| fields::field(pod, &field.field_path));
        let resource = item.resource_field_ref.as_ref().and_then(|selector| {
            let wanted = selector.container_name.as_deref().unwrap_or_default();
            let mut all = pod.spec.iter().flat_map(|spec| &spec.containers);
            fields::resource(all.find(|container| container.name == wanted)?, selector)
        });
        let text = field.or(resource);
        let text = text.ok_or_else(|| config_error(format!("the file {} cannot be filled", item.path)))?;
        let content = Content { mode: own_mode(item.mode), ..Content::from(text.into_bytes()) };
        files.insert(item.path.clone(), content);
    }
    Ok(files)
}

/// Makes the folder hold exactly these files. Each is replaced as a whole, and only when it differs.
fn write(folder: &Path, files: &Files, (mode, group): (u32, Option<u32>)) -> io::Result<()> {
    /// Without the kind of the file.
    const MODE_BITS: u32 = 0o7777;
    /// The group reads what is given to it.
    const OF_GROUP: u32 = 0o440;
    for (path, content) in files {
        let file = below(folder, path)?;
        let mode = content.mode.unwrap_or(mode) | if group.is_some() { OF_GROUP } else { 0 };
        let has_mode = |meta: fs::Metadata| meta.permissions().mode() & MODE_BITS == mode & MODE_BITS;
        if fs::metadata(&file).is_ok_and(has_mode) && fs::read(&file).is_ok_and(|old| old == content.bytes) {
            continue;
        }
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        let fresh = folder.join("..fresh");
        let mut options = fs::OpenOptions::new();
        let mut out = options.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        io::Write::write_all(&mut out, &content.bytes)?;
        // Before the mode, which a change of owner may cut.
        if content.owner.is_some() || group.is_some() {
            chown(&fresh, content.owner, group)?;
        }
        fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
        fs::rename(&fresh, &file)?;
    }
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let is_wanted = files.keys().any(|path| Path::new(path).starts_with(&name));
        if !is_wanted && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The path below the folder; nothing leads out of it.
fn below(folder: &Path, path: &str) -> io::Result<PathBuf> {
    let mut whole = folder.to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => whole.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(io::Error::other(format!("{path} leads out of the volume"))),
        }
    }
    Ok(whole)
}

/// The part of the volume that is wanted; an expression must know all its variables.
fn sub_path(mount: &VolumeMount, environment: &Environment) -> Result<String, Refusal> {
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

/// Puts a volume where the container wants it: a mount for its launcher, or a link.
pub(crate) fn place(
    ground: &Ground,
    pod: &Pod,
    mount: &VolumeMount,
    (source, is_read_only): (PathBuf, bool),
) -> Result<Option<Mount>, Refusal> {
    let failed = |error: io::Error| config_error(format!("cannot place the volume {}: {error}", mount.name));
    if ground.has_namespaces && mount.mount_path.starts_with('/') {
        return Ok(Some(Mount { source, target: PathBuf::from(&mount.mount_path), is_read_only }));
    }
    let work = ground.layout.work(pod.metadata.uid.as_deref().unwrap_or_default());
    let path = below(&work, &mount.mount_path).map_err(failed)?;
    if path == work {
        return Err(config_error(format!("the volume {} cannot be mounted at /", mount.name)));
    }
    link(&source, &path).map_err(failed)?;
    Ok(None)
}

fn link(source: &Path, path: &Path) -> io::Result<()> {
    if fs::read_link(path).is_ok_and(|target| target == source) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(source, path)
}

/// The mount paths of a container that it does not see where it asked for them.
pub(crate) fn unhonoured<'a>(
    ground: &Ground,
    container: &'a Container,
) -> impl Iterator<Item = &'a VolumeMount> {
    let has_namespaces = ground.has_namespaces;
    let mounts = container.volume_mounts.iter().flatten();
    // The account is found by its variables then.
    let mounts = mounts.filter(|mount| mount.name != account::VOLUME);
    mounts.filter(move |mount| !has_namespaces && mount.mount_path.starts_with('/'))
}
