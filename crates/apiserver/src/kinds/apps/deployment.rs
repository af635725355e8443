//! Deployment: keeps a number of Pods and rolls out changes of them.

use crate::kinds::declaration::{Kind, SCALE, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::{Generation, PLAIN};
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Keeps a number of Pods and rolls out changes of them.
pub(crate) static DEPLOYMENT: Kind = Kind {
    short_names: &["deploy"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta1", "v1beta2"],
    strategy: PLAIN.generation(Generation::ContentAndAnnotations).with_status(&["spec", "metadata.labels"]),
    defaults: Some(defaults::workloads::deployment),
    validate: Some(validate::workload::deployment),
    validate_update: Some(validate::workload::selector_stays),
    validate_status: Some(validate::counts::deployment),
    pod_template: Some(PodTemplate::OF_WORKLOAD),
    columns: &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Up-to-date"),
        Column::text("Available"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells::apps::deployment),
    ..Kind::namespaced("apps", "v1", "deployments", "Deployment")
};
