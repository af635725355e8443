//! `homeostat sim show`: prints the story of a failure that was saved. Nothing is run.

use std::path::PathBuf;
use std::process::ExitCode;

use super::saved::SavedTrace;
use super::{refuse, run};

/// Print the timeline of a failure that was saved, with the fault that makes the difference
#[derive(clap::Args)]
pub(crate) struct Show {
    /// A failure that a Rust test or `homeostat sim run` saved
    file: PathBuf,
}

impl Show {
    /// Prints it.
    pub(crate) fn run(self) -> ExitCode {
        match self.story() {
            Ok(story) => {
                println!("{}", story.trim_end());
                ExitCode::SUCCESS
            }
            Err(why) => refuse(&why),
        }
    }

    fn story(&self) -> Result<String, String> {
        let trace = match SavedTrace::load(&self.file)? {
            SavedTrace::Exec => return run::saved_story(&self.file),
            SavedTrace::Test(trace) => trace,
        };
        if trace.report.is_empty() {
            return Err(format!("{} has no story: replay it", self.file.display()));
        }
        let place = if trace.test.is_empty() {
            format!("simulation {}", trace.simulation)
        } else {
            format!("test {} of {}", trace.test, trace.package)
        };
        Ok(format!("{place}\n\n{}", trace.report))
    }
}
