//! `homeostat sim show`: shows the story of a saved failure on the console's Time page or as text. Runs nothing.
//!
//! **Invariant:** the page is served on this machine only, to those who have the token in its address.

use std::io::{IsTerminal as _, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use homeostat_console::{Console, Recording, server};
use homeostat_core::Entropy;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::saved::{SavedStory, SavedTrace};
use super::{refuse, run};
use crate::up::stop_on_signal;

/// The number of characters in the page's token: about 165 bits, which cannot be guessed.
const TOKEN_LETTERS: usize = 32;

/// Show a failure that was saved: step through it in a browser, or print its timeline, with the fault that makes the
/// difference
#[derive(clap::Args)]
pub(crate) struct Show {
    /// A failure that a Rust test or `homeostat sim run` saved
    file: PathBuf,

    /// Print the timeline instead of serving a page; the default if the output is not a terminal
    #[arg(long, conflicts_with = "console")]
    print: bool,

    /// Serve the page, and print its address, even if the output is not a terminal
    #[arg(long)]
    console: bool,
}

impl Show {
    /// Prints the failure, or serves it until a signal arrives.
    pub(crate) fn run(self) -> ExitCode {
        match self.show() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => refuse(&why),
        }
    }

    fn show(&self) -> Result<(), String> {
        let story = match SavedTrace::load(&self.file)? {
            SavedTrace::Exec => run::saved_story(&self.file)?,
            SavedTrace::Test(trace) => trace.into_story(),
        };
        let is_asked_for = self.console || (!self.print && std::io::stdout().is_terminal());
        if is_asked_for && !story.run.is_empty() {
            return serve(story).map_err(|error| format!("the page cannot be served: {error}"));
        }
        if self.console {
            let file = self.file.display();
            return Err(format!("{file} has a report only, no states: an older version saved it"));
        }
        if story.report.is_empty() {
            return Err(format!("{} has no story: replay it", self.file.display()));
        }
        println!("{}\n\n{}", story.place, story.report.trim_end());
        Ok(())
    }
}

/// Serves the page until a signal arrives.
fn serve(story: SavedStory) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let signals = tokio::spawn(stop_on_signal(stop.clone())?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let token = Entropy::system().suffix(TOKEN_LETTERS);
        println!("{} (Ctrl-C ends this page; --print prints the timeline)", story.place);
        println!("console=http://{}/#token={token}", listener.local_addr()?);
        std::io::stdout().flush()?;
        let SavedStory { place, report, run } = story;
        let console = Console::of_recording(Recording { title: place, report, run, token });
        server::serve(listener, console, stop).await;
        signals.abort();
        Ok(())
    })
}
