//! Benchmarks. Each subcommand measures one part in one run and prints a table, or JSON with `--json`.
//!
//! Figures are only comparable within one run: the ratios count.

mod build;
mod figure;
mod handlers;
mod pods;
mod report;
mod runtime;
mod server;
mod sim;
mod why;
mod world;

use clap::{Parser, Subcommand};

/// The server's own allocator: a client would spend a fifth of its time in the system's allocator, on the same two
/// cores.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The result of a measurement.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Measure Homeostat
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The API server: over TLS as its own process, then in this process
    Server(server::ServerOptions),
    /// What an operator costs to build, compared with kube-runtime; takes half an hour or more
    Build(build::BuildOptions),
    /// Pods as processes: a thousand start and end
    Pods(pods::PodsOptions),
    /// The runtime: dispatch, cache and latency, compared with kube-runtime
    Runtime(runtime::RuntimeOptions),
    /// Handlers: objects that are handled completely, compared with Kopf
    Handlers(handlers::HandlersOptions),
    /// Handles objects and prints when: a child of `handlers`
    #[command(hide = true)]
    Handle(handlers::child::HandleArguments),
    /// Caches objects and prints how much memory that takes: a child of `runtime`
    #[command(hide = true)]
    Hold(runtime::memory::HoldArguments),
    /// Receives events and prints how much memory that takes: a child of `runtime`
    #[command(hide = true)]
    Listen(runtime::events::ListenArguments),
    /// The simulator: schedules per second and core, and their growth by steps
    Sim(sim::SimOptions),
    /// What `why` costs: a reconcile with and without the journal and the history
    Why(why::WhyBenchOptions),
    /// A world outside the cluster: what a full pass costs, by size
    World(world::WorldOptions),
}

#[tokio::main]
async fn main() -> Outcome<()> {
    match Arguments::parse().command {
        Command::Build(options) => build::run(&options),
        Command::Handlers(options) => handlers::run(&options).await,
        Command::Handle(options) => handlers::child::handle(&options).await,
        Command::Pods(options) => pods::run(&options).await,
        Command::Server(options) => server::run(options).await,
        Command::Runtime(options) => runtime::run(&options).await,
        Command::Hold(options) => runtime::memory::hold(&options).await,
        Command::Listen(options) => runtime::events::listen(&options).await,
        Command::Sim(options) => sim::run(options).await,
        Command::Why(options) => why::run(&options).await,
        Command::World(options) => world::run(&options).await,
    }
}
