//! Holds a list of strings in a rule: verbs, groups, resources or names.
//!
//! A decision looks up a string in a list. Roles written by people have a handful of entries; an attacker who may
//! write roles could write hundreds of thousands, and every request from a user with the role would read them all.
//! Long lists are therefore searched by bisection.
//!
//! **Invariant:** the strings keep their given order, in which they are shown and compared.

use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The length from which on a list is sorted. For shorter lists, a linear search is just as fast.
const SORTED_FROM: usize = 32;

/// How many bytes of a string count as one comparison: comparing them takes about as long as finding the string in
/// memory, and no name of an object is longer.
const COMPARED_BYTES: usize = 256;

/// Strings in their given order.
#[derive(Clone, Debug, Default)]
pub struct RuleStrings {
    given: Box<[Box<str>]>,
    /// The indexes of the strings in alphabetical order; empty for a short list.
    sorted: Box<[u32]>,
}

impl RuleStrings {
    /// Returns whether the list contains this string.
    pub(super) fn has(&self, wanted: &str) -> bool {
        if self.is_short() {
            return self.given.iter().any(|one| &**one == wanted);
        }
        self.sorted.binary_search_by(|at| (*self.given[*at as usize]).cmp(wanted)).is_ok()
    }

    /// Returns an upper bound for how many comparisons a lookup takes; comparisons of long strings count as several. A
    /// bisection takes at most as many as the longest list that is searched from its start.
    pub(super) fn comparisons(&self) -> usize {
        let longest = self.given.iter().map(|text| text.len()).max().unwrap_or_default();
        self.given.len().min(SORTED_FROM) * (1 + longest / COMPARED_BYTES)
    }

    /// Returns whether a linear search is as fast as a bisection.
    pub(super) fn is_short(&self) -> bool {
        self.given.len() < SORTED_FROM
    }
}

impl From<Vec<Box<str>>> for RuleStrings {
    fn from(given: Vec<Box<str>>) -> Self {
        let given = given.into_boxed_slice();
        let mut sorted: Vec<u32> = Vec::new();
        // A list too long for `u32` indexes cannot be sent: bodies are limited to megabytes.
        if given.len() >= SORTED_FROM
            && let Ok(length) = u32::try_from(given.len())
        {
            sorted.extend(0..length);
            sorted.sort_unstable_by(|one, other| given[*one as usize].cmp(&given[*other as usize]));
        }
        Self { given, sorted: sorted.into() }
    }
}

impl FromIterator<Box<str>> for RuleStrings {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(texts: I) -> Self {
        texts.into_iter().collect::<Vec<_>>().into()
    }
}

impl Deref for RuleStrings {
    type Target = [Box<str>];

    fn deref(&self) -> &[Box<str>] {
        &self.given
    }
}

impl<'a> IntoIterator for &'a RuleStrings {
    type Item = &'a Box<str>;
    type IntoIter = std::slice::Iter<'a, Box<str>>;

    fn into_iter(self) -> Self::IntoIter {
        self.given.iter()
    }
}

impl PartialEq for RuleStrings {
    fn eq(&self, other: &Self) -> bool {
        self.given == other.given
    }
}

impl Eq for RuleStrings {}

impl Hash for RuleStrings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.given.hash(state);
    }
}

impl Serialize for RuleStrings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.given.serialize(serializer)
    }
}

/// Reads `null` as an empty list.
impl<'de> Deserialize<'de> for RuleStrings {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Option::<Vec<Box<str>>>::deserialize(value).map(|given| given.unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_have_what_they_were_given() {
        for length in [0, 1, SORTED_FROM - 1, SORTED_FROM, 10 * SORTED_FROM] {
            let given: Vec<Box<str>> = (0..length).map(|at| format!("t{}", at * 7 % length).into()).collect();
            let list = RuleStrings::from(given.clone());
            assert_eq!(*list, *given, "the order is kept");
            assert!(given.iter().all(|one| list.has(one)), "{length}");
            for absent in ["", "t", "t00", "u", &format!("t{length}")] {
                assert!(!list.has(absent), "{length} {absent}");
            }
        }
    }
}
