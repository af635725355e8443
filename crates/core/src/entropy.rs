//! Provides randomness for uids, name suffixes, jitter and tokens. It is seeded from the operating system in production
//! and from a number in a simulation.
//!
//! **Invariant:** this is the only source of randomness. A seeded source repeats exactly; the system source is the
//! kernel's cryptographic generator, so its numbers are suitable for tokens.

use std::sync::{Arc, Mutex, PoisonError};

/// The number of bytes fetched from the kernel at a time: with one system call per 512 draws, uids do not show up in
/// profiles.
const POOL_BYTES: usize = 4096;

/// The letters of generated name suffixes: no vowels, so that no words appear; no 0, 1 or 3, so that nothing is
/// misread.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A shared stream of random numbers. Cheap to clone; clones draw from the same stream.
#[derive(Clone, Debug)]
pub struct Entropy(Arc<Source>);

#[derive(Debug)]
enum Source {
    System(Mutex<Vec<u8>>),
    Seeded(Mutex<u64>),
}

impl Entropy {
    /// Uses the operating system's randomness.
    pub fn system() -> Self {
        Self(Arc::new(Source::System(Mutex::default())))
    }

    /// Creates a stream that repeats exactly for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Source::Seeded(Mutex::new(seed))))
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&self) -> u64 {
        match &*self.0 {
            Source::System(pool) => draw(&mut pool.lock().unwrap_or_else(PoisonError::into_inner)),
            Source::Seeded(state) => split_mix(&mut state.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Returns the position of a seeded stream; `None` for the system's randomness, which has no positions.
    pub fn position(&self) -> Option<u64> {
        match &*self.0 {
            Source::System(_) => None,
            Source::Seeded(state) => Some(*state.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Continues a seeded stream from a position, as if all earlier numbers had been drawn. The system's randomness is
    /// unaffected.
    pub fn continue_from(&self, position: u64) {
        if let Source::Seeded(state) = &*self.0 {
            *state.lock().unwrap_or_else(PoisonError::into_inner) = position;
        }
    }

    /// Returns a number below `bound` (0 when `bound` is 0).
    pub fn below(&self, bound: u64) -> u64 {
        // The bias of the multiply-shift is below bound / 2^64.
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64)
            .expect("the product of two 64-bit numbers shifted by 64 fits 64 bits")
    }

    /// Returns a number in `[0, 1)`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
    pub fn unit(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a suffix like the one `generateName` appends.
    pub fn suffix(&self, length: usize) -> String {
        let count = SUFFIX_LETTERS.len() as u64;
        (0..length)
            .map(|_| {
                let at = usize::try_from(self.below(count)).expect("below the number of letters");
                char::from(SUFFIX_LETTERS[at])
            })
            .collect()
    }
}

/// Takes eight bytes from the pool, refilling it from the kernel when empty. Each byte is used once.
fn draw(pool: &mut Vec<u8>) -> u64 {
    if pool.is_empty() {
        pool.resize(POOL_BYTES, 0);
        getrandom::fill(pool).expect("the kernel's random generator is always there once booted");
    }
    let at = pool.len() - 8;
    let bytes: [u8; 8] = pool[at..].try_into().expect("eight bytes were cut off");
    pool.truncate(at);
    u64::from_le_bytes(bytes)
}

/// Computes SplitMix64: one addition and three mixing steps; it passes BigCrush, and any seed is a good seed.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw = |seed| {
            let entropy = Entropy::seeded(seed);
            (0..4).map(|_| entropy.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_stream_continues_from_a_position() {
        let (one, other) = (Entropy::seeded(1), Entropy::seeded(1));
        one.next_u64();
        other.continue_from(one.position().unwrap());
        assert_eq!(one.next_u64(), other.next_u64());
        assert_eq!(Entropy::system().position(), None);
    }

    #[test]
    fn a_suffix_uses_the_safe_letters() {
        let suffix = Entropy::system().suffix(64);
        assert_eq!(suffix.len(), 64);
        assert!(suffix.bytes().all(|letter| SUFFIX_LETTERS.contains(&letter)));
    }
}
