//! The fence says whether this replica leads, and for which keys. A replica that has lost its lease, or is about to
//! lose it, must neither continue its work nor send a write that it has prepared. So code that acts for an object
//! enters the fence first, is cancelled when its tenure ends, and asks the fence before each write. The fence closes
//! before the lease can pass to another replica.
//!
//! Without an election everything is allowed and nothing is counted. With one leader there is one [`Tenure`] for all
//! keys; with shards, one for each shard held. Only the election starts, renews and ends tenures.
//!
//! **Invariant:** a tenure that is over never starts again. A replica that regains its lease gets a new tenure, so that
//! work begun under the old one cannot write under the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use homeostat_core::Key;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::Error;
use crate::shard_assignment::shard_of_key;

mod fenced_client;
mod tenure;

use tenure::Tenure;
pub(crate) use tenure::{Permit, TenureClaim};

/// The leadership that this process currently holds.
#[derive(Debug)]
pub(crate) enum Leadership {
    /// This process always leads all keys, because there is no election.
    Unlimited,
    /// This process leads all keys under this tenure, if there is one.
    Whole(Option<Arc<Tenure>>),
    /// This process leads the keys of some shards, each under its own tenure.
    Shards {
        /// How many shards the keys are divided into.
        count: u32,
        /// The shards held, including those whose tenure has lapsed.
        held: BTreeMap<u32, Arc<Tenure>>,
    },
}

impl Leadership {
    fn tenures(&self) -> Vec<&Arc<Tenure>> {
        match self {
            Self::Unlimited => Vec::new(),
            Self::Whole(tenure) => tenure.iter().collect(),
            Self::Shards { held, .. } => held.values().collect(),
        }
    }

    fn shard(&self, shard: u32) -> Option<&Arc<Tenure>> {
        match self {
            Self::Shards { held, .. } => held.get(&shard),
            Self::Unlimited | Self::Whole(_) => None,
        }
    }

    fn end(&self) {
        self.tenures().into_iter().for_each(|tenure| tenure.end());
    }
}

/// A shard that this replica holds, as the election reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldShard {
    /// When its tenure ends unless renewed.
    pub(crate) until: Instant,
    /// Whether it is to be handed over: work in progress may finish, but nothing new starts.
    pub(crate) is_closing: bool,
}

/// The shards whose tenure starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StartedShards {
    /// Shards that another replica held before.
    pub(crate) gained: BTreeSet<u32>,
    /// Shards that were ours before their tenure lapsed.
    pub(crate) resumed: BTreeSet<u32>,
}

/// Whether work may start for a key.
#[derive(Debug)]
pub(crate) enum FenceAnswer {
    /// It may start, and is counted until the permit is dropped.
    Granted(Permit),
    /// It may not start now: the tenure has lapsed or is being handed over, and may become ours again.
    Suspended,
    /// The key belongs to another replica.
    Elsewhere,
}

/// A shared view of the keys that this process leads. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    right: Arc<watch::Sender<Leadership>>,
    /// How often leadership was gained that was not held before.
    gains: Arc<AtomicU64>,
    /// Whether there is no election and never will be, so that no check is needed.
    is_unlimited: bool,
    /// How long work that can no longer write may continue after its tenure ends, which is part of the time before
    /// another replica may lead.
    spare: Duration,
}

impl Fence {
    fn new(right: Leadership, spare: Duration) -> Self {
        let is_unlimited = matches!(right, Leadership::Unlimited);
        Self { right: Arc::new(watch::Sender::new(right)), gains: Arc::default(), is_unlimited, spare }
    }

    /// Returns a fence that allows everything.
    pub(crate) fn unlimited() -> Self {
        Self::new(Leadership::Unlimited, Duration::ZERO)
    }

    /// Returns a fence that allows nothing until an election opens it. `spare` is how long work that can no longer
    /// write may continue.
    pub(crate) fn closed(spare: Duration) -> Self {
        Self::new(Leadership::Whole(None), spare)
    }

    /// Returns how long work may take to finish after its tenure ended, if it cannot write.
    pub(crate) fn spare(&self) -> Duration {
        self.spare
    }

    /// Asks to start work for this key.
    pub(crate) fn enter(&self, key: &Key) -> FenceAnswer {
        if self.is_unlimited {
            return FenceAnswer::Granted(Permit::unlimited());
        }
        match &*self.right.borrow() {
            Leadership::Unlimited => FenceAnswer::Granted(Permit::unlimited()),
            Leadership::Whole(tenure) => tenure.as_ref().map_or(FenceAnswer::Suspended, Tenure::enter),
            Leadership::Shards { count, held } => {
                held.get(&shard_of_key(key, *count)).map_or(FenceAnswer::Elsewhere, Tenure::enter)
            }
        }
    }

    /// Refuses a write to `target` for this key unless this process leads it.
    pub(crate) fn refuse_if_deposed(&self, key: &Key, target: &Key) -> Result<(), Error> {
        if self.leads(key) { Ok(()) } else { Err(Error::Fenced { target: target.clone() }) }
    }

    /// Returns whether this process may write for this key now.
    pub(crate) fn leads(&self, key: &Key) -> bool {
        if self.is_unlimited {
            return true;
        }
        let right = self.right.borrow();
        let tenure = match &*right {
            Leadership::Unlimited => return true,
            Leadership::Whole(tenure) => tenure.as_ref(),
            Leadership::Shards { count, held } => held.get(&shard_of_key(key, *count)),
        };
        tenure.is_some_and(|tenure| tenure.is_valid())
    }

    /// Returns whether any work may start now.
    pub(crate) fn is_open(&self) -> bool {
        if self.is_unlimited {
            return true;
        }
        match &*self.right.borrow() {
            Leadership::Unlimited => true,
            Leadership::Whole(tenure) => tenure.as_ref().is_some_and(|tenure| tenure.is_open()),
            Leadership::Shards { held, .. } => held.values().any(|tenure| tenure.is_open()),
        }
    }

    /// Returns the shard this key belongs to, if keys are divided into shards.
    pub(crate) fn shard_of(&self, key: &Key) -> Option<u32> {
        if self.is_unlimited {
            return None;
        }
        match &*self.right.borrow() {
            Leadership::Shards { count, .. } => Some(shard_of_key(key, *count)),
            _ => None,
        }
    }

    /// Returns a number that grows whenever leadership is gained that was not held before; `None` without an election.
    /// Knowledge from a time with another number may be older than another replica's later actions.
    pub(crate) fn gain(&self) -> Option<u64> {
        (!self.is_unlimited).then(|| self.gains.load(Ordering::SeqCst))
    }

    /// Counts a gain of leadership. This is called under the lock, so before anything can act under the new leadership.
    fn count_gain(&self) {
        self.gains.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a receiver that is notified when tenures start, are renewed or end.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Leadership> {
        self.right.subscribe()
    }

    /// Ends tenures when their time is up, for as long as it is polled. The election renews them at its own pace, which
    /// an unresponsive server may delay.
    pub(crate) async fn enforce(&self) {
        let mut changes = self.right.subscribe();
        loop {
            let now = Instant::now();
            let (has_lapsed, next) = {
                let right = changes.borrow_and_update();
                let tenures = right.tenures();
                let lapsed = tenures.iter().filter(|tenure| tenure.lapse(now)).count();
                (lapsed > 0, tenures.iter().filter_map(|tenure| tenure.ends_at()).min())
            };
            if has_lapsed {
                // Subscribers check again.
                self.right.send_modify(|_| {});
            }
            tokio::select! {
                () = reached(next) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Starts or renews the leadership of all keys until this moment, or ends it now.
    pub(crate) fn set_leader(&self, until: Option<Instant>) {
        debug_assert!(!self.is_unlimited, "without an election nothing sets leadership");
        self.right.send_modify(|right| {
            let former = match right {
                Leadership::Whole(tenure) => tenure.take(),
                Leadership::Unlimited | Leadership::Shards { .. } => None,
            };
            let tenure = until.map(|until| Tenure::renewed(former.as_ref(), until));
            let is_former = |tenure| former.as_ref().is_some_and(|former| Arc::ptr_eq(former, tenure));
            if tenure.as_ref().is_some_and(|tenure| !is_former(tenure)) {
                self.count_gain();
            }
            if let (Some(former), None) = (former, &tenure) {
                former.end();
            }
            *right = Leadership::Whole(tenure);
        });
    }

    /// Starts or renews the tenures of these shards, out of `count`, and ends all others now. Returns the shards that
    /// start.
    pub(crate) fn set_shards(&self, count: u32, rights: &BTreeMap<u32, HeldShard>) -> StartedShards {
        debug_assert!(!self.is_unlimited, "without an election nothing sets leadership");
        let mut begun = StartedShards::default();
        self.right.send_modify(|right| {
            let mut before = match std::mem::replace(right, Leadership::Whole(None)) {
                Leadership::Shards { count: same, held } if same == count => held,
                other => {
                    other.end();
                    BTreeMap::new()
                }
            };
            let mut held = BTreeMap::new();
            for (&shard, &right) in rights {
                let former = before.remove(&shard);
                let was_open = former.as_ref().is_some_and(|former| former.is_open());
                let tenure = Tenure::shard(former.as_ref(), right);
                match (former, tenure.is_open()) {
                    (None, true) => _ = begun.gained.insert(shard),
                    (Some(_), true) if !was_open => _ = begun.resumed.insert(shard),
                    _ => {}
                }
                held.insert(shard, tenure);
            }
            for tenure in before.values() {
                tenure.end();
            }
            if begun != StartedShards::default() {
                self.count_gain();
            }
            *right = Leadership::Shards { count, held };
        });
        begun
    }

    /// Cancels the work in progress in this shard.
    pub(crate) fn end_shard(&self, shard: u32) {
        self.right.send_modify(|right| {
            if let Some(tenure) = right.shard(shard) {
                tenure.end();
            }
        });
    }

    /// Returns the number of runs in progress in this shard.
    pub(crate) fn active_in(&self, shard: u32) -> usize {
        self.right.borrow().shard(shard).map_or(0, |tenure| tenure.active())
    }

    /// Ends every tenure.
    pub(crate) fn end_all(&self) {
        if !self.is_unlimited {
            self.right.send_modify(|right| right.end());
        }
    }
}

async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("", "things", "a", "x")
    }

    fn in_ten_seconds() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[track_caller]
    fn enter(fence: &Fence) -> Permit {
        match fence.enter(&key()) {
            FenceAnswer::Granted(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_ends_by_itself() {
        let fence = Fence::closed(Duration::ZERO);
        assert!(!fence.leads(&key()) && matches!(fence.enter(&key()), FenceAnswer::Suspended));
        fence.set_leader(Some(in_ten_seconds()));
        assert!(fence.leads(&key()) && fence.is_open());
        let permit = enter(&fence);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!fence.leads(&key()) && !fence.is_open() && !permit.claim().is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_is_ended_with_the_right_it_began_under() {
        let fence = Fence::closed(Duration::ZERO);
        fence.set_leader(Some(in_ten_seconds()));
        let permit = enter(&fence);
        let run = permit.run(std::future::pending::<()>());
        let renewals = async {
            tokio::time::sleep(Duration::from_secs(8)).await;
            fence.set_leader(Some(in_ten_seconds()));
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        tokio::select! {
            ended = run => assert_eq!(ended, None),
            () = fence.enforce() => {}
            () = renewals => {}
        }
        assert_eq!(began.elapsed(), Duration::from_secs(18), "renewed once, then ended on time");
        fence.set_leader(Some(in_ten_seconds()));
        assert!(fence.leads(&key()) && !permit.claim().is_valid(), "a new right revives nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_closes_lets_what_runs_end_and_nothing_begin() {
        let fence = Fence::closed(Duration::ZERO);
        let share = |is_closing| {
            let right = HeldShard { until: in_ten_seconds(), is_closing };
            let StartedShards { gained, resumed } = fence.set_shards(1, &BTreeMap::from([(0, right)]));
            (gained.len(), resumed.len())
        };
        assert_eq!(share(false), (1, 0));
        let permit = enter(&fence);
        assert_eq!(share(true), (0, 0));
        assert!(matches!(fence.enter(&key()), FenceAnswer::Suspended));
        assert!(permit.claim().is_valid() && fence.leads(&key()) && fence.active_in(0) == 1);
        assert_eq!(share(false), (0, 1), "it stays after all");
        assert!(permit.claim().is_valid());
        share(true);
        fence.end_shard(0);
        assert_eq!(share(true), (0, 0));
        assert!(!permit.claim().is_valid(), "a renewal revives nothing");
        assert_eq!(share(false), (0, 1));
        assert_eq!(fence.active_in(0), 1, "what was begun before is still there");
        drop(permit);
        assert_eq!(fence.active_in(0), 0);
        fence.set_shards(1, &BTreeMap::new());
        assert!(matches!(fence.enter(&key()), FenceAnswer::Elsewhere));
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_that_lapsed_is_gained_anew_and_a_renewed_one_is_not() {
        let fence = Fence::closed(Duration::ZERO);
        assert_eq!((fence.gain(), Fence::unlimited().gain()), (Some(0), None));
        fence.set_leader(Some(in_ten_seconds()));
        fence.set_leader(Some(in_ten_seconds()));
        assert_eq!(fence.gain(), Some(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        fence.set_leader(Some(in_ten_seconds()));
        assert_eq!(fence.gain(), Some(2));
        let fence = Fence::closed(Duration::ZERO);
        let right = HeldShard { until: in_ten_seconds(), is_closing: false };
        for (held, gains) in [(&[1, 2][..], 1), (&[1, 2], 1), (&[1], 1), (&[1, 3], 2), (&[], 2)] {
            fence.set_shards(4, &held.iter().map(|shard| (*shard, right)).collect());
            assert_eq!(fence.gain(), Some(gains), "{held:?}");
        }
    }
}
