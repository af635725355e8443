//! `homeostat backup` and `homeostat restore`: save a data folder to one file, and restore it.

use std::error::Error;
use std::path::PathBuf;

use homeostat::embedded::{self, BackupSummary};

/// Save everything in a data folder to one file, even while a server is using it
#[derive(clap::Args)]
#[command(
    after_help = "The file contains all objects, Secrets included, and the server's keys: keep it private. It does not contain \
    what Pods wrote to volumes and logs (the folder node).\n\
    Example:\n    homeostat backup monday.backup\n    homeostat restore monday.backup --data-dir elsewhere"
)]
pub(crate) struct Backup {
    /// File to write; it must not exist yet
    file: PathBuf,

    /// The server's data folder
    #[arg(long, value_name = "FOLDER", default_value = ".homeostat")]
    data_dir: PathBuf,
}

/// Create a data folder from a file that `backup` wrote
#[derive(clap::Args)]
#[command(
    after_help = "Start the server on the folder afterwards: homeostat up --data-dir FOLDER. Credentials are those of the backup. \
    resourceVersions continue far above those in the backup, so clients that saw later ones read everything again."
)]
pub(crate) struct Restore {
    /// File that `homeostat backup` wrote
    file: PathBuf,

    /// Folder to create; it must be empty or not exist
    #[arg(long, value_name = "FOLDER", default_value = ".homeostat")]
    data_dir: PathBuf,
}

impl Backup {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let BackupSummary { objects, revision, .. } = embedded::backup(&self.data_dir, &self.file)?;
        println!("saved {objects} objects as of revision {revision} to {}", self.file.display());
        Ok(())
    }
}

impl Restore {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let BackupSummary { objects, revision, .. } = embedded::restore(&self.file, &self.data_dir)?;
        println!("restored {objects} objects as of revision {revision} to {}", self.data_dir.display());
        Ok(())
    }
}
