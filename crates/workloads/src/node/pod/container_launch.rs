//! Turns a container's declaration into a process that can be started: command, environment, directory, volumes,
//! limits.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use homeostat_core::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use super::container_identity::PodIdentities;
use super::environment::{Environment, config_error, container_environment};
use super::expand_variables::expand;
use super::plan::PlannedStart;
use super::pod_folders::VisiblePodFolders;
use super::service_account;
use super::status::StartRefusal;
use super::value_sources::ValueSources;
use super::{process_capabilities, service_variables, termination_log, volumes};
use crate::node::NodeShared;
use crate::node::container_http::ContainerRequest;
use crate::node::supervisor::protocol::{
    ContainerKey, ContainerLaunch, ContainerStreams, LifecycleHook, MachineView, PodName, ProcessSpec,
};

/// The reason reported if a container has no command: there are no images here that would provide one.
const NO_COMMAND: &str = "ErrImageNeverPull";

/// Returns the launch of a container, or the reason it cannot be started.
pub(crate) fn container_launch(
    shared: &NodeShared,
    identities: &PodIdentities<'_>,
    start: &PlannedStart<'_>,
    sources: &dyn ValueSources,
) -> Result<ContainerLaunch, StartRefusal> {
    let (pod, container) = (identities.pod, start.part.container);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let owner = PodName {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    };
    let process = container_process(shared, identities, container, sources)?;
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default();
    let lifecycle = container.lifecycle.as_ref();
    let after_start = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref());
    let before_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    Ok(ContainerLaunch {
        id: ContainerKey { pod: uid, container: container.name.clone() },
        owner,
        attempt: start.attempt,
        strikes: start.strikes,
        interruptions: start.interruptions,
        process,
        falls_back_to_log: termination_log::falls_back_to_log(container),
        streams: ContainerStreams {
            stdin: container.stdin == Some(true),
            stdin_once: container.stdin_once == Some(true),
            tty: container.tty == Some(true),
        },
        after_start: after_start
            .map(|handler| lifecycle_hook(handler, container, address))
            .transpose()?
            .flatten(),
        before_stop: before_stop
            .map(|handler| lifecycle_hook(handler, container, address))
            .transpose()?
            .flatten(),
    })
}

/// Returns the hook that a handler describes. `tcpSocket` has no meaning in Kubernetes either.
fn lifecycle_hook(
    handler: &LifecycleHandler,
    container: &Container,
    address: &str,
) -> Result<Option<LifecycleHook>, StartRefusal> {
    if let Some(exec) = &handler.exec {
        return Ok(exec.command.clone().map(LifecycleHook::Execute));
    }
    if let Some(sleep) = &handler.sleep {
        return Ok(Some(LifecycleHook::Sleep { seconds: u64::try_from(sleep.seconds).unwrap_or_default() }));
    }
    let request =
        handler.http_get.as_ref().map(|action| ContainerRequest::new(action, container, address)).transpose();
    request.map(|request| Some(LifecycleHook::Get(Box::new(request?)))).map_err(config_error)
}

/// Returns a container's process; probes and hooks run alongside it with the same settings.
pub(crate) fn container_process(
    shared: &NodeShared,
    identities: &PodIdentities<'_>,
    container: &Container,
    sources: &dyn ValueSources,
) -> Result<ProcessSpec, StartRefusal> {
    let pod = identities.pod;
    let mut identity = identities.identity_of(container)?;
    let folders = VisiblePodFolders::make(shared, identities, container, &identity)?;
    let termination_log = termination_log::TerminationLog::new(shared, pod, container, &folders);
    let services = sources.services()?;
    let mut given = service_variables::variables(pod, services.iter().map(|service| &**service));
    given.extend([
        ("HOSTNAME".to_owned(), pod.metadata.name.clone().unwrap_or_default()),
        ("HOME".to_owned(), folders.home.display().to_string()),
        ("HOMEOSTAT_VOLUMES".to_owned(), folders.volumes.display().to_string()),
        (termination_log::VARIABLE.to_owned(), termination_log.path_in_container()),
    ]);
    given.extend(identity.machine_user.filter(|user| *user != 0).and_then(|_| passable_path()));
    given.extend(service_account::variables(shared, container, &folders.volumes));
    let environment = container_environment(pod, container, sources, given)?;
    let settings = volumes::VolumeSettings { sources, environment: &environment, folders: &folders };
    let mut mounts = volumes::prepare_volumes(shared, identities, container, &settings)?;
    mounts.extend(termination_log.make(shared, &folders)?);
    mounts.extend(folders.mounts);
    let (command, is_program_given) = container_command(shared, container, &environment)?;
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let memory = limits.and_then(|limits| limits.get("memory"));
    if !shared.has_namespaces {
        identity.groups.extend(identities.passing_groups());
    }
    Ok(ProcessSpec {
        command,
        environment: environment.into_iter().collect(),
        // An absolute path replaces the Pod's own folder.
        directory: folders.home.join(container.working_dir.as_deref().unwrap_or_default()),
        rights: process_capabilities::container_rights(
            identities.identity_policy,
            container,
            !identity.ranges.is_empty(),
        ),
        user: identity.user,
        group: identity.group,
        groups: identity.groups,
        ranges: identity.ranges,
        memory_bytes: memory.and_then(|quantity| quantity.0.parse::<Quantity>().ok()?.positive_wholes()),
        mounts,
        view: if shared.has_namespaces {
            machine_view(shared, pod, container)
        } else {
            MachineView::default()
        },
        is_program_given,
    })
}

/// Returns `PATH` without the folders that other users are not allowed to traverse. With them, a shell would report
/// "permission denied" for a program that does not exist at all.
fn passable_path() -> Option<(String, String)> {
    let path = std::env::var_os("PATH")?;
    let open = std::env::split_paths(&path).filter(|folder| is_passable(folder));
    Some(("PATH".to_owned(), std::env::join_paths(open).ok()?.into_string().ok()?))
}

fn is_passable(folder: &Path) -> bool {
    /// The permission for others to traverse.
    const PASSABLE: u32 = 0o001;
    let may_pass = |folder: &Path| fs::metadata(folder).is_ok_and(|meta| meta.mode() & PASSABLE != 0);
    folder.ancestors().all(may_pass)
}

/// Returns the full path of a program that the node's owner named, if only the node can find it.
fn absolute_program(program: String) -> String {
    let path = std::env::var_os("PATH").filter(|_| !program.contains('/')).unwrap_or_default();
    let mut found = std::env::split_paths(&path).filter(|folder| folder.join(&program).is_file());
    let only_here = found.next().filter(|folder| !is_passable(folder));
    only_here.and_then(|folder| folder.join(&program).into_os_string().into_string().ok()).unwrap_or(program)
}

/// Returns the files of the machine that the container does not see.
fn machine_view(shared: &NodeShared, pod: &Pod, container: &Container) -> MachineView {
    let context = container.security_context.as_ref();
    MachineView {
        hidden: shared.hidden(),
        has_own_processes_only: pod.spec.as_ref().and_then(|spec| spec.host_pid) != Some(true),
        is_read_only: context.and_then(|context| context.read_only_root_filesystem) == Some(true),
    }
}

/// Returns the declared command, or the one for the image, and which of the two it is.
fn container_command(
    shared: &NodeShared,
    container: &Container,
    environment: &Environment,
) -> Result<(Vec<String>, bool), StartRefusal> {
    let lookup = |name: &str| environment.get(name).cloned();
    let expanded = |texts: &Option<Vec<String>>| -> Vec<String> {
        texts.iter().flatten().map(|text| expand(text, lookup)).collect()
    };
    let mut command = expanded(&container.command);
    let is_from_table = command.is_empty();
    if is_from_table {
        command = command_of_image(shared, container.image.as_deref().unwrap_or_default())?;
        if let Some(program) = command.first_mut() {
            *program = absolute_program(std::mem::take(program));
        }
    }
    command.extend(expanded(&container.args));
    Ok((command, is_from_table))
}

/// Returns an image's name without its tag and digest.
fn repository(image: &str) -> &str {
    let plain = image.split('@').next().unwrap_or_default();
    let last = plain.rfind('/').map_or(0, |slash| slash + 1);
    plain[last..].find(':').map_or(plain, |colon| &plain[..last + colon])
}

/// Returns the command for an image: the one for exactly this version, or else the one for all versions.
fn command_of_image(shared: &NodeShared, image: &str) -> Result<Vec<String>, StartRefusal> {
    let images = &shared.options.images;
    let found = images.get(image).or_else(|| images.get(repository(image)));
    found.filter(|command| !command.is_empty()).cloned().ok_or_else(|| StartRefusal {
        reason: NO_COMMAND,
        message: format!(
            "this node cannot run images: give the container a command, or start the server with --image {image}=COMMAND"
        ),
        is_temporary: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_repository() {
        for (image, expected) in [
            ("postgres:17", "postgres"),
            ("postgres", "postgres"),
            ("registry:5000/team/app:1.2", "registry:5000/team/app"),
            ("registry:5000/app", "registry:5000/app"),
            ("app:1@sha256:abc", "app"),
            ("", ""),
        ] {
            assert_eq!(repository(image), expected, "{image}");
        }
    }
}
