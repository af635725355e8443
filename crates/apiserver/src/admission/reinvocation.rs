//! Reinvocation: mutating plugins run a second time if a webhook changed the object, and webhooks that ask for it are
//! asked again about changes that came after them.

use std::collections::BTreeSet;

use serde_json::Value;

/// What is known of the first round of mutating plugins, and of the second.
#[derive(Debug, Default)]
pub(super) struct Reinvocation {
    is_second_round: bool,
    is_wanted: bool,
    /// Those that were asked and want to be asked again about later changes.
    asked: BTreeSet<String>,
    /// Those whose turn it is in the second round.
    again: BTreeSet<String>,
    /// The object as the webhooks left it.
    left: Option<Value>,
}

impl Reinvocation {
    /// Begins the second round, if there has to be one.
    pub(super) fn begin_second_round(&mut self) -> bool {
        let begins = self.is_wanted && !self.is_second_round;
        self.is_second_round |= begins;
        begins
    }

    /// Notes what other plugins changed since the webhooks of the first round.
    pub(super) fn begin_webhooks(&mut self, object: &Value) {
        if self.is_second_round && self.left.as_ref().is_some_and(|left| left != object) {
            self.again.append(&mut self.asked);
        }
    }

    pub(super) fn end_webhooks(&mut self, object: &Value) {
        if !self.is_second_round {
            self.left = Some(object.clone());
        }
    }

    /// Returns whether this one is not asked in this round.
    pub(super) fn must_skip(&self, id: &str) -> bool {
        self.is_second_round && !self.again.contains(id)
    }

    /// Records an answer. A change is news for every webhook that was asked before.
    pub(super) fn record_answer(&mut self, id: &str, is_changed: bool, wants_news: bool) {
        if is_changed {
            self.again.append(&mut self.asked);
            self.is_wanted = true;
        }
        if wants_news {
            self.asked.insert(id.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_missed_a_change_are_asked_again() {
        let mut state = Reinvocation::default();
        state.record_answer("a", false, true);
        state.record_answer("b", false, false);
        state.record_answer("c", true, true);
        assert!(state.begin_second_round() && !state.begin_second_round());
        assert_eq!(["a", "b", "c"].map(|id| state.must_skip(id)), [false, true, true]);
        assert!(!Reinvocation::default().begin_second_round(), "nobody changed anything");
    }
}
