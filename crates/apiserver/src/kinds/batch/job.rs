//! Job: runs Pods until enough of them succeed.

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, prepare, validate};
use crate::table::cells;

const DELETE_WARNING: &str = "Pods of a Job stay by default when it is deleted: say propagationPolicy=Background to delete \
    them, or propagationPolicy=Orphan to delete the Job alone without this warning";

/// Runs Pods until enough of them succeed.
pub(crate) static JOB: Kind = Kind {
    categories: &["all"],
    subresources: &[STATUS],
    strategy: WORKLOAD.orphaning(),
    defaults: Some(defaults::workloads::job),
    prepare_create: Some(|_, fields, with| {
        prepare::workloads::job_created(fields, with.uid);
        Ok(())
    }),
    validate: Some(validate::batch::job),
    validate_update: Some(validate::batch::job_update),
    validate_status: Some(validate::job_status::check),
    pod_template: Some(PodTemplate::OF_WORKLOAD),
    delete_warning: Some(DELETE_WARNING),
    columns: &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Completions"),
        Column::text("Duration"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells::batch::job),
    selectable: Selectable {
        refusal: |name| format!("field label {name:?} not supported for Job"),
        ..Selectable::fields(&[("status.successful", Absent::Zero)])
    },
    ..Kind::namespaced("batch", "v1", "jobs", "Job")
};
