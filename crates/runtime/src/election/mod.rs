//! Who acts when several replicas run: one leader, or each its shards. The result is the fence, which everything that
//! acts enters and every write asks; nothing else in the runtime knows about elections.
//!
//! **Invariant:** a lease is given back only when nothing runs under it any more. One that cannot be renewed ends by
//! itself: the fence cuts off what runs under it, a third of a term before another may take it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::journal::Entry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod agreement;
mod holder;
mod lease;
mod shards;

use holder::{Holder, LeaseName};
pub(crate) use lease::TERM;
use lease::{Candidate, Terms};
use shards::{Shards, shard_name};

use crate::controller_queue::ControllerQueue;
use crate::error::Error;
use crate::fault::Fault;
use crate::fence::Fence;
use crate::manifests::object_name;
use crate::shared::OperatorShared;

/// Between two looks at what still runs in a shard that is to be given back. They cost no request.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// How the replicas of an operator share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Election {
    /// There is one replica.
    None,
    /// One acts, the others wait.
    Leader,
    /// Each acts on its shards, of this many.
    Shards(u32),
}

impl Election {
    /// The fence as it is before anything is known.
    pub(crate) fn fence(self, term: Duration) -> Fence {
        match self {
            Self::None => Fence::unlimited(),
            Self::Leader | Self::Shards(_) => Fence::closed(Terms::new(term).spare),
        }
    }
}

/// How a replica takes part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Participation {
    pub(crate) election: Election,
    /// How long others wait without a renewal before they take over.
    pub(crate) term: Duration,
    /// How long what runs in a shard that is to be given back may take.
    pub(crate) grace: Duration,
}

/// Queues every object of these shards.
pub(crate) type Relist = Arc<dyn Fn(&BTreeSet<u32>) + Send + Sync>;

/// A controller as the election sees it.
#[derive(Clone)]
pub(crate) struct LeaseMember {
    pub(crate) queue: ControllerQueue,
    /// Queues the objects of the main kind that are in these shards: for shards that came to us.
    pub(crate) relist: Relist,
}

/// Keeps the fence true until `stop` came and the controllers have ended, then gives the leases back.
pub(crate) async fn hold_leases(
    part: Participation,
    shared: Arc<OperatorShared>,
    members: Vec<LeaseMember>,
    stop: CancellationToken,
    controllers: TaskTracker,
) {
    let (operator, terms) = (object_name(shared.name.as_str()), Terms::new(part.term));
    let identity = identity(shared.entropy.next_u64() >> 32);
    let holder = Holder::new(shared.client.clone(), (operator, identity), shared.clock, terms);
    let ended = async {
        stop.cancelled().await;
        controllers.wait().await;
    };
    match part.election {
        Election::None => {}
        Election::Leader => {
            let mut candidate = Candidate::default();
            tokio::select! {
                () = lead(&holder, &shared, &mut candidate) => {}
                () = shared.fence.enforce() => {}
                () = ended => {}
            }
            shared.fence.end_all();
            given_back(holder.release(&holder.operator, &mut candidate).await);
        }
        Election::Shards(count) => {
            let mut shards = Shards::new(count, part.grace);
            tokio::select! {
                () = share(&holder, &shared, &mut shards, &members) => {}
                () = shared.fence.enforce() => {}
                () = ended => {}
            }
            shared.fence.end_all();
            given_back(shards.leave(&holder).await);
        }
    }
}

/// The leader's loop. An unanswered renewal leaves the right to end by itself.
async fn lead(holder: &Holder, shared: &OperatorShared, candidate: &mut Candidate) {
    let (mut was_leader, mut trouble) = (false, LeaseTrouble::default());
    let lease = LeaseName { name: &holder.operator, count: None };
    loop {
        let look = holder.look(lease, candidate).await;
        if let Ok(right) = &look {
            shared.fence.lead(*right);
        }
        holder.tell_wait(&holder.operator, candidate);
        trouble.report(look.err(), holder.terms);
        let is_leader = shared.fence.is_open();
        if is_leader != was_leader {
            record_lease_change(shared, &holder.operator, is_leader);
            was_leader = is_leader;
        }
        tokio::time::sleep(jittered(holder, shared)).await;
    }
}

/// The loop of a replica that shares.
async fn share(holder: &Holder, shared: &OperatorShared, shards: &mut Shards, members: &[LeaseMember]) {
    let mut trouble = LeaseTrouble::default();
    loop {
        let look = shards.look(holder).await;
        publish(holder, shared, shards, members);
        trouble.report(look.err(), holder.terms);
        let next = Instant::now() + jittered(holder, shared);
        while shards.is_leaving() && Instant::now() < next {
            if !hand_over(holder, shared, shards, members).await {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Tells the fence what is held, and the controllers what begins.
fn publish(holder: &Holder, shared: &OperatorShared, shards: &Shards, members: &[LeaseMember]) {
    let begun = shards.publish(&shared.fence);
    for &shard in begun.gained.iter().chain(&begun.resumed) {
        record_lease_change(shared, &shard_name(holder, shard), true);
    }
    for one in members {
        begun.gained.iter().chain(&begun.resumed).for_each(|shard| one.queue.resume(*shard));
        if !begun.gained.is_empty() {
            (one.relist)(&begun.gained);
        }
    }
}

/// Gives back shards that are to go and in which nothing runs any more; returns whether there were any.
async fn hand_over(
    holder: &Holder,
    shared: &OperatorShared,
    shards: &mut Shards,
    members: &[LeaseMember],
) -> bool {
    let vacated = shards.vacated(&shared.fence, Instant::now());
    if vacated.is_empty() {
        return false;
    }
    for &shard in &vacated {
        record_lease_change(shared, &shard_name(holder, shard), false);
    }
    let released = shards.release(holder, &vacated).await;
    publish(holder, shared, shards, members);
    for one in members {
        for shard in &vacated {
            one.queue.forget(*shard);
        }
    }
    given_back(released);
    true
}

fn given_back(answer: Result<(), Error>) {
    if let Err(error) = answer {
        tracing::debug!(error = %Fault::from(error), "lease not given back; it expires by itself");
    }
}

fn record_lease_change(shared: &OperatorShared, lease: &str, is_leader: bool) {
    tracing::info!(lease, is_leader, "lease changed hands");
    shared.journal.record(&shared.name, Entry::Led { lease: lease.to_owned(), is_leader });
}

/// Replicas that started together should not look together.
fn jittered(holder: &Holder, shared: &OperatorShared) -> Duration {
    holder.terms.look_every.mul_f64(0.8 + 0.4 * shared.entropy.unit())
}

/// What a replica is called: host, process and a number by chance, which alone makes it one of a kind.
fn identity(chance: u64) -> String {
    // In a Pod the host is named after it.
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.map(|name| object_name(name.trim())).unwrap_or_default();
    let host = if host.is_empty() { "replica" } else { &host };
    format!("{host}_{}_{chance:08x}", std::process::id())
}

/// Looks that fail in a row are told once, when they begin, and once when they are over.
#[derive(Default)]
struct LeaseTrouble(bool);

impl LeaseTrouble {
    fn report(&mut self, failed: Option<Error>, terms: Terms) {
        let was_failing = std::mem::replace(&mut self.0, failed.is_some());
        match failed.map(Fault::from) {
            Some(error) if was_failing => tracing::debug!(%error, "leases not renewed"),
            Some(error) => {
                tracing::warn!(%error, retry = ?terms.look_every, "leases not renewed; trying again until they are");
            }
            None if was_failing => tracing::info!("leases are renewed again"),
            None => {}
        }
    }
}
