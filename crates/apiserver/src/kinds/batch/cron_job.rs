//! CronJob: starts Jobs by a schedule.

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Starts Jobs by a schedule.
pub(crate) static CRON_JOB: Kind = Kind {
    short_names: &["cj"],
    categories: &["all"],
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: WORKLOAD,
    defaults: Some(defaults::workloads::cron_job),
    validate: Some(validate::batch::cron_job),
    validate_create: Some(validate::batch::cron_job_create),
    pod_template: Some(PodTemplate {
        path: "spec.jobTemplate.spec.template",
        name_is_used_in: "Pod names and hostnames",
        is_judged_when_changed: true,
    }),
    columns: &[
        Column::NAME,
        Column::text("Schedule"),
        Column::text("Timezone"),
        Column::truth("Suspend"),
        Column::number("Active"),
        Column::text("Last Schedule"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells::batch::cron_job),
    ..Kind::namespaced("batch", "v1", "cronjobs", "CronJob")
};
