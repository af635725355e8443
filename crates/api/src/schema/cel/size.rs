//! The range of sizes that a value can have, and saturating arithmetic.

/// The cost of visiting one unit of text, and of applying one character of a pattern to one unit of cost.
pub(super) const TRAVERSAL: f64 = 0.1;
pub(super) const PATTERN: f64 = 0.25;

/// The cost of a parsed selector in addition to its text: a list, and for every two characters a requirement with a
/// list of values.
const SELECTOR_COST: u64 = 10;
const REQUIREMENT_COST: u64 = 50;

/// Returns the cost of parsing a selector of this length.
pub(super) fn selector_cost(length: u64) -> u64 {
    let requirements = length.div_ceil(2).saturating_mul(REQUIREMENT_COST);
    scaled(length, TRAVERSAL).saturating_add(requirements).saturating_add(SELECTOR_COST)
}

/// The minimum and maximum number of elements, entries, characters or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeRange {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl SizeRange {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns a range that covers both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Returns the cost of visiting the value once.
    pub(super) fn traversal(self) -> u64 {
        scaled(self.max, TRAVERSAL)
    }
}

/// Multiplies a number by a factor, rounding up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are estimates, and a cast of floats saturates"
)]
pub(super) fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}
