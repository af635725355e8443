//! Manages the audit log's file and its backups: a full file is renamed with a timestamp, and the oldest backups are
//! deleted.
//!
//! Names and limits are the same as in kube-apiserver: `audit-2026-11-18T04-00-00.000.log` next to `audit.log`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use homeostat_core::Clock;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// The format of the timestamp in the names of backups.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// How much of an audit log is kept. Zero means no limit.
#[derive(Clone, Copy, Debug)]
pub struct RotationLimits {
    /// The size in MiB at which a new file is started.
    pub size_mib_max: u64,
    /// The maximum number of backups.
    pub backups_max: usize,
    /// The maximum age of a backup in days.
    pub age_days_max: u32,
}

impl Default for RotationLimits {
    /// 100 MiB, as in kube-apiserver, and no other limit.
    fn default() -> Self {
        Self { size_mib_max: 100, backups_max: 0, age_days_max: 0 }
    }
}

/// The open file of an audit log.
pub(super) struct LogFiles {
    path: PathBuf,
    limits: RotationLimits,
    clock: Clock,
    file: File,
    bytes: u64,
}

impl LogFiles {
    /// Opens the file, and appends to it if it exists.
    pub(super) fn open(path: PathBuf, limits: RotationLimits, clock: Clock) -> io::Result<Self> {
        let file = open_file(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, limits, clock, file, bytes })
    }

    /// Writes lines, starting a new file if the current one is full.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let bytes_max = self.limits.size_mib_max.saturating_mul(1024 * 1024);
        if bytes_max > 0 && self.bytes > 0 && self.bytes + lines.len() as u64 > bytes_max {
            self.rotate()?;
        }
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let (stem, extension) = parts_of(&self.path);
        let time = now.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT).to_string();
        let backup = self.path.with_file_name(format!("{stem}-{time}{extension}"));
        std::fs::rename(&self.path, backup)?;
        self.file = open_file(&self.path)?;
        self.bytes = 0;
        // Nothing is lost if an old file remains.
        if let Err(error) = self.remove_old(now) {
            tracing::warn!(%error, "cannot remove old audit logs");
        }
        Ok(())
    }

    /// Removes the backups beyond the limits.
    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let mut backups = self.backups()?;
        backups.sort();
        backups.reverse();
        let (count, days) = (self.limits.backups_max, self.limits.age_days_max);
        let oldest =
            now.checked_sub(SignedDuration::from_hours(24 * i64::from(days))).unwrap_or(Timestamp::MIN);
        for (at, (time, path)) in backups.into_iter().enumerate() {
            if count > 0 && at >= count || days > 0 && time < oldest {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Returns the backups with their times.
    fn backups(&self) -> io::Result<Vec<(Timestamp, PathBuf)>> {
        let (stem, extension) = parts_of(&self.path);
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut backups = Vec::new();
        for file in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let path = file?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let time =
                name.strip_prefix(&*format!("{stem}-")).and_then(|rest| rest.strip_suffix(&*extension));
            let time = time.and_then(|time| jiff::civil::DateTime::strptime(TIME_FORMAT, time).ok());
            let time = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok());
            if let Some(time) = time {
                backups.push((time.timestamp(), path));
            }
        }
        Ok(backups)
    }
}

/// Opens a file that only its owner may read, since it can contain request bodies.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Returns the name of a file without its extension, and the extension with its dot.
fn parts_of(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let extension = text(path.extension()).map(|extension| format!(".{extension}"));
    (text(path.file_stem()).unwrap_or_default(), extension.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_are_renamed_and_the_oldest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let limits = RotationLimits { size_mib_max: 1, backups_max: 2, age_days_max: 0 };
        let mut files = LogFiles::open(path.clone(), limits, Clock::system()).unwrap();
        std::fs::write(folder.path().join("audit-other.log"), "mine").unwrap();
        std::fs::write(folder.path().join("audit-2001-01-01T00-00-00.000.log"), "old").unwrap();
        std::fs::write(folder.path().join("audit-2002-01-01T00-00-00.000.log"), "newer").unwrap();
        let line = vec![b'x'; 700 * 1024];
        files.write(&line).unwrap();
        files.write(&line).unwrap();
        let names = || {
            let names = std::fs::read_dir(folder.path()).unwrap();
            let mut names =
                names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
            names.sort();
            names
        };
        let all = names();
        assert_eq!((all.len(), &*all[0]), (4, "audit-2002-01-01T00-00-00.000.log"), "{all:?}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), line.len() as u64);
        let again = LogFiles::open(path, RotationLimits { age_days_max: 30, ..limits }, Clock::system());
        let mut again = again.unwrap();
        again.write(&line).unwrap();
        assert!(!names().contains(&all[0]), "too old: {:?}", names());
    }
}
