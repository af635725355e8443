//! The node supervisor as a program of its own, for programs that embed a node and whose `main` cannot begin with
//! [`homeostat_workloads::node::run_node_helper`].

use std::process::ExitCode;

fn main() -> ExitCode {
    homeostat_workloads::node::run_node_helper().unwrap_or_else(|| {
        eprintln!("error: this program is started by a node and cannot be run by hand");
        ExitCode::from(2)
    })
}
