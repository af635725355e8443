//! The runtime against kube-runtime: same objects, same served bytes, same program.
//!
//! Where the client's side is measured, a server that costs nothing stands behind both ([`fake`]); where the whole
//! way counts, `homeostat up` runs as its own process and both speak TLS to it ([`first`], [`memory`]).

mod dispatch;
mod fake;
mod first;
mod latency;
pub(crate) mod memory;
mod side;
mod trouble;

use clap::Args;

use crate::report;

/// What to measure and how to print it.
#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only the measurements whose name contains this: dispatch, first, latency, trouble.
    #[arg(long, default_value = "")]
    only: String,
}

pub(crate) async fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut rows = Vec::new();
    let is_wanted = |name: &str| name.contains(&options.only);
    if is_wanted("dispatch") {
        rows.extend(dispatch::measure().await);
    }
    if is_wanted("first") {
        rows.extend(first::measure().await?);
    }
    if is_wanted("latency") {
        rows.extend(latency::measure().await);
    }
    if is_wanted("trouble") {
        rows.extend(trouble::measure().await);
    }
    report::print(&rows, "kube-runtime", options.json);
    Ok(())
}
