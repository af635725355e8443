//! Reinvocation: mutating plugins run a second time if a webhook changed the object, and webhooks that request it are
//! called again if changes were made after their turn.

use std::collections::BTreeSet;

use serde_json::Value;

/// The state of the first and second rounds of mutating plugins.
#[derive(Debug, Default)]
pub(super) struct Reinvocation {
    is_second_round: bool,
    is_wanted: bool,
    /// Webhooks that were called and want to be called again about later changes.
    asked: BTreeSet<String>,
    /// Webhooks to call in the second round.
    again: BTreeSet<String>,
    /// The object after the webhooks of the first round.
    left: Option<Value>,
}

impl Reinvocation {
    /// Begins the second round if one is needed. Returns whether it did.
    pub(super) fn begin_second_round(&mut self) -> bool {
        let begins = self.is_wanted && !self.is_second_round;
        self.is_second_round |= begins;
        begins
    }

    /// Schedules the waiting webhooks again if other plugins changed the object after the webhooks of the first
    /// round.
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

    /// Returns whether to skip this webhook in this round.
    pub(super) fn must_skip(&self, id: &str) -> bool {
        self.is_second_round && !self.again.contains(id)
    }

    /// Records a response. A change concerns every webhook that was called before.
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
