//! Computes a Pod's status from the state of its processes.
//!
//! A condition keeps its times while it does not change, and other writers' conditions are left alone. An unchanged Pod
//! therefore gets the same status again, and nothing is written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    EphemeralContainer, HostIP, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container_roles::{ContainerRole, PodContainer, all_containers, init_containers, main_containers};
use super::phase::{PodPhase, pod_phase};
use super::plan::PodSituation;
use super::restart::AfterExit;
use crate::node::supervisor::protocol::{ContainerRunStatus, RunExit, RunState};

/// The machine's own address.
pub(super) const HOST: &str = "127.0.0.1";

/// The conditions that a node writes for every Pod.
const OWN_CONDITIONS: [&str; 4] = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The reason a container could not be started, as its status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartRefusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether the cause can go away without a change that triggers the Pod. If so, the Pod is rechecked.
    pub(crate) is_temporary: bool,
}

/// Refusals by container name.
pub(crate) type StartRefusals = BTreeMap<String, StartRefusal>;

/// Updates the status to the current situation.
pub(crate) fn write_status(situation: &PodSituation<'_>, refusals: &StartRefusals, status: &mut PodStatus) {
    let phase = pod_phase(situation);
    let statuses = |parts: &mut dyn Iterator<Item = PodContainer<'_>>| -> Vec<ContainerStatus> {
        parts.map(|part| container_status(situation, part, refusals)).collect()
    };
    let initial = statuses(&mut init_containers(situation.spec));
    let main = statuses(&mut main_containers(situation.spec));
    status.phase = Some(phase.word().to_owned());
    status.observed_generation = situation.pod.metadata.generation;
    if situation.is_expired() {
        status.reason = Some("DeadlineExceeded".to_owned());
        status.message = Some("Pod was active on the node longer than the specified deadline".to_owned());
    }
    status.start_time.get_or_insert_with(|| Time(whole_second(situation.now)));
    status.host_ip = Some(HOST.to_owned());
    status.host_ips = Some(vec![HostIP { ip: HOST.to_owned() }]);
    status.pod_ip = Some(situation.address.to_string());
    status.pod_ips = Some(vec![PodIP { ip: situation.address.to_string() }]);
    write_conditions(situation, phase, &initial, &main, status);
    status.init_container_statuses = Some(initial).filter(|all| !all.is_empty());
    status.container_statuses = Some(main);
    let extras: Vec<ContainerStatus> =
        situation.spec.ephemeral_containers.iter().flatten().map(ephemeral_status).collect();
    status.ephemeral_container_statuses = Some(extras).filter(|all| !all.is_empty());
}

/// The message about containers that are added to a running Pod (`kubectl debug`).
pub(super) const NO_EXTRAS: &str = "this node runs no ephemeral containers: their processes would be those of the machine, so look at the Pod from there";

/// The exit code of a container that could not be run, as the kubelet reports it.
const NEVER_RUN: i32 = 128;

fn ephemeral_status(container: &EphemeralContainer) -> ContainerStatus {
    // The state is not `waiting`, because kubectl would wait for it forever.
    let terminated = ContainerStateTerminated {
        exit_code: NEVER_RUN,
        reason: Some("NotOffered".to_owned()),
        message: Some(NO_EXTRAS.to_owned()),
        ..ContainerStateTerminated::default()
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() }),
        last_state: Some(ContainerState::default()),
        ..ContainerStatus::default()
    }
}

fn container_status(
    situation: &PodSituation<'_>,
    part: PodContainer<'_>,
    refusals: &StartRefusals,
) -> ContainerStatus {
    let name = &part.container.name;
    let runs = situation.runs.get(name);
    let run = runs.map(|runs| &runs.current);
    let is_running = run.is_some_and(ContainerRunStatus::is_running);
    let results = run.map(|run| situation.health.results_for(part.container, run.attempt));
    let waiting = waiting_reason(situation, part, refusals.get(name));
    // The last state is the previous run, or this run while the next one is pending.
    let last = match (&waiting, run) {
        (Some(_), Some(run)) if run.is_over() => Some(run),
        _ => runs.and_then(|runs| runs.previous.as_ref()),
    };
    let state = waiting.map_or_else(
        || run.map(container_state).unwrap_or_default(),
        |waiting| ContainerState { waiting: Some(waiting), ..ContainerState::default() },
    );
    ContainerStatus {
        name: name.clone(),
        image: part.container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        container_id: run.and_then(|run| container_id(situation, name, run)),
        ready: is_ready(situation, part, is_running),
        started: Some(is_running && results.is_some_and(|results| results.is_started)),
        restart_count: run.map_or(0, |run| i32::try_from(run.restarts()).unwrap_or(i32::MAX)),
        state: Some(state),
        last_state: Some(last.map(container_state).unwrap_or_default()),
        ..ContainerStatus::default()
    }
}

/// Returns an ID for the process while it exists, and for the run afterwards. `None` before anything has run.
pub(super) fn container_id(
    situation: &PodSituation<'_>,
    name: &str,
    run: &ContainerRunStatus,
) -> Option<String> {
    match run.state {
        RunState::Starting => None,
        RunState::Running { pid, .. } => Some(format!("process://{pid}")),
        RunState::Ended { .. } => Some(format!("process://{}/{name}/{}", situation.uid(), run.attempt)),
    }
}

fn is_ready(situation: &PodSituation<'_>, part: PodContainer<'_>, is_running: bool) -> bool {
    match part.role {
        ContainerRole::Init => situation.has_completed(part),
        ContainerRole::Sidecar | ContainerRole::Main => {
            let results =
                situation.run(part).map(|run| situation.health.results_for(part.container, run.attempt));
            is_running && results.is_some_and(|results| results.is_ready && results.is_started)
        }
    }
}

/// Returns why the container does not run, if it should.
fn waiting_reason(
    situation: &PodSituation<'_>,
    part: PodContainer<'_>,
    refusal: Option<&StartRefusal>,
) -> Option<ContainerStateWaiting> {
    if let Some(refusal) = refusal {
        return Some(waiting_state(refusal.reason, Some(refusal.message.clone())));
    }
    // This includes init containers that wait for others.
    let has_init = init_containers(situation.spec).next().is_some();
    let not_yet =
        || Some(waiting_state(if has_init { "PodInitializing" } else { "ContainerCreating" }, None));
    let Some(run) = situation.run(part) else { return not_yet() };
    match (&run.state, situation.after_exit(part, run)) {
        (RunState::Starting, _) => not_yet(),
        (RunState::Ended { .. }, AfterExit::Wait { delay, .. }) => {
            let (name, pod) = (&part.container.name, situation.pod);
            let (pod_name, namespace) = (pod.metadata.name.as_deref(), pod.metadata.namespace.as_deref());
            let message = format!(
                "back-off {delay:?} restarting failed container={name} pod={}_{}({})",
                pod_name.unwrap_or_default(),
                namespace.unwrap_or_default(),
                situation.uid()
            );
            Some(waiting_state("CrashLoopBackOff", Some(message)))
        }
        _ => None,
    }
}

fn waiting_state(reason: &str, message: Option<String>) -> ContainerStateWaiting {
    ContainerStateWaiting { reason: Some(reason.to_owned()), message }
}

/// Returns a run as a container's state.
fn container_state(run: &ContainerRunStatus) -> ContainerState {
    match &run.state {
        RunState::Starting => ContainerState::default(),
        RunState::Running { started_at, .. } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(whole_second(*started_at))) }),
            ..ContainerState::default()
        },
        RunState::Ended { started_at, finished_at, exit, message } => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: exit.code(),
                signal: if let RunExit::Signal(signal) = exit { Some(*signal) } else { None },
                reason: Some(exit_reason(exit).to_owned()),
                message: message.clone().or_else(|| exit_message(exit)),
                started_at: Some(Time(whole_second(*started_at))),
                finished_at: Some(Time(whole_second(*finished_at))),
                container_id: None,
            }),
            ..ContainerState::default()
        },
    }
}

fn exit_message(exit: &RunExit) -> Option<String> {
    match exit {
        RunExit::NotStarted(words) | RunExit::HookFailed(words) => Some(words.clone()),
        RunExit::NodeStopped => Some("the node was stopped".to_owned()),
        RunExit::Lost => Some("the process was lost together with its supervisor".to_owned()),
        _ => None,
    }
}

fn exit_reason(exit: &RunExit) -> &'static str {
    match exit {
        RunExit::Code(0) => "Completed",
        RunExit::NotStarted(_) => "StartError",
        RunExit::HookFailed(_) => "PostStartHookError",
        RunExit::NodeStopped => "NodeStopped",
        RunExit::Lost => "ContainerStatusUnknown",
        RunExit::Code(_) | RunExit::Signal(_) | RunExit::TimedOut => "Error",
    }
}

/// Truncates to whole seconds, like times in the API: only stored values can be compared.
pub(super) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn write_conditions(
    situation: &PodSituation<'_>,
    phase: PodPhase,
    initial: &[ContainerStatus],
    main: &[ContainerStatus],
    status: &mut PodStatus,
) {
    // A sidecar is initialized when it has started, any other init container when it has succeeded.
    let is_unfinished = |one: &ContainerStatus, role| match role {
        ContainerRole::Sidecar => one.started != Some(true),
        _ => !one.ready,
    };
    let unfinished = initial.iter().zip(init_containers(situation.spec));
    let unfinished =
        names(unfinished.filter(|(one, part)| is_unfinished(one, part.role)).map(|(one, _)| one));
    let sidecars = initial
        .iter()
        .zip(init_containers(situation.spec))
        .filter(|(_, part)| part.role == ContainerRole::Sidecar);
    let unready = names(sidecars.map(|(one, _)| one).chain(main).filter(|one| !one.ready));
    let initialized = match (&*unfinished, phase) {
        (_, PodPhase::Succeeded) => Ok(Some("PodCompleted")),
        ("", _) => Ok(None),
        // It was already initialized, and a sidecar is being restarted.
        _ if main.iter().any(has_started) => Ok(None),
        (names, _) => {
            Err(("ContainersNotInitialized", format!("containers with incomplete status: [{names}]")))
        }
    };
    let ready = match (&*unready, phase) {
        (_, PodPhase::Succeeded) => Err(("PodCompleted", String::new())),
        (_, PodPhase::Failed) => Err(("PodFailed", String::new())),
        ("", _) => Ok(None),
        (names, _) => Err(("ContainersNotReady", format!("containers with unready status: [{names}]"))),
    };
    let gates = unmet_gates(situation, status);
    let pod_ready = match (&ready, &*gates) {
        (Ok(_), "") | (Err(_), _) => ready.clone(),
        (Ok(_), gates) => Err((
            "ReadinessGatesNotReady",
            format!("the status of pod readiness gates {gates} is not \"True\""),
        )),
    };
    let known = status.conditions.get_or_insert_default();
    let now = whole_second(situation.now);
    set_condition(known, "Initialized", initialized, now);
    set_condition(known, "Ready", pod_ready, now);
    set_condition(known, "ContainersReady", ready, now);
    set_condition(known, "PodScheduled", Ok(None), now);
    if phase == PodPhase::Failed && is_disrupted(situation) {
        set_condition(known, "DisruptionTarget", Ok(Some("TerminationByKubelet")), now);
    }
    for condition in known.iter_mut().filter(|one| OWN_CONDITIONS.contains(&one.type_.as_str())) {
        condition.observed_generation = situation.pod.metadata.generation;
    }
}

/// Returns whether the container has run, in this attempt or an earlier one.
fn has_started(status: &ContainerStatus) -> bool {
    let has_run = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
    status.state.as_ref().is_some_and(has_run) || status.last_state.as_ref().is_some_and(has_run)
}

/// Returns whether the Pod fails now, and only because the node was stopped.
fn is_disrupted(situation: &PodSituation<'_>) -> bool {
    let mut failed = all_containers(situation.spec)
        .filter(|part| situation.has_failed(*part))
        .filter_map(|part| situation.run(part)?.exit())
        .peekable();
    let is_news = !situation.is_terminal() && !situation.is_expired();
    is_news && failed.peek().is_some() && failed.all(|exit| *exit == RunExit::NodeStopped)
}

fn names<'a>(statuses: impl Iterator<Item = &'a ContainerStatus>) -> String {
    statuses.map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns the readiness gates that other controllers have not met yet.
fn unmet_gates(situation: &PodSituation<'_>, status: &PodStatus) -> String {
    let is_met = |wanted: &str| {
        status.conditions.iter().flatten().any(|one| one.type_ == wanted && one.status == "True")
    };
    let gates = situation.spec.readiness_gates.iter().flatten().map(|gate| gate.condition_type.as_str());
    gates.filter(|wanted| !is_met(wanted)).collect::<Vec<_>>().join(", ")
}

/// True with an optional reason, or false with a reason and a message.
type ConditionValue = Result<Option<&'static str>, (&'static str, String)>;

fn set_condition(conditions: &mut Vec<PodCondition>, kind: &str, claim: ConditionValue, now: Timestamp) {
    let (status, reason, message) = match claim {
        Ok(reason) => ("True", reason, None),
        Err((reason, message)) => ("False", Some(reason), Some(message).filter(|words| !words.is_empty())),
    };
    let at = conditions.iter().position(|one| one.type_ == kind).unwrap_or_else(|| {
        conditions.push(PodCondition { type_: kind.to_owned(), ..PodCondition::default() });
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition.status != status {
        status.clone_into(&mut condition.status);
        condition.last_transition_time = Some(Time(now));
    }
    condition.reason = reason.map(ToOwned::to_owned);
    condition.message = message;
}

impl PodSituation<'_> {
    pub(crate) fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}
