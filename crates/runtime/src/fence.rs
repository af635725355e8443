//! The right to write. A leader that lost its lease, or is about to, must not send the write it has prepared: every
//! write asks the fence first, and the fence closes before the lease can pass to another.
//!
//! Sharding uses the same fence with the set of shards held.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::Key;
use tokio::sync::watch;
use tokio::time::Instant;

/// What this process may do now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Right {
    /// Everything, always: no election.
    Unlimited,
    /// Everything, until this moment unless renewed.
    Until(Instant),
    /// The keys of some of the shards, each until its moment.
    Shards {
        /// Into how many the keys are dealt.
        count: u32,
        /// Those held, with their ends.
        held: BTreeMap<u32, Instant>,
    },
    /// Nothing.
    None,
}

/// A shared view of the right to write. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    right: Arc<watch::Sender<Right>>,
    /// There is no election and never will be: nobody needs to look.
    is_unlimited: bool,
}

impl Fence {
    pub(crate) fn new(right: Right) -> Self {
        let is_unlimited = right == Right::Unlimited;
        Self { right: Arc::new(watch::Sender::new(right)), is_unlimited }
    }

    /// May this key be acted upon now?
    pub(crate) fn admits(&self, key: &Key) -> bool {
        if self.is_unlimited {
            return true;
        }
        match &*self.right.borrow() {
            Right::Unlimited => true,
            Right::None => false,
            Right::Until(end) => Instant::now() < *end,
            Right::Shards { count, held } => {
                held.get(&shard_of(key, *count)).is_some_and(|end| Instant::now() < *end)
            }
        }
    }

    /// May anything be acted upon now?
    pub(crate) fn is_open(&self) -> bool {
        if self.is_unlimited {
            return true;
        }
        match &*self.right.borrow() {
            Right::Unlimited => true,
            Right::None => false,
            Right::Until(end) => Instant::now() < *end,
            Right::Shards { held, .. } => held.values().any(|end| Instant::now() < *end),
        }
    }

    /// The shard this key belongs to, if keys are dealt into shards.
    pub(crate) fn shard_of(&self, key: &Key) -> Option<u32> {
        if self.is_unlimited {
            return None;
        }
        match &*self.right.borrow() {
            Right::Shards { count, .. } => Some(shard_of(key, *count)),
            _ => None,
        }
    }

    /// Waits until a right that is held now ends, if it is not renewed by then; for ever when none is held or ends.
    pub(crate) async fn lapsed(&self) {
        let now = Instant::now();
        let end = match &*self.right.borrow() {
            Right::Unlimited | Right::None => None,
            Right::Until(end) => Some(*end).filter(|end| *end > now),
            Right::Shards { held, .. } => held.values().copied().filter(|end| *end > now).min(),
        };
        match end {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn set(&self, right: Right) {
        debug_assert!(!self.is_unlimited, "without an election nobody sets rights");
        self.right.send_replace(right);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Right> {
        self.right.subscribe()
    }
}

/// The shard a key belongs to.
fn shard_of(key: &Key, count: u32) -> u32 {
    u32::try_from(stable_hash(key.as_str()) % u64::from(count)).expect("below the number of shards")
}

/// FNV-1a, then the finisher of SplitMix64, because names that differ in their last letters leave FNV's high bits
/// alike. Fixed for ever: every replica, of any build, must agree.
pub(crate) fn stable_hash(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_right_ends_by_itself() {
        let key = Key::new("", "things", "a", "x");
        let fence = Fence::new(Right::Until(Instant::now() + Duration::from_secs(10)));
        assert!(fence.admits(&key) && fence.is_open());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!fence.admits(&key) && !fence.is_open());
    }

    #[test]
    fn keys_spread_over_all_shards() {
        let mut counts = vec![0; 64];
        for number in 0..6400 {
            counts[shard_of(&Key::new("demo.dev", "things", "a", &format!("x{number}")), 64) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (50..=160).contains(count)), "{counts:?}");
    }
}
