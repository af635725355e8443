//! What the user of the operator decides, not the authors of objects: above all where data lies on the machine.

use std::path::{Path, PathBuf};

use homeostat::core::Entropy;

/// Names another folder for the data.
const VARIABLE: &str = "DATABASE_FOLDER";

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder that holds the data of all databases, on the machine that runs the Pods.
    pub folder: PathBuf,
    /// Where passwords come from.
    pub entropy: Entropy,
}

impl Settings {
    /// Data in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), entropy: Entropy::system() }
    }

    /// Data in `DATABASE_FOLDER`, else where the system keeps such things: `/var/lib` for root, the home folder for
    /// others.
    pub fn from_environment() -> Self {
        let given = std::env::var_os(VARIABLE).map(PathBuf::from);
        Self::in_folder(given.unwrap_or_else(usual_folder))
    }
}

fn usual_folder() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match home {
        Some(home) if !rustix::process::geteuid().is_root() => home.join(".local/share/homeostat/databases"),
        _ => Path::new("/var/lib/homeostat/databases").to_owned(),
    }
}
