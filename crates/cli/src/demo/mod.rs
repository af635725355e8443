//! `homeostat demo`: the operators of the examples on a control plane of their own, with things to reconcile, and things
//! that break.
//!
//! `stage` holds what runs, `board` is the timeline people see, `spectator` fills it from the API, `play` is what is asked
//! for and broken, one file in `scenes` per operator. **Invariant:** nothing is left behind: no process, no folder.

mod board;
mod cloud;
mod play;
mod psql;
mod scenes;
mod spectator;
mod stage;

use std::error::Error;
use std::fmt;

use tokio_util::sync::CancellationToken;

use crate::up::stop_on_signal;
use board::Board;
use play::Play;
use stage::Stage;

/// Show it all: operators at work, things that break, and how they heal
#[derive(clap::Args)]
#[command(after_help = "Pods run as processes of this machine. Nothing is left at the end. It exits with \
    130 if it is interrupted before everything was shown.")]
pub(crate) struct Demo {
    /// Exit when everything was shown: with 0 if all of it converged, with 1 and the reasons if not
    #[arg(long)]
    once: bool,
}

impl Demo {
    /// Runs until all is shown or somebody stops it.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.show())
    }

    async fn show(self) -> Result<(), Box<dyn Error>> {
        let stop = CancellationToken::new();
        let signals = tokio::spawn(stop_on_signal(stop.clone())?);
        let board = Board::new();
        let stage = Stage::build(&board).await?;
        let mut play = Play::new(&stage, &board);
        let is_all_shown = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = scenes::all(&mut play) => true,
        };
        let failures = play.failures();
        if is_all_shown && !self.once {
            stage.invite(&board);
            stop.cancelled().await;
        }
        stop.cancel();
        stage.stop().await?;
        signals.await?;
        verdict(&board, &failures, is_all_shown)
    }
}

fn verdict(board: &Board, failures: &[String], is_all_shown: bool) -> Result<(), Box<dyn Error>> {
    if !failures.is_empty() {
        return Err(format!("not everything converged: {}", failures.join("; ")).into());
    }
    if !is_all_shown {
        return Err(Interrupted.into());
    }
    board.chapter("everything converged");
    Ok(())
}

/// Somebody stopped it before all was shown, so there is no verdict.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl Interrupted {
    /// What shells report of a program that ctrl-c ended.
    pub(crate) const EXIT_CODE: u8 = 130;
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted before everything was shown")
    }
}

impl Error for Interrupted {}
