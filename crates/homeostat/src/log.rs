//! Where an operator's log goes when its `main` says nothing: to stderr, one line each, from level info on.
//! `HOMEOSTAT_LOG`, or `RUST_LOG`, says more (`debug`, or `homeostat_runtime=trace,info`).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The variables that say how much is logged; the first that is set counts.
const VARIABLES: [&str; 2] = ["HOMEOSTAT_LOG", "RUST_LOG"];

/// What is logged unless told. The client logs every request that fails, on a server that is away one after the other;
/// the runtime says it once, with what it does about it.
const USUALLY: &str = "info,kube_client::client::builder=off";

/// Logs to stderr, unless the program has made other arrangements.
pub(crate) fn start() {
    let told = VARIABLES.iter().find_map(|variable| EnvFilter::try_from_env(variable).ok());
    let filter = told.unwrap_or_else(|| EnvFilter::new(USUALLY));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are for people. An error means that a subscriber is there already: the program's own, which wins.
    let _ = log.with_ansi(std::io::stderr().is_terminal()).try_init();
}
