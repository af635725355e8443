//! What the operator's user decides, rather than the authors of objects: above all, where data is on the machine.

use std::path::{Path, PathBuf};

use homeostat::core::Entropy;

/// The variable that names another folder for the data.
const VARIABLE: &str = "DATABASE_FOLDER";

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with the data of all databases, on the machine that runs the Pods.
    pub folder: PathBuf,
    /// The source of passwords.
    pub entropy: Entropy,
}

impl Settings {
    /// Keeps data in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), entropy: Entropy::system() }
    }

    /// Keeps data in `DATABASE_FOLDER`, or else where the system keeps such data: `/var/lib` for root, the home folder
    /// for others.
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
