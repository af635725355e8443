//! `homeostat sim`: injects faults around operators and judges how they cope. One folder or file per subcommand.

mod replay;
mod run;
mod saved;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

/// The exit code when nothing could be tried.
const NOTHING_TRIED: u8 = 2;
/// The exit code when the faults of a saved failure did not happen, so that there is no result.
const TRACE_DOES_NOT_FIT: u8 = 3;

/// Break an operator on purpose, and find out what it does not survive
#[derive(clap::Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    Run(run::Run),
    Replay(replay::Replay),
    Show(show::Show),
}

impl Sim {
    /// Runs the subcommand. The exit code is 0 if no failure was found, 1 if one was, 2 if nothing could be tried, and
    /// 3 if the faults of a saved failure did not happen.
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            SimCommand::Run(run) => run.run(),
            SimCommand::Replay(replay) => replay.run(),
            SimCommand::Show(show) => show.run(),
        }
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::from(NOTHING_TRIED)
}

/// Reports that a saved failure no longer fits the operator, and why.
fn report_misfit(why: &str) -> ExitCode {
    eprintln!("error: the trace no longer fits the operator: {why}");
    eprintln!("This says nothing about the failure: explore again to see whether the operator still has it.");
    ExitCode::from(TRACE_DOES_NOT_FIT)
}
