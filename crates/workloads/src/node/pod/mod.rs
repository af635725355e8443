//! Implements the controller for Pods bound to this node: it compares a Pod with its processes, takes the missing
//! steps, and writes the status.
//!
//! Reading order: [`container_roles`] (which containers a Pod has), [`plan`] (the next steps) and `restart`,
//! [`container_identity`] (which users the containers run as), `container_launch` (how a process is prepared),
//! [`status`] and [`phase`] (what the API shows).

mod change_owner;
mod container_identity;
mod container_launch;
pub(crate) mod container_roles;
mod downward_api;
mod environment;
mod events;
mod expand_variables;
mod external_volume;
mod mount_path;
mod phase;
mod plan;
mod pod_folders;
mod pod_users;
mod process_capabilities;
mod restart;
pub(crate) mod service_account;
mod service_variables;
mod status;
mod termination_log;
mod unsupported_security;
mod value_sources;
mod volume_files;
mod volumes;

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::Stream;
use homeostat_runtime::{Action, BuiltController, Context, Controller, ObjectName, Result, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus, Secret, Service, ServiceAccount,
};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};

use super::NodeShared;
use super::options::RestartBackoff;
use super::pod_addresses;
use super::probe::PodHealth;
use super::service_account_tokens::PodTokens;
use super::supervisor::protocol::{ContainerKey, SupervisorRequest};
use super::supervisor_client::PodRuns;
pub(crate) use container_identity::IdentityPolicy;
use container_identity::PodIdentities;
use environment::config_error;
pub(crate) use phase::is_finished;
use plan::{PodPlan, PodSituation};
use status::{StartRefusal, StartRefusals};
use value_sources::CachedSources;

/// How many Pods are reconciled concurrently. Each takes a few requests to the supervisor and one write.
const CONCURRENCY: usize = 16;
/// When to recheck a Pod whose volume is not bound yet: another controller binds the volume a moment later.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn control(triggers: impl Stream<Item = ObjectName> + Send + 'static) -> BuiltController {
    Controller::<Pod>::new()
        .needs_state::<NodeShared>()
        .named("node")
        .to_the_end()
        .references::<ConfigMap, _>(value_sources::config_maps)
        .references::<Secret, _>(value_sources::secrets)
        .references::<ServiceAccount, _>(service_account::account_target)
        .references::<PersistentVolumeClaim, _>(value_sources::claims)
        .reads::<PersistentVolume>()
        .writes_status::<Pod>()
        .reads::<Service>()
        .on("processes", triggers)
        .concurrency(CONCURRENCY)
        .reconcile(reconcile)
}

async fn reconcile(pod: Arc<Pod>, cx: Context<Pod>) -> Result {
    let shared = cx.state::<NodeShared>();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    if !node.is_some_and(|node| shared.options.has_name(node)) {
        return Ok(Action::await_change());
    }
    let pod = with_account(&shared, pod, &cx)?;
    let Some(spec) = &pod.spec else { return Ok(Action::await_change()) };
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let runs = shared.supervisor.runs_of_pod(uid);
    let health = shared.prober.health(uid);
    let address = shared.addresses.assign(&pod);
    let situation = PodSituation {
        pod: &pod,
        spec,
        runs: &runs,
        health: &health,
        now: cx.now(),
        backoff: shared.options.backoff,
        address,
    };
    let plan = situation.plan();
    let pod_tokens = match situation.must_end() {
        Some(_) => PodTokens::default(),
        None => shared.tokens.tokens_of_pod(cx.client(), &pod, cx.now()).await,
    };
    let sources = CachedSources { cx: &cx, tokens: pod_tokens.tokens };
    let addressed = with_address(&pod, address);
    let identities = match situation.must_end() {
        Some(_) => Err(config_error("the Pod is being deleted".to_owned())),
        None => pod_users::identities_of_pod(&shared, &addressed, &sources),
    };
    let refusals = carry_out_plan(&shared, &sources, &situation, &plan, &identities)?;
    let identities = identities.ok();
    events::report_runs(&shared, &cx, &situation, identities.as_ref());
    events::report_ephemeral_containers(&cx, &situation);
    for failure in shared.prober.take_failures(uid) {
        cx.event(Severity::Warning, "Unhealthy", failure);
    }
    if let Some(identities) = &identities {
        unsupported_security::report(&shared, &cx, identities);
        volumes::refresh(&shared, identities, &sources);
    }
    shared.prober.sync(&addressed, &runs, |container| {
        container_launch::container_process(&shared, identities.as_ref()?, container, &sources).ok()
    });
    let current = pod.status.clone().unwrap_or_default();
    let mut wanted = current.clone();
    status::write_status(&situation, &refusals, &mut wanted);
    if wanted != current {
        cx.replace_status(&wanted);
    } else if is_to_be_deleted(&situation) {
        delete_pod(&pod, &cx).await?;
    }
    let again = refusals.values().any(|refusal| refusal.is_temporary).then_some(REFUSED_AGAIN);
    let wake = plan.wake.into_iter().chain(pod_tokens.again).chain(again).min();
    Ok(wake.map_or_else(Action::await_change, Action::requeue))
}

/// Returns the Pod with its account mounted, if this node knows the server and the Pod requests it.
fn with_account(shared: &NodeShared, pod: Arc<Pod>, cx: &Context<Pod>) -> Result<Arc<Pod>> {
    if shared.options.server.is_none() {
        return Ok(pod);
    }
    let known = cx.get::<ServiceAccount>(service_account::account_name(&pod))?;
    Ok(if service_account::wants_token(&pod, known.as_deref()) {
        service_account::with_account_mounted(&pod)
    } else {
        pod
    })
}

/// Returns the Pod as its containers see it: with the address that its status will show.
fn with_address(pod: &Pod, address: Ipv4Addr) -> Cow<'_, Pod> {
    if pod_addresses::reported_address(pod) == Some(address) {
        return Cow::Borrowed(pod);
    }
    let mut pod = pod.clone();
    pod.status.get_or_insert_default().pod_ip = Some(address.to_string());
    Cow::Owned(pod)
}

/// Returns a Pod's status after its node has stopped; `None` if the status already says so.
pub(crate) fn last_status(
    pod: &Pod,
    runs: &PodRuns,
    now: Timestamp,
    backoff: RestartBackoff,
) -> Option<PodStatus> {
    let address = pod_addresses::reported_address(pod).unwrap_or(Ipv4Addr::LOCALHOST);
    let spec = pod.spec.as_ref()?;
    let situation = PodSituation { pod, spec, runs, health: &PodHealth::default(), now, backoff, address };
    let current = pod.status.clone().unwrap_or_default();
    let mut wanted = current.clone();
    status::write_status(&situation, &StartRefusals::new(), &mut wanted);
    (wanted != current).then_some(wanted)
}

/// Carries out the plan. Returns the containers that cannot be started.
fn carry_out_plan(
    shared: &NodeShared,
    sources: &CachedSources<'_>,
    situation: &PodSituation<'_>,
    plan: &PodPlan<'_>,
    identities: &Result<PodIdentities<'_>, StartRefusal>,
) -> Result<StartRefusals> {
    let (cx, mut refusals) = (sources.cx, StartRefusals::new());
    for start in &plan.starts {
        let launch = match identities {
            Ok(identities) => container_launch::container_launch(shared, identities, start, sources),
            Err(refusal) => Err(refusal.clone()),
        };
        match launch {
            Ok(launch) => {
                shared.supervisor.send_request(SupervisorRequest::Start(Box::new(launch)))?;
            }
            Err(refusal) => {
                events::report_refusal(cx, start.part, &refusal);
                refusals.insert(start.part.container.name.clone(), refusal);
            }
        }
    }
    for stop in &plan.stops {
        let id = ContainerKey { pod: situation.uid().to_owned(), container: stop.container.clone() };
        let grace_ms = u64::try_from(stop.grace.as_millis()).unwrap_or(u64::MAX);
        shared.supervisor.send_request(SupervisorRequest::Stop { id, grace_ms })?;
        let message = match stop.unhealthy {
            Some(probe) => format!("Container {} failed {probe} probe, will be restarted", stop.container),
            None => format!("Stopping container {}", stop.container),
        };
        cx.event(Severity::Normal, "Killing", message);
    }
    Ok(refusals)
}

/// Returns whether all processes have exited and the status shows it, so that the Pod can be deleted.
fn is_to_be_deleted(situation: &PodSituation<'_>) -> bool {
    let meta = &situation.pod.metadata;
    // With a grace period of zero, deletion was already requested, and other controllers' finalizers hold the Pod.
    meta.deletion_timestamp.is_some()
        && situation.has_no_processes()
        && meta.deletion_grace_period_seconds != Some(0)
}

async fn delete_pod(pod: &Pod, cx: &Context<Pod>) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cx.client().clone(), cx.key().namespace());
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match pods.delete(cx.key().name(), &params).await {
        Ok(_) => Ok(()),
        // It is gone, or a different Pod now has its name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
