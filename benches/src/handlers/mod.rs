//! Compares handlers with Kopf's: the same create handler on the same server, each in its own process. Both record
//! durably on the object that it was handled, so both pay for one write per object.
//!
//! Kopf runs with its own defaults, except that it posts no events, because ours does not either.

pub(crate) mod child;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::Outcome;
use crate::report::{self, ReportRow, ReportTarget};
use crate::server::{LoadGenerator, NAMESPACE, ServerProcess, resident_kilobytes};

/// The operator that Kopf runs.
const OPERATOR: &str = include_str!("operator.py");
/// How many clients create the initial objects.
const CLIENTS: usize = 64;
/// How many objects are created one after the other while the operator runs.
const LIVE: usize = 100;
/// The maximum wait for an object: much longer than the slower of the two takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measure handlers
#[derive(clap::Args)]
pub(crate) struct HandlersOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Objects that exist when the operator starts
    #[arg(long, default_value_t = 1000)]
    objects: usize,
    /// A Python that has Kopf
    #[arg(long, default_value = "python3")]
    python: PathBuf,
}

/// Measures and prints.
pub(crate) async fn run(options: &HandlersOptions) -> Outcome<()> {
    let has_kopf = Command::new(&options.python).args(["-c", "import kopf"]).stderr(Stdio::null()).status();
    if !has_kopf.is_ok_and(|status| status.success()) {
        let python = options.python.display();
        return Err(format!(
            "{python} has no Kopf: run {python} -m pip install kopf, or name another Python with --python"
        )
        .into());
    }
    let ours = measure(options, HandlerFramework::Ours).await?;
    let theirs = measure(options, HandlerFramework::Kopf).await?;
    let row = |name: String, unit, of: fn(&HandlerFigures) -> f64| {
        ReportRow::beside(name, unit, [of(&ours), of(&theirs)], ReportTarget::TimesLess(1.0))
    };
    let rows = [
        row(format!("start until {} objects are handled", options.objects), "ms", |figures| figures.all_ms),
        row("create until handled, p50".to_owned(), "ms", |figures| figures.p50_ms),
        row("create until handled, p99".to_owned(), "ms", |figures| figures.p99_ms),
        row("memory of the operator".to_owned(), "MB", |figures| figures.memory_mb),
    ];
    report::print(&rows, "kopf", options.json);
    Ok(())
}

#[derive(Clone, Copy)]
enum HandlerFramework {
    Ours,
    Kopf,
}

struct HandlerFigures {
    all_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    memory_mb: f64,
}

async fn measure(options: &HandlersOptions, side: HandlerFramework) -> Outcome<HandlerFigures> {
    let process = ServerProcess::start()?;
    let load = LoadGenerator::new(process.client().await?);
    load.namespace().await?;
    load.create(CLIENTS, options.objects, "many").await?;
    let begun = child::now_ns();
    let operator = OperatorProcess::start(options, side, &process)?;
    let mut waiting: BTreeSet<_> = (0..options.objects).map(|at| format!("many-{at}")).collect();
    let mut last = begun;
    while !waiting.is_empty() {
        let (name, at) = operator.handled()?;
        waiting.remove(&name);
        last = at;
    }
    let mut times = Vec::new();
    for at in 0..LIVE {
        let created = child::now_ns();
        load.create_one("live", at).await?;
        times.push(milliseconds(created, operator.handled_one(&format!("live-{at}"))?));
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(HandlerFigures {
        all_ms: milliseconds(begun, last),
        p50_ms: times[LIVE / 2],
        p99_ms: times[LIVE * 99 / 100],
        memory_mb: resident_kilobytes(operator.process.id())? / 1024.0,
    })
}

/// A running operator, killed when dropped, and its output.
struct OperatorProcess {
    process: Child,
    lines: Receiver<String>,
}

impl OperatorProcess {
    fn start(options: &HandlersOptions, side: HandlerFramework, server: &ServerProcess) -> Outcome<Self> {
        let mut command = match side {
            HandlerFramework::Ours => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["handle", "--kubeconfig"]).arg(server.kubeconfig());
                command
            }
            HandlerFramework::Kopf => {
                let script = server.kubeconfig().with_file_name("operator.py");
                std::fs::File::create(&script)?.write_all(OPERATOR.as_bytes())?;
                let mut command = Command::new(&options.python);
                command.args(["-m", "kopf", "run", "--quiet", "--standalone", "--namespace", NAMESPACE]);
                command.arg(script).env("KUBECONFIG", server.kubeconfig());
                command
            }
        };
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("the operator's output is piped")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // The loop ends with the operator, or when the receiver is gone.
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, lines })
    }

    /// Returns the next handled object, and when it was handled.
    fn handled(&self) -> Outcome<(String, u128)> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => "nothing was handled for a long time",
            RecvTimeoutError::Disconnected => "the operator ended",
        })?;
        let (name, at) = line.split_once(' ').ok_or_else(|| format!("the operator said: {line}"))?;
        Ok((name.to_owned(), at.parse()?))
    }

    fn handled_one(&self, wanted: &str) -> Outcome<u128> {
        loop {
            let (name, at) = self.handled()?;
            if name == wanted {
                return Ok(at);
            }
        }
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        // Both fail only if the process is already gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::cast_precision_loss, reason = "differences are far below 2^52 ns")]
fn milliseconds(from: u128, to: u128) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}
