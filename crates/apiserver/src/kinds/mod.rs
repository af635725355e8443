//! What Kubernetes does per built-in kind. Each kind is one file, `<group>/<kind>.rs`, with one `declaration`: names,
//! strategy, defaults, preparation, validation, printing, selectable fields. The registry reads the list below, and the
//! generic verbs ask the declaration, in this order: `strategy` says how to treat a kind, `defaults` what absent
//! fields become, `prepare` what the server puts in itself, `validate` what is wrong. `subresource` has the
//! endpoints below an object, `names` what may be called what.
//!
//! **Invariant:** everything here is a function of the objects it is given; nothing reads or writes the store.

pub(crate) mod admissionregistration;
pub(crate) mod apiextensions;
pub(crate) mod apiregistration;
pub(crate) mod apps;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod declaration;
pub(crate) mod defaults;
pub(crate) mod deletion;
pub(crate) mod discovery;
pub(crate) mod events;
mod fill;
pub(crate) mod flowcontrol;
pub mod names;
pub(crate) mod networking;
pub(crate) mod node;
mod pem;
pub(crate) mod policy;
pub mod prepare;
pub(crate) mod printing;
pub(crate) mod rbac;
pub(crate) mod resource;
pub(crate) mod scheduling;
pub(crate) mod selectable;
pub(crate) mod storage;
pub mod strategy;
pub mod subresource;
pub(crate) mod validate;
pub(crate) mod warnings;

use self::declaration::Kind;

/// The kinds of each group.
static GROUPS: [&[&Kind]; 21] = [
    core::KINDS,
    admissionregistration::KINDS,
    apiextensions::KINDS,
    apiregistration::KINDS,
    apps::KINDS,
    authentication::KINDS,
    authorization::KINDS,
    autoscaling::KINDS,
    batch::KINDS,
    certificates::KINDS,
    coordination::KINDS,
    discovery::KINDS,
    events::KINDS,
    flowcontrol::KINDS,
    networking::KINDS,
    node::KINDS,
    policy::KINDS,
    rbac::KINDS,
    resource::KINDS,
    scheduling::KINDS,
    storage::KINDS,
];

/// Returns every built-in kind once per version, ordered by group, plural name and version, as discovery lists them.
pub(crate) fn built_in() -> Vec<&'static Kind> {
    let mut kinds = GROUPS.concat();
    kinds.sort_by_key(|kind| (kind.group, kind.plural, kind.version));
    kinds
}

/// Returns the declaration of a kind.
#[cfg(test)]
pub(crate) fn declared(group: &str, version: &str, kind: &str) -> &'static Kind {
    let is_meant = |one: &&Kind| (one.group, one.version, one.kind) == (group, version, kind);
    built_in().into_iter().find(is_meant).expect("a built-in kind")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn no_two_declarations_are_of_one_kind_or_path() {
        let kinds = built_in();
        let paths = kinds.iter().map(|kind| (kind.group, kind.version, kind.plural)).collect::<BTreeSet<_>>();
        let names = kinds.iter().map(|kind| (kind.group, kind.version, kind.kind)).collect::<BTreeSet<_>>();
        assert_eq!((paths.len(), names.len()), (kinds.len(), kinds.len()));
    }

    #[test]
    fn every_kind_prints_as_many_cells_as_it_has_columns_even_when_empty() {
        for kind in built_in() {
            assert_eq!(kind.cells.is_some(), !kind.columns.is_empty(), "{kind:?}");
            let Some(cells) = kind.cells else { continue };
            // IPAddress prints its age without a column for it, there as here.
            let extra = usize::from(kind.kind == "IPAddress");
            let printed = cells(&json!({"metadata": {}}), jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(printed.len(), kind.columns.len() + extra, "{kind:?}");
        }
    }
}
