//! Measures what it costs to build an operator: the same small operator on Homeostat with and without the embedded
//! control plane, and on kube-runtime, each as its own project in its own folder.
//!
//! It measures processor time, which other work on the machine barely affects, and elapsed time. The first build
//! compiles every dependency; the second follows a change of one letter. Downloads happen before the measurement.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Parser;
use tokio::time::Instant;

use crate::figure::{Figure, FigureTarget, print};

/// The word that is replaced by a different one of the same length between the two builds.
const MARK: &str = "CHANGE-ME";

/// The replacement.
const CHANGED: &str = "CHANGE-MY";

/// Measures how long operators take to build.
#[derive(Parser)]
pub(crate) struct BuildOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Build without optimisation
    #[arg(long)]
    debug: bool,
    /// Folder for the projects, which is kept afterwards [default: a temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Build only these: embedded, client, kube-runtime
    #[arg(long)]
    only: Vec<String>,
}

/// A project to be built.
struct BuiltProject {
    name: &'static str,
    source: String,
    dependencies: String,
    targets: BuildTargets,
}

/// The limits to reach.
#[derive(Clone, Copy, Default)]
struct BuildTargets {
    first_minutes: Option<f64>,
    again_seconds: Option<f64>,
    megabytes: Option<f64>,
}

pub(crate) fn run(options: &BuildOptions) -> Result<(), Box<dyn Error>> {
    let temporary = std::env::temp_dir().join(format!("homeostat-bench-build-{}", std::process::id()));
    let folder = options.folder.clone().unwrap_or_else(|| temporary.clone());
    let is_wanted = |project: &BuiltProject| {
        options.only.is_empty() || options.only.iter().any(|name| name == project.name)
    };
    let measured: Result<Vec<Vec<Figure>>, _> = projects()
        .iter()
        .filter(|project| is_wanted(project))
        .map(|project| project.measure(&folder.join(project.name), options.debug))
        .collect();
    if options.folder.is_none() {
        // Anything that cannot be removed is in the system's own temporary folder.
        let _ = std::fs::remove_dir_all(&temporary);
    }
    let figures: Vec<Figure> = measured?.into_iter().flatten().collect();
    print(&figures, options.json)?;
    Ok(())
}

fn projects() -> [BuiltProject; 3] {
    let ours = include_str!("operators/homeostat.rs.txt");
    let root = root();
    let homeostat = |rest: &str| {
        format!("homeostat = {{ path = '{}'{rest} }}\n{SHARED}", root.join("crates/homeostat").display())
    };
    [
        BuiltProject {
            name: "embedded",
            source: ours.replace("RUN", "homeostat::run(operator)"),
            dependencies: homeostat(""),
            targets: BuildTargets {
                first_minutes: Some(10.0),
                again_seconds: Some(25.0),
                megabytes: Some(20.0),
            },
        },
        BuiltProject {
            name: "client",
            source: ours.replace("RUN", "operator.run()"),
            dependencies: homeostat(", default-features = false"),
            targets: BuildTargets { again_seconds: Some(20.0), ..BuildTargets::default() },
        },
        BuiltProject {
            name: "kube-runtime",
            source: include_str!("operators/kube_runtime.rs.txt").to_owned(),
            dependencies: format!("{THEIRS}\n{SHARED}"),
            targets: BuildTargets::default(),
        },
    ]
}

/// The direct dependencies of an operator, as the guide lists them.
const SHARED: &str = r#"k8s-openapi = { version = "0.29", default-features = false, features = ["std", "v1_36", "schemars"] }
kube = { version = "5", default-features = false, features = ["client", "config", "derive", "rustls-tls", "ring"] }
schemars = "1"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
"#;

const THEIRS: &str = r#"futures = { version = "0.3", default-features = false, features = ["std", "async-await"] }
kube-runtime = { version = "5", default-features = false }
"#;

/// Returns the workspace's folder.
fn root() -> PathBuf {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    benches.parent().unwrap_or(benches).to_owned()
}

impl BuiltProject {
    fn measure(&self, folder: &Path, is_debug: bool) -> Result<Vec<Figure>, Box<dyn Error>> {
        let source = folder.join("src/main.rs");
        std::fs::create_dir_all(folder.join("src"))?;
        std::fs::write(folder.join("Cargo.toml"), self.manifest())?;
        // Uses the workspace's versions, so that all projects build the same.
        std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        std::fs::write(&source, &self.source)?;
        cargo(folder, &["fetch"])?;
        let mut build = vec!["build"];
        if !is_debug {
            build.push("--release");
        }
        eprintln!("{}: first build", self.name);
        let first = timed(|| cargo(folder, &build))?;
        std::fs::write(&source, self.source.replace(MARK, CHANGED))?;
        eprintln!("{}: build after a change", self.name);
        let again = timed(|| cargo(folder, &build))?;
        let profile = if is_debug { "debug" } else { "release" };
        let bytes = std::fs::metadata(folder.join("target").join(profile).join("operator"))?.len();
        Ok(self.figures(first, again, bytes, is_debug))
    }

    fn figures(&self, first: BuildCost, again: BuildCost, bytes: u64, is_debug: bool) -> Vec<Figure> {
        #[expect(clippy::cast_precision_loss, reason = "a program is smaller than 2^52 bytes")]
        let megabytes = bytes as f64 / 1e6;
        let figure = |what: &str, value: f64, unit, bound: Option<f64>| {
            let figure = Figure::new(format!("{}: {what}", self.name), value, unit);
            match bound.filter(|_| !is_debug) {
                Some(bound) => figure.target(FigureTarget::AtMost(bound)),
                None => figure,
            }
        };
        let minutes = |time: Duration| time.as_secs_f64() / 60.0;
        vec![
            figure("first build, processor", minutes(first.processor), "min", self.targets.first_minutes),
            figure("first build, clock", minutes(first.clock), "min", None),
            figure(
                "after a change, processor",
                again.processor.as_secs_f64(),
                "s",
                self.targets.again_seconds,
            ),
            figure("after a change, clock", again.clock.as_secs_f64(), "s", None),
            figure("program", megabytes, "MB", self.targets.megabytes),
        ]
    }

    /// Returns the manifest, with the profile that `homeostat new` writes.
    fn manifest(&self) -> String {
        format!(
            "[package]\nname = \"operator\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{}\n\
             [profile.release]\nstrip = \"symbols\"\n\n[workspace]\n",
            self.dependencies
        )
    }
}

/// The cost of a build.
#[derive(Clone, Copy)]
struct BuildCost {
    processor: Duration,
    clock: Duration,
}

/// Runs `work`, which starts other processes and waits for them, and returns what it cost.
fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<BuildCost, Box<dyn Error>> {
    let (before, began) = (processor_time()?, Instant::now());
    work()?;
    Ok(BuildCost { processor: processor_time()?.saturating_sub(before), clock: began.elapsed() })
}

/// The unit in which the kernel reports processor time, a hundredth of a second on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time of the processes that this one waited for, and of their children.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let line = std::fs::read_to_string("/proc/self/stat")?;
    // The program's name, in brackets, may contain anything; the children's user and system time are the 14th and 15th
    // fields after it.
    let fields = line.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<u32> = fields.skip(13).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(TICK * ticks.iter().sum::<u32>())
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).arg("--quiet").current_dir(folder).stdin(Stdio::null());
    // The environment of the cargo that runs this benchmark is not the user's.
    command.env_remove("CARGO_TARGET_DIR").env("CARGO_INCREMENTAL", "0");
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo {arguments:?} in {}: {status}", folder.display()).into())
    }
}
