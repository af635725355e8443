//! `homeostat sim`: injects faults around operators and judges how they cope. One folder or file per subcommand.

mod run;

use std::process::ExitCode;

use clap::Subcommand;

/// Break an operator on purpose: find what it does not survive
#[derive(clap::Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    Run(run::Run),
}

impl Sim {
    /// Runs the subcommand. The exit code is 0 if no failure was found, 1 if one was, 2 if nothing could be tried.
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            SimCommand::Run(run) => run.run(),
        }
    }
}
