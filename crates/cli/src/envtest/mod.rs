//! Stand-ins for the programs that test suites start: `kube-apiserver` and `etcd`, chosen by the name under which this
//! program is called, for Go's envtest, fabric8's kube-api-test, and other tools that start the two themselves.
//!
//! `etcd` only answers health checks and says where the data is; `kube-apiserver` asks it and stores the data there. A
//! suite may therefore restart just the server and finds its objects again. `homeostat assets` writes both names into a
//! folder.

mod controllers;
mod etcd;
mod flags;
mod known_flags;
mod kube_apiserver;

use std::path::Path;
use std::process::ExitCode;

/// The variable that says which program to be, for a script that cannot choose the name under which it calls this
/// program.
const RUN_AS: &str = "HOMEOSTAT_RUN_AS";
/// The path at which `etcd` reports its data folder to `kube-apiserver`.
const DATA_FOLDER_PATH: &str = "/homeostat/data-folder";

/// The names under which this program is a stand-in.
pub(crate) const KUBE_APISERVER: &str = "kube-apiserver";
pub(crate) const ETCD: &str = "etcd";

/// Runs the stand-in that the program's name asks for; returns `None` for other names.
pub(crate) fn run_by_name() -> Option<ExitCode> {
    let mut arguments = std::env::args();
    let called = arguments.next().unwrap_or_default();
    let name = std::env::var(RUN_AS).unwrap_or_else(|_| {
        Path::new(&called).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    });
    let arguments: Vec<String> = arguments.collect();
    let outcome = match name.as_str() {
        KUBE_APISERVER => kube_apiserver::run(&arguments),
        ETCD => etcd::run(&arguments),
        _ => return None,
    };
    Some(outcome.map_or_else(
        |error| {
            // Both original programs begin their errors with this word.
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}
