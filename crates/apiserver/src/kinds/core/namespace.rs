//! Namespace: a room for objects with names of their own.

use serde_json::{Value, json};

use crate::kinds::declaration::{FirstStatus, Kind, Part, Protected, STATUS};
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::{defaults, prepare, validate};
use crate::table::cells;

/// Labels of a namespace that ask an API server to refuse Pods.
const POD_SECURITY_LABELS: [&str; 2] =
    ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];

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

/// Warns of labels that ask an API server to refuse Pods: they are only kept here.
fn warn_unenforced(_: &Kind, new: &Value, old: Option<&Value>) -> Option<String> {
    let label = |object: &Value, name: &str| object["metadata"]["labels"].get(name).cloned();
    let is_news = |name: &&str| {
        let given = label(new, name);
        given.is_some() && given != old.and_then(|old| label(old, name))
    };
    let named = POD_SECURITY_LABELS.into_iter().find(is_news)?;
    Some(format!(
        "the label {named} is stored, but this server does not enforce it: Pods of any sort can be created"
    ))
}
