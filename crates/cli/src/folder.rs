//! A folder of one's own that is gone at the end.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use homeostat_core::Entropy;

/// Owner enters, nobody else: the kubeconfig in it is a secret.
const MODE: u32 = 0o700;
/// Letters of the name's end: 27^10 names, so nobody can guess and take it first.
const SUFFIX_LETTERS: usize = 10;

/// A fresh folder, removed with all it contains when dropped.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes one where the system keeps such things. Fails if the name is taken.
    pub(crate) fn create(entropy: &Entropy) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("homeostat-{}", entropy.suffix(SUFFIX_LETTERS)));
        DirBuilder::new().mode(MODE).create(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot make the folder {}: {error}", path.display()))
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "cannot remove a temporary folder");
        }
    }
}
