//! Runs an operator, in this order: admin server, startup activities, definitions, watches, events, election,
//! controllers (each when its caches can be trusted). A single token stops it: watches and streams are cancelled,
//! controllers take no more keys and let running ones finish within the grace period, then their events are sent and
//! the lease is released.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Clock;
use homeostat_core::activity::Activity;
use homeostat_core::journal::{Entry, WatchState};
use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::tasks::Tasks;
use super::{Operator, definitions};
use crate::admin::{self, AdminPages, AdminPagesContext, AdminState};
use crate::admin_address::AdminAddress;
use crate::cache::Freshness;
use crate::cache::caches::{Caches, FeedDependencies};
use crate::controller::assemble::AssembledController;
use crate::election::{self, Election, Participation};
use crate::error::Error;
use crate::events::{self, EventRecorder};
use crate::kind::definition::Definition;
use crate::queue::Backoff;
use crate::rights::declared_writes::DeclaredWrites;
use crate::rights::permission_review;
use crate::rights::required_rules::Rule;
use crate::shared::OperatorShared;

/// The minimum time for sending the last events: together with the grace period, this is less than the 30 s after which
/// a Pod is killed.
const FLUSH_MIN: Duration = Duration::from_secs(2);

/// The pauses between two checks for missing permissions: people grant them while they watch, or much later.
const RIGHTS_AGAIN: Backoff = Backoff::exponential(Duration::from_secs(5), Duration::from_secs(300));

/// Records how many workers each controller has.
fn record_workers(shared: &OperatorShared, parts: &[AssembledController]) {
    for part in parts {
        let workers = u64::try_from(part.pump.concurrency).unwrap_or(u64::MAX);
        shared.journal.record(&part.name, Entry::ControllerStarted { workers });
    }
}

pub(crate) async fn run(operator: Operator, client: Client, stop: CancellationToken) -> Result<(), Error> {
    operator.verify()?;
    let rules = [operator.rules(), vec![Rule::events()]].concat();
    let lease_rules: Vec<Rule> = operator.election.rule().into_iter().collect();
    let (operator, admin_server) = listen(operator, &client).await?;
    let (recorder, notes) = EventRecorder::new();
    let shared = Arc::new(OperatorShared {
        name: operator.name.clone(),
        client: client.clone(),
        caches: Caches::default(),
        scope: operator.scope,
        journal: operator.journal.clone(),
        clock: operator.clock,
        entropy: operator.entropy.clone(),
        states: operator.states,
        recorder,
        fence: operator.election.fence(operator.term),
        declared: DeclaredWrites::new(&rules),
        admin_address: admin_server.as_ref().and_then(|server| server.announced.clone()),
        planned_calls: operator.planned_calls,
    });
    let activities = Arc::new(operator.activities);
    let activity = admin_server.as_ref().map(|server| Arc::clone(&server.activity));
    let admin_state = AdminState::new(&shared, activities.clone(), activity);
    let mut tasks = Tasks::new(stop.clone());
    // This comes first: a kubelet that gets no answer kills the process, however well it starts.
    if let Some(AdminServer { listener, pages, .. }) = admin_server {
        tasks.spawn("admin", admin::serve(listener, admin_state.clone(), pages));
    }
    tasks.spawn("states", end_over_missing_state(shared.clone(), stop.clone()));
    let starting = |words: String| admin_state.set_starting(words);
    match stop.run_until_cancelled(activities.start(&shared, &starting)).await {
        None => return shared.states.verify(),
        Some(started) => started?,
    }
    warn_of_missing_conditions(&operator.definitions, &rules);
    starting("installing definitions".to_owned());
    let installed = stop.run_until_cancelled(definitions::install(&shared, operator.definitions)).await;
    let Some(installed) = installed else { return Ok(()) };
    let parts: Vec<AssembledController> =
        operator.controls.into_iter().map(|control| control.0.assemble(&shared, operator.grace)).collect();
    admin_state.set_running(&parts);
    record_workers(&shared, &parts);
    if operator.reviews_rights {
        tasks.spawn("rights", report_rights(shared.clone(), rules, lease_rules, admin_state));
    }
    for kept in installed {
        tasks.spawn("definition", definitions::keep_installed(shared.clone(), kept));
    }
    spawn_watches(&mut tasks, &shared);
    let controllers = TaskTracker::new();
    let ended = flush_by(stop.clone(), controllers.clone(), shared.clock, operator.grace);
    tasks.spawn_heeding("events", events_of(&shared).run(notes, ended));
    if operator.election == Election::None {
        tasks.spawn_heeding("announcement", election::announce(shared.clone(), stop.clone()));
    }
    let members = parts.iter().map(AssembledController::lease_member).collect();
    let participation =
        Participation { election: operator.election, term: operator.term, grace: operator.grace };
    let held =
        election::hold_leases(participation, shared.clone(), members, stop.clone(), controllers.clone());
    tasks.spawn_heeding("election", held);
    for part in parts {
        start_controller(&mut tasks, part, &controllers, &stop);
    }
    controllers.close();
    let ended = tasks.join().await;
    activities.end(&shared, operator.grace).await;
    shared.states.verify().and(ended)
}

/// The admin server before it serves.
struct AdminServer {
    listener: TcpListener,
    /// Its further pages.
    pages: Option<Arc<dyn AdminPages>>,
    announced: Option<AdminAddress>,
    /// What the operator is doing, folded from its journal.
    activity: Arc<Activity>,
}

/// Takes the port of the admin server, if there is to be one, and creates its further pages.
async fn listen(mut operator: Operator, client: &Client) -> Result<(Operator, Option<AdminServer>), Error> {
    let Some(admin) = operator.admin.take() else { return Ok((operator, None)) };
    let listener = admin.listen().await?;
    let announced = AdminAddress::of_listener(&listener, client.default_namespace());
    let activity = Arc::new(Activity::default());
    let observer = Arc::clone(&activity);
    operator.journal.fold(move |record| observer.observe(record));
    let parts = operator.admin_pages.take().zip(operator.viewer_client.take());
    let pages = parts.zip(listener.local_addr().ok()).map(|((make, client), address)| {
        make(AdminPagesContext {
            name: operator.name.to_string(),
            client,
            address,
            announced: announced.clone(),
            journal: operator.journal.clone(),
            activity: Arc::clone(&activity),
            clock: operator.clock,
        })
    });
    Ok((operator, Some(AdminServer { listener, pages, announced, activity })))
}

/// Stops the operator when its code requests a state that `main` did not provide: a retry would not help.
async fn end_over_missing_state(shared: Arc<OperatorShared>, stop: CancellationToken) {
    shared.states.find_missing().await;
    if let Err(error) = shared.states.verify() {
        tracing::error!(%error, "stopping");
    }
    stop.cancel();
}

fn warn_of_missing_conditions(definitions: &[Arc<Definition>], rules: &[Rule]) {
    for kind in definitions::without_conditions(definitions, rules) {
        tracing::warn!(
            kind,
            "the status of this kind has no field `conditions`, so the server drops every condition, also those that the \
             runtime sets on failing objects; flatten StandardStatus into the status"
        );
    }
}

/// Cancels `stop` on SIGTERM or ctrl-c.
pub(crate) fn stop_on_signal(stop: CancellationToken) -> Result<AbortOnDropHandle<()>, Error> {
    let listen = |kind| {
        signal(kind).map_err(|source| Error::Local { what: "cannot listen for signals".to_owned(), source })
    };
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    })))
}

/// Logs which permissions are missing, and checks again until the server has confirmed all of them.
async fn report_rights(
    shared: Arc<OperatorShared>,
    rules: Vec<Rule>,
    lease_rules: Vec<Rule>,
    admin_state: Arc<AdminState>,
) {
    let (client, namespace) = (&shared.client, shared.scope.namespace.as_deref());
    let mut known = Vec::new();
    for looks in 1.. {
        let leases =
            permission_review::review_rights(client, Some(client.default_namespace()), &lease_rules).await;
        let rights = permission_review::review_rights(client, namespace, &rules).await.join(leases);
        for missing in rights.missing.iter().filter(|missing| !known.contains(*missing)) {
            tracing::warn!("this operator {missing}; its `manifests` command prints the rights it needs");
        }
        if let Some(first) = rights.unknown.first() {
            tracing::debug!(
                count = rights.unknown.len(),
                first,
                "some rights are not known yet; asking again"
            );
        }
        admin_state.set_rights(rights.clone());
        if rights.are_complete() {
            return;
        }
        known = rights.missing;
        tokio::time::sleep(RIGHTS_AGAIN.delay(looks, &shared.entropy)).await;
    }
}

fn events_of(shared: &OperatorShared) -> events::EventSender {
    let (name, entropy) = (shared.name.to_string(), shared.entropy.clone());
    events::EventSender::new(shared.client.clone(), name, shared.clock, entropy)
}

/// Waits until the last reconcile has finished after the stop, and returns the time by which its events must be sent:
/// within the grace period, or shortly after it if the reconciles took the whole period.
async fn flush_by(
    stop: CancellationToken,
    controllers: TaskTracker,
    clock: Clock,
    grace: Duration,
) -> Instant {
    stop.cancelled().await;
    let stopped = clock.instant();
    controllers.wait().await;
    (stopped + grace).max(clock.instant() + FLUSH_MIN)
}

fn spawn_watches(tasks: &mut Tasks, shared: &OperatorShared) {
    let supply = FeedDependencies {
        client: shared.client.clone(),
        journal: shared.journal.clone(),
        source: shared.name.clone(),
        entropy: shared.entropy.clone(),
    };
    for (scope, cache) in shared.caches.all() {
        tasks.spawn(format!("watch {}", cache.info().resource), supply.feed(cache, scope));
    }
}

/// Starts a controller: its streams at once, its workers when its caches can be trusted.
fn start_controller(
    tasks: &mut Tasks,
    part: AssembledController,
    controllers: &TaskTracker,
    stop: &CancellationToken,
) {
    for stream in part.streams {
        tasks.spawn(format!("stream of {}", part.name), stream);
    }
    for companion in part.companions {
        let companion = controllers.track_future(companion(stop.clone()));
        tasks.spawn_heeding(format!("companion of {}", part.name), companion);
    }
    let (pump, freshness, stop) = (part.pump, part.freshness, stop.clone());
    let work = controllers.track_future(async move {
        if stop.run_until_cancelled(wait_until_trusted(freshness)).await.is_some() {
            pump.run(stop).await;
        }
    });
    tasks.spawn_heeding(format!("controller {}", part.name), work);
}

/// Waits until the main cache is complete and every other one is complete or known to be cut off: a single missing kind
/// or permission must not keep the others from working, and reading from its cache is an error until it recovers.
async fn wait_until_trusted(freshness: Vec<watch::Receiver<Freshness>>) {
    for (index, mut receiver) in freshness.into_iter().enumerate() {
        let is_enough = |freshness: &Freshness| {
            freshness.is_synced || (index > 0 && matches!(freshness.state, WatchState::Failing { .. }))
        };
        // The sender lives in the cache, which lives as long as the operator.
        let _ = receiver.wait_for(is_enough).await;
    }
}
