//! From a container's declaration to a process that can be started: command, environment, directory, volumes, limits.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use super::account;
use super::environment::{Environment, config_error, environment};
use super::expand::expand;
use super::person::{Person, Place};
use super::plan::Start;
use super::sources::Sources;
use super::status::Refusal;
use super::{termination, volumes};
use crate::node::http::Request;
use crate::node::keeper::protocol::{Hook, Launch, Owner, Process, RunId};
use crate::node::{Ground, quantity};

/// What an image gives cannot be had here; what stands in its place must be named.
const NO_COMMAND: &str = "ErrImageNeverPull";

/// The launch of a container, or why there is none.
pub(crate) fn launch(
    ground: &Ground,
    pod: &Pod,
    start: &Start<'_>,
    sources: &dyn Sources,
) -> Result<Launch, Refusal> {
    let container = start.part.container;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let owner = Owner {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    };
    let process = process(ground, pod, container, sources)?;
    let lifecycle = container.lifecycle.as_ref();
    let after_start = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref());
    let before_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    Ok(Launch {
        id: RunId { pod: uid, container: container.name.clone() },
        owner,
        attempt: start.attempt,
        strikes: start.strikes,
        interruptions: start.interruptions,
        process,
        falls_back_to_log: termination::falls_back_to_log(container),
        after_start: after_start.map(|handler| hook(handler, container)).transpose()?.flatten(),
        before_stop: before_stop.map(|handler| hook(handler, container)).transpose()?.flatten(),
    })
}

/// What a handler asks for. `tcpSocket` means nothing in Kubernetes either.
fn hook(handler: &LifecycleHandler, container: &Container) -> Result<Option<Hook>, Refusal> {
    if let Some(exec) = &handler.exec {
        return Ok(exec.command.clone().map(Hook::Execute));
    }
    if let Some(sleep) = &handler.sleep {
        return Ok(Some(Hook::Sleep { seconds: u64::try_from(sleep.seconds).unwrap_or_default() }));
    }
    let request = handler.http_get.as_ref().map(|action| Request::new(action, container)).transpose();
    request.map(|request| Some(Hook::Get(Box::new(request?)))).map_err(config_error)
}

/// The process of a container: also what probes and hooks run beside.
pub(crate) fn process(
    ground: &Ground,
    pod: &Pod,
    container: &Container,
    sources: &dyn Sources,
) -> Result<Process, Refusal> {
    let person = Person::of(pod, container)?;
    let place = Place::make(ground, pod, container, &person)?;
    let last_words = termination::Place::of(ground, pod, container, &place);
    let mut given = Environment::from([
        ("HOSTNAME".to_owned(), pod.metadata.name.clone().unwrap_or_default()),
        ("HOME".to_owned(), place.home.display().to_string()),
        ("HOMEOSTAT_VOLUMES".to_owned(), place.volumes.display().to_string()),
        (termination::VARIABLE.to_owned(), last_words.seen()),
    ]);
    given.extend(account::variables(ground, container, &place.volumes));
    let environment = environment(pod, container, sources, given)?;
    let mut mounts = volumes::prepare(ground, pod, container, (sources, &environment, &place))?;
    mounts.extend(last_words.make(ground, &place)?);
    mounts.extend(place.mounts);
    let command = command(ground, container, &environment)?;
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let memory = limits.and_then(|limits| limits.get("memory"));
    Ok(Process {
        command,
        environment: environment.into_iter().collect(),
        // An absolute one replaces the Pod's own.
        directory: place.home.join(container.working_dir.as_deref().unwrap_or_default()),
        user: person.user,
        group: person.group,
        groups: person.groups,
        memory_bytes: memory.and_then(|quantity| quantity::bytes(&quantity.0)),
        mounts,
    })
}

/// The declared command, or the one that stands for the image.
fn command(
    ground: &Ground,
    container: &Container,
    environment: &Environment,
) -> Result<Vec<String>, Refusal> {
    let lookup = |name: &str| environment.get(name).cloned();
    let expanded = |texts: &Option<Vec<String>>| -> Vec<String> {
        texts.iter().flatten().map(|text| expand(text, lookup)).collect()
    };
    let mut command = expanded(&container.command);
    if command.is_empty() {
        command = of_image(ground, container.image.as_deref().unwrap_or_default())?;
    }
    command.extend(expanded(&container.args));
    Ok(command)
}

fn of_image(ground: &Ground, image: &str) -> Result<Vec<String>, Refusal> {
    let found = ground.options.images.get(image).filter(|command| !command.is_empty());
    found.cloned().ok_or_else(|| Refusal {
        reason: NO_COMMAND,
        message: format!(
            "this node runs no images: give the container a command, or start the node with --image {image}=COMMAND"
        ),
        is_passing: false,
    })
}
