//! RuntimeClass: how containers of a class are run.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;
use crate::table::cells;

/// How containers of a class are run.
pub(crate) static RUNTIME_CLASS: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().created_by_update(),
    validate: Some(validate::cluster::runtime_class),
    validate_update: Some(validate::cluster::runtime_class_update),
    columns: &[Column::NAME, Column::text("Handler"), Column::text("Age")],
    cells: Some(cells::node::runtime_class),
    ..Kind::cluster_scoped("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
};
