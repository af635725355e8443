//! Compares the runtime with kube-runtime: same objects, same served bytes, same program.
//!
//! If only the client's side is measured, both use a server that costs nothing ([`fake_server`]). If the whole path
//! counts, both use TLS to a server in another process ([`first_sync`], [`memory`], [`edits`]): `homeostat up`, or the
//! server of a kubeconfig.

mod controllers;
mod dispatch;
mod edits;
pub(crate) mod events;
mod failures;
mod fake_server;
mod first_sync;
mod latency;
pub(crate) mod memory;

use std::path::PathBuf;

use clap::Args;

use crate::report;

/// What to measure and how to print it.
#[derive(Args)]
pub(crate) struct RuntimeOptions {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Only the measurements whose name contains this: dispatch, events, first, latency, trouble
    #[arg(long, default_value = "")]
    only: String,
    /// Only the measurements that need a server, on the one of this kubeconfig: creates 30 000 ConfigMaps in the
    /// namespace `bench` and deletes them at the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub(crate) async fn run(options: &RuntimeOptions) -> Result<(), Box<dyn std::error::Error>> {
    let mut rows = Vec::new();
    if let Some(kubeconfig) = &options.kubeconfig {
        rows.extend(first_sync::measure_on(kubeconfig).await?);
        report::print(&rows, "kube-runtime", options.json);
        return Ok(());
    }
    let is_wanted = |name: &str| name.contains(&options.only);
    if is_wanted("dispatch") {
        rows.extend(dispatch::measure().await);
    }
    if is_wanted("events") {
        rows.extend(events::measure()?);
    }
    if is_wanted("first") {
        rows.extend(first_sync::measure().await?);
    }
    if is_wanted("latency") {
        rows.extend(latency::measure().await);
    }
    if is_wanted("trouble") {
        rows.extend(failures::measure().await);
    }
    report::print(&rows, "kube-runtime", options.json);
    Ok(())
}
