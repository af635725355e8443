//! Determines which shard an object belongs to. Every replica, of every version, must get the same result, so the hash
//! must never change.
//!
//! Which replica holds a shard is decided in `election/shards.rs`; whether work may start under it, in `fence`.

use homeostat_core::Key;
use homeostat_core::hash::fnv_64;

/// Returns the shard a key belongs to.
pub(crate) fn shard_of_key(key: &Key, count: u32) -> u32 {
    u32::try_from(stable_hash(key.as_str()) % u64::from(count)).expect("below the number of shards")
}

/// Returns FNV-1a followed by the finisher of SplitMix64, because names that differ in their last letters have similar
/// high bits in FNV. It must never change: every replica, of every version, must put an object into the same shard.
pub(crate) fn stable_hash(text: &str) -> u64 {
    let hash = fnv_64(text.as_bytes());
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_all_shards() {
        let mut counts = vec![0; 64];
        for number in 0..6400 {
            counts[shard_of_key(&Key::new("demo.dev", "things", "a", &format!("x{number}")), 64) as usize] +=
                1;
        }
        assert!(counts.iter().all(|count| (50..=160).contains(count)), "{counts:?}");
    }
}
