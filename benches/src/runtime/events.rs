//! Measures what event handlers cost in memory: one process gets events for few objects, another for many. Nothing is
//! kept, so both should need the same amount. A third keeps the objects, because it has a controller of the same kind,
//! which needs them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat_runtime::{Action, CancellationToken, Controller, Handlers, Operator};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::Notify;

use super::fake_server::FakeServer;
use crate::report::{ReportRow, ReportTarget};
use crate::server::resident_kilobytes;

/// Enough to fill the journal, which has a fixed size.
const FEW: usize = 20_000;
const MANY: usize = 100_000;

/// The maximum memory of a process with few objects: most of it is the program.
const MEGABYTES_MAX: f64 = 40.0;

/// How much more memory five times as many objects may take: the memory that the allocator does not return varies by
/// that much.
const FLAT: f64 = 1.5;

/// The child process's arguments.
#[derive(clap::Args)]
pub(crate) struct ListenArguments {
    #[arg(long)]
    objects: usize,
    /// A controller of the same kind needs the objects
    #[arg(long)]
    with_cache: bool,
}

pub(super) fn measure() -> Result<Vec<ReportRow>, Box<dyn std::error::Error>> {
    let few = child(FEW, ObjectCache::Without)?;
    let many = child(MANY, ObjectCache::Without)?;
    let cached = child(MANY, ObjectCache::With)?;
    let row = |name: &str, megabytes, target| ReportRow::alone(name, "MB", megabytes, target);
    Ok(vec![
        row("event handlers, memory with 20000 objects", few, ReportTarget::AtMost(MEGABYTES_MAX)),
        row("event handlers, memory with 100000 objects", many, ReportTarget::AtMost(few * FLAT)),
        row("the same beside a controller, which caches", cached, ReportTarget::AtLeast(many)),
    ])
}

/// Whether the child keeps the objects in a cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectCache {
    With,
    Without,
}

/// Returns the resident memory, in megabytes, of a process whose event handler has seen these objects.
fn child(objects: usize, cache: ObjectCache) -> Result<f64, Box<dyn std::error::Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["listen", "--objects", &objects.to_string()]);
    if cache == ObjectCache::With {
        command.arg("--with-cache");
    }
    let output = command.output()?;
    let said = String::from_utf8(output.stdout)?;
    let kilobytes: f64 = said
        .trim()
        .parse()
        .map_err(|_| format!("the child said: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(kilobytes / 1024.0)
}

/// Runs the child: listens until it has seen all objects and prints how much memory it uses.
pub(crate) async fn listen(options: &ListenArguments) -> Result<(), Box<dyn std::error::Error>> {
    let (left, bell) = (Arc::new(AtomicUsize::new(options.objects)), Arc::new(Notify::new()));
    let ring = bell.clone();
    let handlers = Handlers::<ConfigMap>::new().on_event("count", move |_, _| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            ring.notify_one();
        }
        std::future::ready(Ok(()))
    });
    let mut operator =
        Operator::new("bench.homeostat.dev").control(Controller::new().named("events").handlers(handlers));
    if options.with_cache {
        let reconcile = |_, _| std::future::ready(Ok(Action::await_change()));
        operator = operator.control(Controller::<ConfigMap>::new().reconcile(reconcile));
    }
    let stop = CancellationToken::new();
    let client = FakeServer::without_memory(options.objects).client();
    let running = tokio::spawn(operator.run_on(client, stop.clone()));
    bell.notified().await;
    println!("{}", resident_kilobytes(std::process::id())?);
    stop.cancel();
    running.await??;
    Ok(())
}
