//! The built-in kinds. Each kind is one file, `<group>/<kind>.rs`, with one
//! [`declaration`](crate::resource::declaration): names, strategy, defaults, preparation, validation, printing,
//! selectable fields. The registry reads the list below. `defaults`, `validate` and `warnings` hold the defaults,
//! checks and warnings that several kinds share; `subresource` has the endpoints below an object.
//!
//! **Invariant:** everything here is a function of the objects it is given; nothing reads or writes the store.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub(crate) mod apps;
pub(crate) mod authentication;
pub mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub mod certificates;
pub(crate) mod coordination;
pub mod core;
pub mod defaults;
pub mod discovery;
pub mod events;
pub(crate) mod flowcontrol;
mod kind_warnings;
pub mod networking;
pub mod node;
pub mod pem;
pub mod policy;
pub mod rbac;
pub(crate) mod resource;
pub mod scheduling;
pub mod storage;
pub mod subresource;
pub mod validate;
pub mod warnings;

use crate::resource::Resource;
use crate::resource::declaration::BuiltInKind;

/// The kinds of each group.
static GROUPS: [&[&BuiltInKind]; 21] = [
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

/// Returns the rows of all built-in kinds, in discovery order.
pub fn built_in_rows() -> Vec<Resource> {
    built_in().into_iter().map(Resource::declared).collect()
}

/// Returns every built-in kind once per version, ordered by group, plural name and version, as discovery lists them.
pub(crate) fn built_in() -> Vec<&'static BuiltInKind> {
    let mut kinds = GROUPS.concat();
    kinds.sort_by_key(|kind| (kind.group, kind.plural, kind.version));
    kinds
}

/// Returns the declaration of a kind.
#[cfg(test)]
pub(crate) fn declared(group: &str, version: &str, kind: &str) -> &'static BuiltInKind {
    let is_meant = |one: &&BuiltInKind| (one.group, one.version, one.kind) == (group, version, kind);
    built_in().into_iter().find(is_meant).expect("a built-in kind")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::*;

    #[test]
    fn no_two_declarations_are_of_one_kind_or_path() {
        let kinds = built_in();
        let paths = kinds.iter().map(|kind| (kind.group, kind.version, kind.plural)).collect::<BTreeSet<_>>();
        let names = kinds.iter().map(|kind| (kind.group, kind.version, kind.kind)).collect::<BTreeSet<_>>();
        assert_eq!((paths.len(), names.len()), (kinds.len(), kinds.len()));
    }

    /// A public declaration that is not listed in its group compiles without a warning.
    #[test]
    fn every_declaration_is_listed() {
        fn declarations(folder: &Path) -> usize {
            let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let count = |file: PathBuf| match std::fs::read_to_string(&file) {
                Ok(text) => text
                    .lines()
                    .filter(|line| {
                        line.starts_with("pub")
                            && line.contains(" static ")
                            && line.contains(": BuiltInKind =")
                    })
                    .count(),
                Err(_) => declarations(&file),
            };
            files.map(count).sum()
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds");
        assert_eq!(declarations(&folder), built_in().len());
    }

    #[test]
    fn every_kind_prints_as_many_cells_as_it_has_columns_even_when_empty() {
        for kind in built_in() {
            assert_eq!(kind.cells.is_some(), !kind.columns.is_empty(), "{kind:?}");
            let Some(cells) = kind.cells else { continue };
            // IPAddress prints its age without having a column for it, as in Kubernetes.
            let extra = usize::from(kind.kind == "IPAddress");
            let printed = cells(&json!({"metadata": {}}), jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(printed.len(), kind.columns.len() + extra, "{kind:?}");
        }
    }
}
