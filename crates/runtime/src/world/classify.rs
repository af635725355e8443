//! What a listed thing means: whose it is, whether the object that wants it wants it so, and whether it is a leak.
//! `leaks` decides when a leak may be deleted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::Resource;

use super::contract::World;
use super::decide::{Claim, Owner};
use super::leak_suspects::Suspicion;
use super::parts::{WorldParts, is_owner};
use super::pass_result::Finding;
use super::policy::{Ownership, Use};
use crate::kind::key;
use crate::panics::describe_panic;

impl<W: World> WorldParts<W> {
    /// Returns whose the thing is.
    pub(super) fn claim(&self, name: &str, have: &W::Have) -> Claim {
        match &self.policy.ownership {
            Ownership::Prefix(prefix) if name.starts_with(prefix.as_str()) => Claim::Ours(None),
            Ownership::Prefix(_) => Claim::Nobody,
            Ownership::Tags => match self.world.mark(have) {
                Some(mark) if mark.is_of(self.manager()) => {
                    Claim::Ours(Some(Owner { key: mark.key::<W::Kind>(), uid: mark.uid }))
                }
                Some(mark) if !mark.is_blank() => Claim::Theirs(mark.to_string()),
                Some(_) | None => Claim::Nobody,
            },
            Ownership::Records => self.recorded(name, have),
        }
    }

    fn recorded(&self, name: &str, have: &W::Have) -> Claim {
        let Some(record) = self.records.as_ref().and_then(|records| records.of_thing(name)) else {
            return Claim::Nobody;
        };
        let spec = &record.spec;
        let owner =
            Owner { key: key::<W::Kind>(&spec.owner_namespace, &spec.owner), uid: spec.owner_uid.clone() };
        let is_it = |intent: &String| {
            serde_json::from_str::<W::Want>(intent).is_ok_and(|want| self.world.diff(&want, have).is_empty())
        };
        if spec.made || spec.intents().any(is_it) { Claim::Ours(Some(owner)) } else { Claim::Doubtful(owner) }
    }

    /// Returns what a listed thing means. A thing that makes the world's code panic is left to the objects that want it,
    /// which then fail.
    pub(super) fn look(&self, name: &str, have: &W::Have) -> Finding {
        catch_unwind(AssertUnwindSafe(|| self.look_at(name, have))).unwrap_or_else(|panic| {
            tracing::error!(
                world = W::NAME,
                name,
                why = describe_panic(&*panic),
                "a thing cannot be compared with what objects want"
            );
            Finding::InTheWay(self.objects_wanting(name))
        })
    }

    fn look_at(&self, name: &str, have: &W::Have) -> Finding {
        let claim = self.claim(name, have);
        let claimants = self.claimants(name);
        if claimants.is_empty() {
            return self.look_at_unwanted(name, claim);
        }
        let keys = || claimants.iter().map(|(key, _)| key.clone()).collect();
        let claimant = match &claim {
            Claim::Ours(Some(owner)) => claimants.iter().find(|(_, object)| is_owner(&**object, owner)),
            Claim::Ours(None) => claimants.first(),
            Claim::Doubtful(_) | Claim::Theirs(_) | Claim::Nobody => None,
        };
        let is_equal = |object: &Arc<W::Kind>| {
            self.wanted(object).is_ok_and(|wanted| {
                wanted.get(name).is_some_and(|want| self.world.diff(want, have).is_empty())
            })
        };
        match claimant {
            Some((key, object)) if is_equal(object) => Finding::InSync(key.clone()),
            _ if self.is_ours(&claim) => Finding::Suspect(keys()),
            _ => Finding::InTheWay(keys()),
        }
    }

    /// Returns whether a thing with this claim is certainly ours.
    fn is_ours(&self, claim: &Claim) -> bool {
        match claim {
            Claim::Ours(owner) => owner.as_ref().is_none_or(|owner| self.is_in_scope(&owner.key)),
            Claim::Nobody => self.policy.r#use == Use::Exclusive,
            Claim::Doubtful(_) | Claim::Theirs(_) => false,
        }
    }

    fn look_at_unwanted(&self, name: &str, claim: Claim) -> Finding {
        match claim {
            Claim::Ours(Some(owner)) | Claim::Doubtful(owner) if !self.is_in_scope(&owner.key) => {
                Finding::Foreign
            }
            Claim::Ours(Some(owner)) if self.is_missing(&owner) => Finding::Leak(Suspicion::OwnerGone(owner)),
            Claim::Ours(Some(owner)) => match self.cache.get(&owner.key) {
                Some(object) if object.meta().deletion_timestamp.is_some() => Finding::Kept,
                _ => Finding::Unlisted(owner.key),
            },
            // The last object that wanted it is being deleted, and its cleanup deletes the thing.
            Claim::Ours(None) if !self.objects_wanting(name).is_empty() => Finding::Kept,
            Claim::Ours(None) => Finding::Leak(Suspicion::Unwanted),
            Claim::Doubtful(owner) => Finding::InTheWay(vec![owner.key]),
            Claim::Nobody if self.policy.r#use == Use::Exclusive => Finding::Leak(Suspicion::Stray),
            Claim::Nobody | Claim::Theirs(_) => Finding::Foreign,
        }
    }
}
