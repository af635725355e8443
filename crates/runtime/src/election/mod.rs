//! Decides which replica acts when several run: one leader, or each replica for its shards. The result is the fence,
//! which all work enters and which is checked before every write; nothing else in the runtime knows about elections.
//!
//! **Invariant:** a lease is released only when nothing runs under it any more. A lease that cannot be renewed expires:
//! the fence cancels the work under it a third of a term before another replica may acquire it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::journal::Entry;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod admin_announcement;
mod lease_client;
mod lease_rules;
mod shard_count_agreement;
mod shards;

pub(crate) use admin_announcement::announce;
use lease_client::{LeaseClient, LeaseName, Replica};
pub(crate) use lease_rules::TERM;
use lease_rules::{LeaseCandidate, LeaseTimes};
use shards::{Shards, shard_name};

use crate::error::Error;
use crate::fault::Fault;
use crate::fence::Fence;
use crate::kind::object_name;
use crate::rights::required_rules::Rule;
use crate::shared::OperatorShared;
use crate::workers::controller_queue::ControllerQueue;

/// The time between two checks for work that is still running in a shard that is to be handed over. A check costs no
/// request.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// How the replicas of an operator share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Election {
    /// There is one replica.
    None,
    /// One acts, the others wait.
    Leader,
    /// Each acts on its own shards, out of this many.
    Shards(u32),
}

impl Election {
    /// Returns the initial fence, before anything is known.
    pub(crate) fn fence(self, term: Duration) -> Fence {
        match self {
            Self::None => Fence::unlimited(),
            Self::Leader | Self::Shards(_) => Fence::closed(LeaseTimes::new(term).spare),
        }
    }

    /// Returns the permission that the election needs. A leader knows its Lease by name; replicas that share the work
    /// find each other by listing, and remove the Leases of replicas that died.
    pub(crate) fn rule(self) -> Option<Rule> {
        let verbs: &[&str] = match self {
            Self::None => return None,
            Self::Leader => &["get", "create", "update"],
            Self::Shards(_) => &["get", "list", "create", "update", "delete"],
        };
        Some(Rule::on::<Lease>("", verbs))
    }
}

/// How a replica takes part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Participation {
    pub(crate) election: Election,
    /// How long others wait without a renewal before they take over.
    pub(crate) term: Duration,
    /// How long work in a shard that is to be handed over may take to finish.
    pub(crate) grace: Duration,
}

/// Queues every object of these shards.
pub(crate) type Relist = Arc<dyn Fn(&BTreeSet<u32>) + Send + Sync>;

/// A controller as the election sees it.
#[derive(Clone)]
pub(crate) struct LeaseMember {
    pub(crate) queue: ControllerQueue,
    /// Queues the objects of the main kind in these shards, when this replica gains them.
    pub(crate) relist: Relist,
}

/// Keeps the fence up to date until `stop` is signalled and the controllers have ended, then releases the leases.
pub(crate) async fn hold_leases(
    part: Participation,
    shared: Arc<OperatorShared>,
    members: Vec<LeaseMember>,
    stop: CancellationToken,
    controllers: TaskTracker,
) {
    let chance = shared.entropy.next_u64() >> 32;
    // Without a lease there is no need for its name, which is read from the system.
    if part.election == Election::None {
        return;
    }
    let (operator, terms) = (object_name(shared.name.as_str()), LeaseTimes::new(part.term));
    let identity = replica_identity(chance);
    let holder = LeaseClient::new(
        shared.client.clone(),
        Replica { operator, identity, admin_address: shared.admin_address.clone() },
        shared.clock,
        terms,
    );
    let ended = async {
        stop.cancelled().await;
        controllers.wait().await;
    };
    match part.election {
        Election::None => {}
        Election::Leader => {
            let mut candidate = LeaseCandidate::default();
            tokio::select! {
                () = run_leader(&holder, &shared, &mut candidate) => {}
                () = shared.fence.enforce() => {}
                () = ended => {}
            }
            shared.fence.end_all();
            log_failed_release(holder.release(&holder.operator, &mut candidate).await);
        }
        Election::Shards(count) => {
            let mut shards = Shards::new(count, part.grace);
            tokio::select! {
                () = run_sharded(&holder, &shared, &mut shards, &members) => {}
                () = shared.fence.enforce() => {}
                () = ended => {}
            }
            shared.fence.end_all();
            log_failed_release(shards.leave(&holder).await);
        }
    }
}

/// Runs the leader's loop. If a renewal gets no response, leadership expires.
async fn run_leader(holder: &LeaseClient, shared: &OperatorShared, candidate: &mut LeaseCandidate) {
    let (mut was_leader, mut trouble) = (false, LeaseFailures::default());
    let lease = LeaseName { name: &holder.operator, count: None };
    loop {
        let renewed = holder.acquire_or_renew(lease, candidate).await;
        if let Ok(right) = &renewed {
            shared.fence.set_leader(*right);
        }
        holder.report_wait(&holder.operator, candidate);
        trouble.report(renewed.err(), holder.terms);
        let is_leader = shared.fence.is_open();
        if is_leader != was_leader {
            record_lease_change(shared, &holder.operator, LeaseChange::from_holding(is_leader));
            was_leader = is_leader;
        }
        tokio::time::sleep(next_renewal_in(holder, shared)).await;
    }
}

/// Runs the loop of a replica that shares the work.
async fn run_sharded(
    holder: &LeaseClient,
    shared: &OperatorShared,
    shards: &mut Shards,
    members: &[LeaseMember],
) {
    let mut trouble = LeaseFailures::default();
    loop {
        let renewed = shards.renew_and_bid(holder).await;
        publish(holder, shared, shards, members);
        trouble.report(renewed.err(), holder.terms);
        let next = Instant::now() + next_renewal_in(holder, shared);
        while shards.is_leaving() && Instant::now() < next {
            if !hand_over(holder, shared, shards, members).await {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Reports to the fence which shards are held, and to the controllers which ones start.
fn publish(holder: &LeaseClient, shared: &OperatorShared, shards: &Shards, members: &[LeaseMember]) {
    let begun = shards.publish(&shared.fence);
    for &shard in begun.gained.iter().chain(&begun.resumed) {
        record_lease_change(shared, &shard_name(holder, shard), LeaseChange::Gained);
    }
    for one in members {
        begun.gained.iter().chain(&begun.resumed).for_each(|shard| one.queue.resume(*shard));
        if !begun.gained.is_empty() {
            (one.relist)(&begun.gained);
        }
    }
}

/// Releases shards that should move and in which nothing runs any more; returns whether there were any.
async fn hand_over(
    holder: &LeaseClient,
    shared: &OperatorShared,
    shards: &mut Shards,
    members: &[LeaseMember],
) -> bool {
    let vacated = shards.vacated(&shared.fence, Instant::now());
    if vacated.is_empty() {
        return false;
    }
    for &shard in &vacated {
        record_lease_change(shared, &shard_name(holder, shard), LeaseChange::Lost);
    }
    let released = shards.release(holder, &vacated).await;
    publish(holder, shared, shards, members);
    for one in members {
        for shard in &vacated {
            one.queue.forget(*shard);
        }
    }
    log_failed_release(released);
    true
}

fn log_failed_release(answer: Result<(), Error>) {
    if let Err(error) = answer {
        tracing::debug!(error = %Fault::from(error), "lease not given back; it expires by itself");
    }
}

/// How a lease's leadership changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseChange {
    Gained,
    Lost,
}

impl LeaseChange {
    fn from_holding(is_held: bool) -> Self {
        if is_held { Self::Gained } else { Self::Lost }
    }
}

fn record_lease_change(shared: &OperatorShared, lease: &str, change: LeaseChange) {
    let is_leader = change == LeaseChange::Gained;
    tracing::info!(lease, is_leader, "lease changed hands");
    shared.journal.record(&shared.name, Entry::Led { lease: lease.to_owned(), is_leader });
}

/// Returns when to read next, with jitter, so that replicas that started together do not read at the same time.
fn next_renewal_in(holder: &LeaseClient, shared: &OperatorShared) -> Duration {
    holder.terms.renew_every.mul_f64(0.8 + 0.4 * shared.entropy.unit())
}

/// Returns the identity of a replica: host, process and a random number, which by itself makes it unique.
fn replica_identity(chance: u64) -> String {
    // In a Pod, the host name is the Pod's name.
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.map(|name| object_name(name.trim())).unwrap_or_default();
    let host = if host.is_empty() { "replica" } else { &host };
    format!("{host}_{}_{chance:08x}", std::process::id())
}

/// Whether reads or renewals of the lease are failing. Failures in a row are reported once when they begin and once
/// when they end.
#[derive(Default)]
struct LeaseFailures(bool);

impl LeaseFailures {
    fn report(&mut self, failed: Option<Error>, terms: LeaseTimes) {
        let was_failing = std::mem::replace(&mut self.0, failed.is_some());
        match failed.map(Fault::from) {
            Some(error) if was_failing => tracing::debug!(%error, "leases not renewed"),
            Some(error) => {
                tracing::warn!(%error, retry = ?terms.renew_every, "leases not renewed; trying again until they are");
            }
            None if was_failing => tracing::info!("leases are renewed again"),
            None => {}
        }
    }
}
