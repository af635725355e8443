//! Sets up logging for an operator unless its `main` decides otherwise: to stderr, one line per event, at level info
//! and above. `HOMEOSTAT_LOG` or `RUST_LOG` changes that (`debug`, or `homeostat_runtime=trace,info`).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The variables that set the log level; the first one that is set wins.
const VARIABLES: [&str; 2] = ["HOMEOSTAT_LOG", "RUST_LOG"];

/// The default filter. The client logs every failed request, which repeats while a server is down; the runtime reports
/// it once, along with what it does about it.
const USUALLY: &str = "info,kube_client::client::builder=off";

/// Logs to stderr, unless the program has its own subscriber.
pub(crate) fn start() {
    let chosen = VARIABLES.iter().find_map(|variable| EnvFilter::try_from_env(variable).ok());
    let filter = chosen.unwrap_or_else(|| EnvFilter::new(USUALLY));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are only for terminals. An error means that there is already a subscriber: the program's own, which takes
    // precedence.
    let _ = log.with_ansi(std::io::stderr().is_terminal()).try_init();
}
