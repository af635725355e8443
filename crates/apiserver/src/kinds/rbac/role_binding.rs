//! RoleBinding: who has a role in a namespace.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// The columns of bindings, in a namespace or everywhere.
pub(super) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role"),
    Column::text("Age"),
    Column::text("Users").wide(),
    Column::text("Groups").wide(),
    Column::text("ServiceAccounts").wide(),
];

/// Who has a role in a namespace.
pub(crate) static ROLE_BINDING: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    defaults: Some(defaults::extra::role_binding),
    validate: Some(validate::cluster::role_binding),
    validate_update: Some(validate::cluster::binding_update),
    columns: COLUMNS,
    cells: Some(cells::rbac::binding),
    ..Kind::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
};
