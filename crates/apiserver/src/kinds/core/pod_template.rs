//! PodTemplate: a template for Pods.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::strategy::PLAIN;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// A template for Pods.
pub(crate) static POD_TEMPLATE: Kind = Kind {
    strategy: PLAIN.counted().returned(),
    defaults: Some(defaults::workloads::pod_template),
    validate: Some(validate::workload::pod_template),
    pod_template: Some(PodTemplate { path: "template", name_is_used_in: "", is_judged_when_changed: true }),
    columns: &[Column::NAME, Column::text("Containers"), Column::text("Images"), Column::text("Pod Labels")],
    cells: Some(cells::core::pod_template),
    ..Kind::namespaced("", "v1", "podtemplates", "PodTemplate")
};
