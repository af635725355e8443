//! What the demo shows, one file per operator: first the objects that are requested, then what breaks.

mod at;
mod database;
mod shapes;
mod workloads;

use super::demo_run::DemoRun;

/// Runs all scenarios in order.
pub(super) async fn run_all(run: &mut DemoRun<'_>) {
    run.timeline.heading("objects are applied");
    at::request_objects(run).await;
    workloads::request_objects(run).await;
    shapes::request_objects(run).await;
    database::request_objects(run).await;
    run.timeline.heading("operators make them real");
    shapes::wait_until_ready(run).await;
    workloads::wait_until_ready(run).await;
    at::wait_until_ready(run).await;
    let database = database::wait_until_ready(run).await;
    run.timeline.heading("things break and are repaired");
    shapes::break_and_wait(run).await;
    workloads::break_and_wait(run).await;
    database::break_and_wait(run, database.as_ref()).await;
    at::delete_and_wait(run).await;
}
