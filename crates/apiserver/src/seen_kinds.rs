//! Remembers which of the kinds that admission looks up on every write have ever had an object, so that a server
//! without webhooks, policies, quotas and limit ranges searches for none of them.
//!
//! **Invariant:** a kind counts as seen before the first commit with an object of it is submitted. It stays seen, also
//! when its last object is deleted: from then on each write searches the store.

use std::sync::atomic::{AtomicU8, Ordering};

use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use homeostat_store::Snapshot;

/// The group of webhook configurations, admission policies and their bindings.
pub(crate) const CONFIGURATION_GROUP: &str = "admissionregistration.k8s.io";

/// Kinds that most servers have no object of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RareKind {
    /// Webhook configurations, admission policies and their bindings.
    Configuration,
    ResourceQuota,
    LimitRange,
}

impl RareKind {
    fn of_key(key: &Key) -> Option<Self> {
        match ResourceIdentity::of_key(key) {
            ResourceIdentity::BuiltIn(CONFIGURATION_GROUP, _) => Some(Self::Configuration),
            ResourceIdentity::BuiltIn("", "resourcequotas") => Some(Self::ResourceQuota),
            ResourceIdentity::BuiltIn("", "limitranges") => Some(Self::LimitRange),
            _ => None,
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The rare kinds that may have objects: one bit for each.
#[derive(Debug, Default)]
pub(crate) struct SeenKinds(AtomicU8);

impl SeenKinds {
    /// Observes everything that is stored.
    pub(crate) fn observe_all(&self, snapshot: &Snapshot) {
        snapshot.iter().for_each(|entry| self.observe(&entry.key));
    }

    /// Observes a key that is about to be written.
    pub(crate) fn observe(&self, key: &Key) {
        if let Some(kind) = RareKind::of_key(key) {
            self.0.fetch_or(kind.bit(), Ordering::SeqCst);
        }
    }

    /// Returns whether objects of a kind may be stored.
    pub(crate) fn may_have(&self, kind: RareKind) -> bool {
        self.0.load(Ordering::SeqCst) & kind.bit() != 0
    }

    /// Returns a copy, for a server over a copy of the store.
    pub(crate) fn forked(&self) -> Self {
        Self(AtomicU8::new(self.0.load(Ordering::SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_seen_from_its_first_key_on() {
        let check = |key: Key, expected: Option<RareKind>| {
            let seen = SeenKinds::default();
            seen.observe(&key);
            for kind in [RareKind::Configuration, RareKind::ResourceQuota, RareKind::LimitRange] {
                assert_eq!(seen.may_have(kind), expected == Some(kind), "{key}");
                assert_eq!(seen.forked().may_have(kind), expected == Some(kind), "{key}");
            }
        };
        let webhooks = Key::new(CONFIGURATION_GROUP, "mutatingwebhookconfigurations", "", "a");
        check(webhooks, Some(RareKind::Configuration));
        check(Key::new("", "resourcequotas", "d", "a"), Some(RareKind::ResourceQuota));
        check(Key::new("", "limitranges", "d", "a"), Some(RareKind::LimitRange));
        check(Key::new("", "configmaps", "d", "limitranges"), None);
    }
}
