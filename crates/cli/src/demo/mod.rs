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

use tokio_util::sync::CancellationToken;

use crate::up::stop_on_signal;
use board::Board;
use play::Play;
use stage::Stage;

/// Show it all: operators at work, things that break, and how they heal
#[derive(clap::Args)]
#[command(after_help = "Pods run as processes of this machine. Everything is gone at the end.")]
pub(crate) struct Demo {
    /// End when all is shown: with 0 if everything converged, with 1 and the reasons if not
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
        tokio::select! {
            () = scenes::all(&mut play) => {}
            () = stop.cancelled() => {}
        }
        let failures = play.failures();
        if !self.once && !stop.is_cancelled() {
            stage.invite(&board);
            stop.cancelled().await;
        }
        stop.cancel();
        stage.stop().await?;
        signals.await?;
        verdict(&board, &failures)
    }
}

fn verdict(board: &Board, failures: &[String]) -> Result<(), Box<dyn Error>> {
    if failures.is_empty() {
        board.chapter("everything converged");
        return Ok(());
    }
    Err(format!("not everything converged: {}", failures.join("; ")).into())
}
