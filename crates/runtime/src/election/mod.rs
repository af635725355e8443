//! Who acts when several replicas run: one leader, or each its shards. The result is the fence, which every write and
//! every worker asks; nothing else in the runtime knows about elections.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::journal::Entry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod holder;
mod lease;
mod shards;

use holder::Holder;
pub(crate) use lease::TERM;
use lease::{Candidate, Terms};
use shards::{Shards, shard_name};

use crate::error::Error;
use crate::fault::Fault;
use crate::fence::Right;
use crate::ground::Ground;
use crate::inbox::Inbox;
use crate::manifests::object_name;

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
    pub(crate) fn initial_right(self) -> Right {
        match self {
            Self::None => Right::Unlimited,
            Self::Leader | Self::Shards(_) => Right::None,
        }
    }

    pub(crate) fn uses_leases(self) -> bool {
        self != Self::None
    }
}

/// A controller as the election sees it.
#[derive(Clone)]
pub(crate) struct Constituent {
    pub(crate) inbox: Inbox,
    /// Queues every object of the main kind: for shards that came to us.
    pub(crate) relist: Arc<dyn Fn() + Send + Sync>,
}

/// Keeps the fence true until `stop` came and the controllers have ended, then gives the leases back.
pub(crate) async fn hold(
    (election, term): (Election, Duration),
    ground: Arc<Ground>,
    constituents: Vec<Constituent>,
    stop: CancellationToken,
    controllers: TaskTracker,
) {
    let (operator, terms) = (object_name(ground.name.as_str()), Terms::new(term));
    let identity = identity(ground.entropy.next_u64() >> 32);
    let holder = Holder::new(ground.client.clone(), (operator, identity), ground.clock, terms);
    let ended = async {
        stop.cancelled().await;
        controllers.wait().await;
    };
    match election {
        Election::None => {}
        Election::Leader => {
            let mut candidate = Candidate::default();
            tokio::select! {
                () = lead(&holder, &ground, &mut candidate) => {}
                () = ended => {}
            }
            ground.fence.set(Right::None);
            given_back(holder.release(&holder.operator, &mut candidate).await);
        }
        Election::Shards(count) => {
            let mut shards = Shards::new(count);
            tokio::select! {
                () = share(&holder, &ground, &mut shards, &constituents) => {}
                () = ended => {}
            }
            ground.fence.set(Right::None);
            given_back(shards.leave(&holder).await);
        }
    }
}

/// The leader's loop. An unanswered renewal leaves the right to end by itself.
async fn lead(holder: &Holder, ground: &Ground, candidate: &mut Candidate) {
    let (mut was_leader, mut trouble) = (false, Trouble::default());
    loop {
        let look = holder.look(&holder.operator, candidate).await;
        match &look {
            Ok(Some(until)) => ground.fence.set(Right::Until(*until)),
            Ok(None) => ground.fence.set(Right::None),
            Err(_) => {}
        }
        holder.tell_wait(&holder.operator, candidate);
        trouble.tell(look.err(), holder.terms);
        let is_leader = ground.fence.is_open();
        if is_leader != was_leader {
            note(ground, &holder.operator, is_leader);
            was_leader = is_leader;
        }
        tokio::time::sleep(jittered(holder, ground)).await;
    }
}

/// The loop of a replica that shares.
async fn share(holder: &Holder, ground: &Ground, shards: &mut Shards, constituents: &[Constituent]) {
    let mut trouble = Trouble::default();
    loop {
        let look = shards.look(holder).await;
        let gained = shards.publish(&ground.fence, ground.clock);
        for &shard in &gained {
            note(ground, &shard_name(holder, shard), true);
        }
        if !gained.is_empty() {
            for one in constituents {
                (one.relist)();
            }
        }
        trouble.tell(look.failed, holder.terms);
        if !look.leaving.is_empty() {
            drain(constituents, &look.leaving, holder.terms).await;
            for &shard in &look.leaving {
                note(ground, &shard_name(holder, shard), false);
            }
            given_back(shards.release(holder, &look.leaving).await);
        }
        tokio::time::sleep(jittered(holder, ground)).await;
    }
}

/// Waits until no key of these shards runs; their fence is closed, so none starts. Not longer than a third of a term:
/// the other shards must be renewed meanwhile, and what still runs can no longer write.
async fn drain(constituents: &[Constituent], shards: &[u32], terms: Terms) {
    const LOOK: Duration = Duration::from_millis(50);
    let is_running = |one: &Constituent| shards.iter().any(|&shard| one.inbox.is_running(shard));
    let drained = async {
        while constituents.iter().any(is_running) {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(terms.term / 3, drained).await;
}

fn given_back(answer: Result<(), Error>) {
    if let Err(error) = answer {
        tracing::debug!(error = %Fault::from(error), "lease not given back; it expires by itself");
    }
}

fn note(ground: &Ground, lease: &str, is_leader: bool) {
    tracing::info!(lease, is_leader, "lease changed hands");
    ground.journal.record(&ground.name, Entry::Led { lease: lease.to_owned(), is_leader });
}

/// Replicas that started together should not look together.
fn jittered(holder: &Holder, ground: &Ground) -> Duration {
    holder.terms.look_every.mul_f64(0.8 + 0.4 * ground.entropy.unit())
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
struct Trouble(bool);

impl Trouble {
    fn tell(&mut self, failed: Option<Error>, terms: Terms) {
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
