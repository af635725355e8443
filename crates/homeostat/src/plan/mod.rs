//! Computes plans: what a change would do to a cluster, before it is made.
//!
//! [`plan`] reads the objects that the operator reads (`snapshot`), loads it into an in-memory control plane and runs
//! the real reconcilers there in virtual time until they are at rest, without and then with the change (`run`, `rest`,
//! `apply`), compares both states (`compare`) and reports the difference (`report`, `render`). `command` is the command
//! line.
//!
//! **Invariant:** a plan writes neither to the cluster nor to external systems: it only lists the cluster, and worlds
//! record their writes instead of sending them.

mod apply;
mod change;
mod command;
mod compare;
mod error;
mod journal_summary;
mod render;
mod report;
mod rest;
mod run;
mod snapshot;
mod unknowns;

use futures::future::BoxFuture;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_core::Clock;
use homeostat_runtime::{Operator, PlannedCalls};
use jiff::Timestamp;
use kube::Client;
use tokio::runtime::Handle;

pub use change::Change;
pub use command::{PlanOutcome, plan_operator, plan_workloads};
pub use compare::{ComparedWindow, compare_states};
pub use error::PlanError;
pub use render::{RenderStyle, render};
pub use report::{ChangeAction, DueLater, FailingObject, KindCounts, ObjectChange, Plan};

/// The settings of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanSettings {
    /// The namespace for objects that do not specify one; by default the client's.
    pub namespace: Option<String>,
    /// The admission plugins of the in-memory control plane; by default, the same as in Kubernetes.
    pub admission: AdmissionConfig,
    /// When the plan begins; now by default.
    pub start: Option<Timestamp>,
}

/// Returns what the change would do to the client's cluster if this operator ran there. It only lists the cluster's
/// objects. It needs a tokio runtime, on which worlds also read; the reconcilers run on their own thread.
pub fn plan(
    client: Client,
    operator: Operator,
    change: Change,
    settings: PlanSettings,
) -> BoxFuture<'static, Result<Plan, PlanError>> {
    // The future is boxed here, so that it is compiled here and not in every operator.
    Box::pin(make_plan(client, operator, change, settings))
}

async fn make_plan(
    client: Client,
    operator: Operator,
    change: Change,
    settings: PlanSettings,
) -> Result<Plan, PlanError> {
    let namespace = settings.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let change = change.in_namespace(&namespace);
    let name = operator.name().to_owned();
    let state = snapshot::read(&client, &snapshot::ReadScope::new(&operator, &change)).await?;
    let read = state.read.clone();
    let input = run::PlanInput {
        state,
        operator,
        change,
        admission: settings.admission,
        start: settings.start.unwrap_or_else(|| Clock::system().now()),
        calls: PlannedCalls::new(Handle::current()),
    };
    // It runs in a blocking task, so that the caller's own virtual time also stands still.
    let done = tokio::task::spawn_blocking(move || run::run_in_virtual_time(input)).await;
    let run = done.map_err(|panic| PlanError::Panicked(panic.to_string()))??;
    Ok(report::report(run, &name, &read))
}
