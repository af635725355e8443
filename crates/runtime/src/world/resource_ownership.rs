//! Determines who owns an external resource, from its name, its mark or its record.

use super::decide_step::{Owner, OwnershipClaim};
use super::world_parts::WorldParts;
use super::world_policy::{ApiSharing, Ownership};
use super::world_trait::World;
use crate::kind::key;

impl<W: World> WorldParts<W> {
    /// Returns the claim on an external resource.
    pub(super) fn claim(&self, name: &str, have: &W::Have) -> OwnershipClaim {
        match &self.policy.ownership {
            Ownership::Prefix(prefix) if name.starts_with(prefix.as_str()) => OwnershipClaim::Ours(None),
            Ownership::Prefix(_) => OwnershipClaim::Nobody,
            Ownership::Tags => match self.world.mark(have) {
                Some(mark) if mark.is_of(self.manager()) => {
                    OwnershipClaim::Ours(Some(Owner { key: mark.key::<W::Kind>(), uid: mark.uid }))
                }
                Some(mark) if !mark.is_blank() => OwnershipClaim::Theirs(mark.to_string()),
                Some(_) | None => OwnershipClaim::Nobody,
            },
            Ownership::Records => self.recorded(name, have),
        }
    }

    fn recorded(&self, name: &str, have: &W::Have) -> OwnershipClaim {
        let Some(record) = self.records.as_ref().and_then(|records| records.of_resource(name)) else {
            return OwnershipClaim::Nobody;
        };
        let spec = &record.spec;
        let owner =
            Owner { key: key::<W::Kind>(&spec.owner_namespace, &spec.owner), uid: spec.owner_uid.clone() };
        let is_it = |intent: &String| {
            serde_json::from_str::<W::Want>(intent).is_ok_and(|want| self.world.diff(&want, have).is_empty())
        };
        if spec.made || spec.intents().any(is_it) {
            OwnershipClaim::Ours(Some(owner))
        } else {
            OwnershipClaim::Doubtful(owner)
        }
    }

    /// Returns whether a resource with this claim is certainly ours.
    pub(super) fn is_ours(&self, claim: &OwnershipClaim) -> bool {
        match claim {
            OwnershipClaim::Ours(owner) => owner.as_ref().is_none_or(|owner| self.is_in_scope(&owner.key)),
            OwnershipClaim::Nobody => self.policy.r#use == ApiSharing::Exclusive,
            OwnershipClaim::Doubtful(_) | OwnershipClaim::Theirs(_) => false,
        }
    }
}
