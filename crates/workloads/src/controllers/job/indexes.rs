//! Represents sets of completion indexes in the API's notation: `0,2-4,7`. This module is pure.
//!
//! **Invariant:** the intervals are in order, do not touch, and are not empty.

use std::fmt;

/// A set of completion indexes, as intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompletionIndexes(Vec<(i32, i32)>);

impl CompletionIndexes {
    /// Parses the text; leaves out everything that cannot be parsed or is not below `bound`.
    pub(super) fn parse(text: &str, bound: i32) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
                indexes.add(first.max(0), last.min(bound - 1));
            }
        }
        indexes
    }

    /// Adds the indexes from `first` to `last`, inclusive.
    pub(super) fn add(&mut self, first: i32, last: i32) {
        if first > last {
            return;
        }
        let touching =
            |&(from, to): &(i32, i32)| from <= last.saturating_add(1) && first <= to.saturating_add(1);
        let joined = self
            .0
            .iter()
            .copied()
            .filter(touching)
            .fold((first, last), |sum, one| (sum.0.min(one.0), sum.1.max(one.1)));
        self.0.retain(|one| !touching(one));
        let at = self.0.partition_point(|one| one.0 < joined.0);
        self.0.insert(at, joined);
    }

    /// Adds all of `other`.
    pub(super) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(first, last)| self.add(*first, *last));
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&index))
    }

    pub(super) fn len(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Returns how many of these are also in `other`.
    pub(super) fn common(&self, other: &Self) -> i32 {
        let overlap =
            |left: &(i32, i32), right: &(i32, i32)| (left.1.min(right.1) - left.0.max(right.0) + 1).max(0);
        self.0.iter().flat_map(|left| other.0.iter().map(move |right| overlap(left, right))).sum()
    }

    /// Returns the lowest `count` indexes below `bound` that are not in the set.
    pub(super) fn missing(&self, count: usize, bound: i32) -> Vec<i32> {
        let mut found = Vec::new();
        let mut candidate = 0;
        let ends = self.0.iter().copied().chain([(bound, bound)]);
        for (first, last) in ends {
            let gap = candidate..first.min(bound);
            found.extend(gap.take(count - found.len()));
            candidate = last.saturating_add(1);
        }
        found
    }
}

impl fmt::Display for CompletionIndexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.0.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, bound: i32, written: &str, len: i32) {
        let indexes = CompletionIndexes::parse(text, bound);
        assert_eq!((indexes.to_string().as_str(), indexes.len()), (written, len));
    }

    #[test]
    fn as_the_api_writes_them() {
        check("", 10, "", 0);
        check("0", 10, "0", 1);
        check("1,0", 10, "0,1", 2);
        check("0-2,3,5", 10, "0-3,5", 5);
        check("0-20,x", 5, "0-4", 5);
        check("3,1,2,9-9", 10, "1-3,9", 4);
    }

    #[test]
    fn what_is_missing() {
        let indexes = CompletionIndexes::parse("0,2-3,6", 10);
        assert_eq!(indexes.missing(4, 8), [1, 4, 5, 7]);
        assert_eq!(indexes.missing(2, 8), [1, 4]);
        assert_eq!(CompletionIndexes::default().missing(5, 3), [0, 1, 2]);
        assert_eq!(indexes.common(&CompletionIndexes::parse("1-2,6-9", 10)), 2);
    }
}
