//! Where an operator's log goes when its `main` says nothing: to stderr, one line each, from level info on.
//! `HOMEOSTAT_LOG` says more (`debug`, or `homeostat_runtime=trace,info`).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The variable that says how much is logged.
const VARIABLE: &str = "HOMEOSTAT_LOG";

/// Logs to stderr, unless the program has made other arrangements.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are for people. An error means that a subscriber is there already: the program's own, which wins.
    let _ = log.with_ansi(std::io::stderr().is_terminal()).try_init();
}
