//! Namespace: a room for objects with names of their own.

use serde_json::{Value, json};

use crate::kinds::declaration::{FirstStatus, Kind, Part, Protected, STATUS, Write};
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, prepare, validate};
use crate::table::cells;

/// The prefix of the labels by which a namespace asks for the Pod Security Standards.
const POD_SECURITY: &str = "pod-security.kubernetes.io";
/// The modes of those labels, and what this server does not do about each.
const POD_SECURITY_MODES: [(&str, &str); 3] = [
    ("enforce", "enforce it: Pods of any sort can be created"),
    ("warn", "act on it: nobody is warned about Pods that violate it"),
    ("audit", "act on it: there is no audit log"),
];

/// A room for objects with names of their own.
pub(crate) static NAMESPACE: Kind = Kind {
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    short_names: &["ns"],
    subresources: &[
        Part::own("finalize", &["update"])
            .judged_by(|new, _, errors| validate::cluster::namespace(new, errors)),
        STATUS,
    ],
    strategy: PLAIN.returned().named(NameRule::Label).with_status(SPEC),
    defaults: Some(defaults::core::namespace),
    first_status: FirstStatus::Fixed(|| json!({"phase": "Active"})),
    prepare_create: Some(|_, fields, _| {
        prepare::core::namespace_created(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, old| prepare::keep(fields, old, "spec.finalizers")),
    validate: Some(validate::cluster::namespace),
    validate_status: Some(validate::status::namespace),
    warn_unenforced: Some(warn_unenforced),
    protected: Protected {
        names: &["default", "kube-system", "kube-public"],
        why: "this namespace may not be deleted",
    },
    columns: &[Column::NAME, Column::text("Status"), Column::text("Age")],
    cells: Some(cells::core::namespace),
    selectable: Selectable::fields(&[("status.phase", Absent::Empty)]).without_namespace(),
    ..Kind::cluster_scoped("", "v1", "namespaces", "Namespace")
};

/// Warns of labels that ask for the Pod Security Standards, once for each mode whose labels are new: they are only kept here.
fn warn_unenforced(_: &Kind, write: &Write<'_>) -> Vec<String> {
    if !write.subresource.is_empty() {
        return Vec::new();
    }
    let label = |object: &Value, name: &str| object["metadata"]["labels"].get(name).cloned();
    let is_new = |name: &String| {
        let given = label(write.new, name);
        given.is_some() && given != write.old.and_then(|old| label(old, name))
    };
    let warning = |(mode, effect): (&str, &str)| {
        let both = [format!("{POD_SECURITY}/{mode}"), format!("{POD_SECURITY}/{mode}-version")];
        let named = both.into_iter().find(is_new)?;
        Some(format!("the label {named} is stored, but this server does not {effect}"))
    };
    POD_SECURITY_MODES.into_iter().filter_map(warning).collect()
}
