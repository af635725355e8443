//! The `homeostat` binary: one file per command; this one selects the command.
//!
//! Results go to stdout, everything else to stderr. An error is one line and exit code 1; wrong usage is 2.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

mod assets;
mod audit_flags;
mod backup;
mod demo;
mod envtest;
mod new;
mod plan;
mod sim;
mod temporary_folder;
mod up;
mod user;
mod why;

/// This allocator suits many small objects that are created and dropped by several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keeps actual state equal to desired state: a Kubernetes control plane in one process, and tools for its operators
#[derive(Parser)]
#[command(name = "homeostat", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Demo(demo::Demo),
    New(new::New),
    Sim(sim::Sim),
    Why(why::Why),
    Plan(plan::Plan),
    Backup(backup::Backup),
    Restore(backup::Restore),
    User(user::User),
    Assets(assets::Assets),
}

fn main() -> ExitCode {
    // This program is also the supervisor of a node's processes, and the launcher of each of them.
    if let Some(code) = homeostat::embedded::run_node_helper() {
        return code;
    }
    // Test suites in other languages call it by the names of the programs it stands in for.
    if let Some(code) = envtest::run_by_name() {
        return code;
    }
    let arguments = Arguments::parse();
    init_logging(arguments.command.default_log_level());
    let result = match arguments.command {
        Command::Up(up) => up.run(),
        Command::Demo(demo) => demo.run(),
        Command::New(new) => new.run(),
        Command::Sim(sim) => return sim.run(),
        Command::Why(why) => why.run(),
        Command::Plan(plan) => return plan.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::User(user) => user.run(),
        Command::Assets(assets) => assets.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<demo::Interrupted>() => {
            eprintln!("{error}");
            ExitCode::from(demo::Interrupted::EXIT_CODE)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Command {
    /// Returns the default log level. The demo and the simulator break things on purpose, so their warnings are not
    /// shown.
    fn default_log_level(&self) -> tracing::Level {
        match self {
            Self::Demo(_) | Self::Sim(_) => tracing::Level::ERROR,
            Self::Up(_)
            | Self::New(_)
            | Self::Why(_)
            | Self::Plan(_)
            | Self::Backup(_)
            | Self::Restore(_)
            | Self::User(_)
            | Self::Assets(_) => tracing::Level::WARN,
        }
    }
}

/// Logs warnings by default; `HOMEOSTAT_LOG=debug` or `HOMEOSTAT_LOG=homeostat_apiserver=debug` logs more.
fn init_logging(level: tracing::Level) {
    let filter = EnvFilter::builder()
        .with_env_var("HOMEOSTAT_LOG")
        .with_default_directive(level.into())
        .from_env_lossy();
    let has_colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(has_colours)
        .init();
}
