//! Backs up and restores a control plane's data folder: its objects, its keys and its certificates in one file.
//!
//! **Invariant:** a backup is the state at one point in time, even while a server writes to the folder, and contains
//! every write that was acknowledged before it began. A restore writes only to an empty folder, after checking the
//! whole file; a folder that it did not finish is refused until it is restored again.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use homeostat_apiserver::data_migrations;
use homeostat_store::disk;
use homeostat_store::disk::backup_file::{Attachment, Backup};

use super::unfinished_restore::{MarkedFolder, check_restored};
use super::{Error, PKI_FOLDER, STORE_FOLDER};

/// Only the owner may read keys and objects.
pub(super) const FILE_MODE: u32 = 0o600;
pub(super) const FOLDER_MODE: u32 = 0o700;

/// A summary of what was backed up or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The number of objects, including the server's own.
    pub objects: usize,
    /// The revision of the backup.
    pub revision: u64,
}

impl BackupSummary {
    fn of(backup: &Backup) -> Self {
        Self { objects: backup.len(), revision: backup.revision().get() }
    }
}

/// Writes everything in a data folder, except Pods' volumes and logs, to a new file. A server may be using the folder.
/// This function blocks.
pub fn backup(data_dir: &Path, file: &Path) -> Result<BackupSummary, Error> {
    check_restored(data_dir)?;
    let attachments = read_pki(&data_dir.join(PKI_FOLDER));
    let attachments = attachments.map_err(|source| Error::file(&data_dir.join(PKI_FOLDER), source))?;
    let backup = Backup::of_folder(&data_dir.join(STORE_FOLDER), attachments, &store_config())?;
    backup.write(file).map_err(|source| Error::file(file, source))?;
    Ok(BackupSummary::of(&backup))
}

/// Creates a data folder from a backup file. The folder must be empty or not exist, or contain what an interrupted
/// restore left. This function blocks.
pub fn restore(file: &Path, data_dir: &Path) -> Result<BackupSummary, Error> {
    let backup = Backup::read(file, data_migrations::CONTENTS)?;
    let summary = BackupSummary::of(&backup);
    let folder = MarkedFolder::create(data_dir)?;
    let pki = data_dir.join(PKI_FOLDER);
    write_pki(&pki, backup.attachments()).map_err(|source| Error::file(&pki, source))?;
    backup.restore_to(&data_dir.join(STORE_FOLDER), &store_config())?;
    folder.finish()?;
    Ok(summary)
}

fn store_config() -> disk::Config {
    disk::Config { contents: data_migrations::CONTENTS, ..disk::Config::default() }
}

/// Returns the files in the folder; none if the folder does not exist because the server never had a socket.
fn read_pki(folder: &Path) -> io::Result<Vec<Attachment>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut attachments = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Names that start with a dot are files still being written.
        let Some(name) = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        if entry.file_type()?.is_file() {
            attachments.push(Attachment { name, contents: fs::read(entry.path())? });
        }
    }
    attachments.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(attachments)
}

fn write_pki(folder: &Path, attachments: &[Attachment]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    for attachment in attachments {
        let path = folder.join(&attachment.name);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(path)?;
        file.write_all(&attachment.contents)?;
        file.sync_all()?;
    }
    fs::File::open(folder)?.sync_all()
}
