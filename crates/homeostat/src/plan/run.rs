//! Runs the operator on an in-memory control plane, in virtual time: until it is at rest without the change, then with
//! it.
//!
//! There is one runtime, one thread and one seed, so the same input yields the same plan. The operator is one value and
//! runs once, so the state without the change is the state at rest before the change is made, as on a cluster whose
//! operator is running.

use std::sync::Arc;
use std::time::Duration;

use homeostat_apiserver::ApiServer;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_apiserver::preload::{Preload, stored_objects};
use homeostat_core::{Clock, Entropy, Key};
use homeostat_runtime::{CancellationToken, Operator, PlannedCall, PlannedCalls};
use homeostat_store::{Limits, Memory, SharedStore, Store};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use super::apply::{adopt_client_side_fields, make_change, translate_versions};
use super::change::Change;
use super::error::PlanError;
use super::journal_summary::{JournalSummary, SharedSummary};
use super::report::{DueLater, FailingObject};
use super::rest::RestWatcher;
use super::snapshot::ClusterState;

/// The seed for names and uids in the plan.
const SEED: u64 = 7;

/// How long the server's own background work may be silent before it counts as done.
const SERVER_QUIET: Duration = Duration::from_secs(1);

/// The input of a run.
pub(super) struct PlanInput {
    pub(super) state: ClusterState,
    pub(super) operator: Operator,
    pub(super) change: Change,
    pub(super) admission: AdmissionConfig,
    pub(super) start: Timestamp,
    pub(super) calls: PlannedCalls,
}

/// All objects at one point in time, by key.
pub(super) type ObjectStates = Vec<(Key, Value)>;

/// The state at rest at the end of a phase, and what happened in it.
pub(super) struct PhaseEnd {
    pub(super) objects: ObjectStates,
    pub(super) calls: Vec<PlannedCall>,
    pub(super) at: Timestamp,
}

/// The result of a run.
pub(super) struct PlanRun {
    /// The cluster as it was read.
    pub(super) start: PhaseEnd,
    /// The state at rest without the change.
    pub(super) baseline: PhaseEnd,
    /// The state at rest with the change.
    pub(super) result: PhaseEnd,
    pub(super) failing: Vec<FailingObject>,
    pub(super) later: Vec<DueLater>,
    pub(super) has_worlds: bool,
    pub(super) is_delete: bool,
}

/// Runs everything on its own runtime with virtual time. This blocks its thread.
pub(super) fn run_in_virtual_time(input: PlanInput) -> Result<PlanRun, PlanError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(|error| PlanError::ControlPlane(error.to_string()))?;
    let run = runtime.block_on(run_to_rest(input));
    // Tasks of the operator may still be waiting for something real.
    runtime.shutdown_background();
    run
}

async fn run_to_rest(input: PlanInput) -> Result<PlanRun, PlanError> {
    let PlanInput { mut state, operator, mut change, admission, start, calls } = input;
    let clock = Clock::virtual_from(start);
    translate_versions(&mut change, &state.objects);
    adopt_client_side_fields(&mut state.objects, &change);
    let store = Arc::new(Memory::with(clock, Limits::default()));
    let (client, mut tasks) = serve(&state, &store, admission, clock).await?;
    let mut watcher = RestWatcher::new(Arc::clone(&store), calls.clone(), clock);
    watcher.rest(SERVER_QUIET, &SharedSummary::default()).await?;
    let phase_end = |calls: Vec<PlannedCall>| PhaseEnd {
        objects: stored_objects(&store.snapshot()),
        calls,
        at: clock.now(),
    };
    let begin = phase_end(Vec::new());

    let operator = operator.time_and_chance(clock, Entropy::seeded(SEED + 1)).without_admin();
    let operator = operator.without_rights_review().planned(calls.clone());
    let summary = SharedSummary::default();
    JournalSummary::follow(&operator.journal(), &summary);
    let running = operator.run_on(client.clone(), CancellationToken::new());
    let ended = summary.clone();
    tasks.spawn(async move {
        let end = running.await;
        ended.lock().ended = Some(end.map_or_else(|error| error.to_string(), |()| "it returned".to_owned()));
    });
    watcher.rest_of_operator(&summary).await?;
    let baseline = phase_end(calls.take());

    summary.lock().begin_phase();
    make_change(&client, &change).await?;
    watcher.rest_of_operator(&summary).await?;
    let result = phase_end(calls.take());
    let summary = summary.lock();
    Ok(PlanRun {
        start: begin,
        baseline,
        result,
        failing: summary.failing(),
        later: summary.due_later(clock.now()),
        has_worlds: summary.has_worlds(),
        is_delete: change.is_delete,
    })
}

/// Starts a server on the cluster's objects. Its tasks stop when the set is dropped.
async fn serve(
    state: &ClusterState,
    store: &Arc<Memory>,
    admission: AdmissionConfig,
    clock: Clock,
) -> Result<(Client, JoinSet<()>), PlanError> {
    /// The namespace of the operator's own objects.
    const NAMESPACE: &str = "default";
    let failed = |error: homeostat_store::Error| PlanError::ControlPlane(error.to_string());
    let shared: SharedStore = Arc::<Memory>::clone(store);
    let preload = Preload::new(Arc::clone(&shared), &state.definitions).await.map_err(failed)?;
    preload.add(&state.objects).await.map_err(failed)?;
    let builder = ApiServer::builder(shared).clock(clock).entropy(Entropy::seeded(SEED)).admission(admission);
    let (server, background) = builder.build().await.map_err(failed)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(background.run(CancellationToken::new()));
    Ok((Client::new(server, NAMESPACE), tasks))
}
