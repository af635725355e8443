//! The runtime against kube-runtime: same objects, same served bytes, same program.

mod dispatch;
mod fake;
mod report;

use clap::Args;

/// What to measure and how to print it.
#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Only the measurements whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

pub(crate) async fn run(options: &Options) {
    let mut rows = Vec::new();
    if "dispatch".contains(&options.only) {
        rows.extend(dispatch::measure().await);
    }
    report::print(&rows, options.json);
}
