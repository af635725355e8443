//! IngressClass: which controller serves Ingresses of a class.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Which controller serves Ingresses of a class.
pub(crate) static INGRESS_CLASS: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.counted(),
    defaults: Some(defaults::extra::ingress_class),
    validate: Some(validate::ingress_class::class),
    validate_update: Some(validate::ingress_class::class_update),
    columns: &[Column::NAME, Column::text("Controller"), Column::text("Parameters"), Column::text("Age")],
    cells: Some(cells::networking::ingress_class),
    ..Kind::cluster_scoped("networking.k8s.io", "v1", "ingressclasses", "IngressClass")
};
