//! What the operator's user decides, rather than the authors of objects: above all, where data is on the machine.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use homeostat::core::Entropy;

/// The variable that names another folder for the data.
const VARIABLE: &str = "DATABASE_FOLDER";

/// The length of a password: with 27 letters to choose from, 142 bits.
const PASSWORD_LETTERS: usize = 30;

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with the data of all databases, on the machine that runs the Pods.
    pub folder: PathBuf,
    /// Makes a password.
    pub new_password: fn(&Entropy) -> String,
    /// Offers a free port of that machine; the argument counts the attempts, in case another Database is about to use it.
    pub free_port: fn(attempt: u16) -> std::io::Result<u16>,
}

impl Settings {
    /// Keeps data in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), new_password: random_password, free_port: ask_system }
    }

    /// Keeps data in `DATABASE_FOLDER`, or else where the system keeps such data: `/var/lib` for root, the home folder
    /// for others.
    pub fn from_environment() -> Self {
        let given = std::env::var_os(VARIABLE).map(PathBuf::from);
        Self::in_folder(given.unwrap_or_else(usual_folder))
    }
}

fn random_password(entropy: &Entropy) -> String {
    entropy.suffix(PASSWORD_LETTERS)
}

/// Asks this machine for a free port.
fn ask_system(_attempt: u16) -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn usual_folder() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match home {
        Some(home) if !rustix::process::geteuid().is_root() => home.join(".local/share/homeostat/databases"),
        _ => Path::new("/var/lib/homeostat/databases").to_owned(),
    }
}
