//! The node supervisor as a separate program, for programs that embed a node and whose `main` cannot begin with
//! [`homeostat_workloads::node::run_node_helper`].

use std::process::ExitCode;

fn main() -> ExitCode {
    homeostat_workloads::node::run_node_helper().unwrap_or_else(|| {
        eprintln!("error: a node starts this program; it cannot be run by hand");
        ExitCode::from(2)
    })
}
