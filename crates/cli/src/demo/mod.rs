//! `homeostat demo`: runs the examples' operators on their own control plane, gives them objects to reconcile, and
//! breaks things.
//!
//! `environment` holds everything that runs, `timeline` prints what happens, `observer` fills the timeline from the
//! API, and `demo_run` applies objects, breaks things and waits; there is one file per operator in `scenarios`.
//! **Invariant:** the demo leaves nothing behind, neither a process nor a folder.

mod cloud_client;
mod demo_run;
mod environment;
mod observer;
mod psql;
mod scenarios;
mod timeline;

use std::error::Error;
use std::fmt;

use tokio_util::sync::CancellationToken;

use crate::up::stop_on_signal;
use demo_run::DemoRun;
use environment::DemoEnvironment;
use timeline::Timeline;

/// Show operators at work: what they do, what breaks, and how it is repaired
#[derive(clap::Args)]
#[command(after_help = "Pods run as processes of this machine. Nothing is left behind. The exit code is \
    130 if the demo is interrupted before everything was shown.")]
pub(crate) struct Demo {
    /// Exit when everything has been shown: with 0 if everything converged, otherwise with 1 and the reasons
    #[arg(long)]
    once: bool,
}

impl Demo {
    /// Runs until everything has been shown or a signal stops it.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.run_scenarios())
    }

    async fn run_scenarios(self) -> Result<(), Box<dyn Error>> {
        let stop = CancellationToken::new();
        let signals = tokio::spawn(stop_on_signal(stop.clone())?);
        let timeline = Timeline::new();
        let environment = DemoEnvironment::build(&timeline).await?;
        let mut run = DemoRun::new(&environment, &timeline);
        let is_all_shown = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = scenarios::run_all(&mut run) => true,
        };
        let failures = run.failures();
        if is_all_shown && !self.once {
            environment.print_suggestions(&timeline);
            stop.cancelled().await;
        }
        stop.cancel();
        environment.stop().await?;
        signals.await?;
        conclude(&timeline, &failures, is_all_shown)
    }
}

fn conclude(timeline: &Timeline, failures: &[String], is_all_shown: bool) -> Result<(), Box<dyn Error>> {
    if !failures.is_empty() {
        return Err(format!("not everything converged: {}", failures.join("; ")).into());
    }
    if !is_all_shown {
        return Err(Interrupted.into());
    }
    timeline.heading("everything converged");
    Ok(())
}

/// A signal stopped the demo before everything was shown, so there is no result.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl Interrupted {
    /// The code that shells report for a program that ctrl-c ended.
    pub(crate) const EXIT_CODE: u8 = 130;
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted before everything was shown")
    }
}

impl Error for Interrupted {}
