//! A directory as a world: what a file should be and what it is. [`directory`](crate::directory) does the work on the disk.

use std::collections::BTreeMap;
use std::future::Future;

use futures::stream::BoxStream;
use homeostat::prelude::*;
use homeostat::world::{Answer, Difference, Mark, Page, PushedChange, UpdateRequest, World};
use rustix::fs::Mode;

use crate::file::{File, FileSpec};
use crate::tree::{self, Found};

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Its text; `None` if it is not text, not a regular file, or not ours to read.
    pub content: Option<String>,
    /// The mode in octal.
    pub mode: String,
}

impl From<Found> for Content {
    fn from(found: Found) -> Self {
        Self { content: found.content, mode: octal(found.mode) }
    }
}

/// What a directory of files can do. Tests stand in for the disk behind it.
pub trait Disk: Send + Sync + 'static {
    /// Returns every file, by path.
    fn list(&self) -> impl Future<Output = Answer<Vec<(String, Content)>>> + Send;

    /// Returns the file at this path.
    fn look(&self, path: &str) -> impl Future<Output = Answer<Option<Content>>> + Send;

    /// Creates a file; fails with [`Failure::Exists`](homeostat::world::Failure::Exists) if something is there.
    fn create(&self, path: &str, want: &FileSpec) -> impl Future<Output = Answer<()>> + Send;

    /// Replaces whatever is at this path, unless it is a directory.
    fn replace(&self, path: &str, want: &FileSpec) -> impl Future<Output = Answer<()>> + Send;

    /// Removes the file at this path, if there is one.
    fn remove(&self, path: &str) -> impl Future<Output = Answer<()>> + Send;

    /// Returns a stream of the paths that changed, if there is one.
    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>>;
}

/// A directory of files.
#[derive(Clone, Debug)]
pub struct Folder<D>(pub D);

impl<D: Disk> World for Folder<D> {
    type Kind = File;
    type Want = FileSpec;
    type Have = Content;
    const NAME: &'static str = "files";

    fn want(&self, file: &File) -> Result<BTreeMap<String, FileSpec>> {
        let spec = &file.spec;
        tree::check_path(&spec.path).map_err(|why| terminal(format!("the path {:?} {why}", spec.path)))?;
        mode(&spec.mode).map_err(terminal)?;
        Ok([(spec.path.clone(), spec.clone())].into())
    }

    fn diff(&self, want: &FileSpec, have: &Content) -> Vec<Difference> {
        let mut differences = Vec::new();
        if have.content.as_ref() != Some(&want.content) {
            let bytes = |text: &String| format!("{} bytes", text.len());
            let found = have.content.as_ref().map_or_else(|| "no text that we can read".to_owned(), bytes);
            differences.push(Difference::new("/content", bytes(&want.content), found));
        }
        if mode(&want.mode).map(octal).as_ref() != Ok(&have.mode) {
            differences.push(Difference::new("/mode", &want.mode, &have.mode));
        }
        differences
    }

    async fn list(&self, _: Option<&str>) -> Answer<Page<Content>> {
        Ok(Page { resources: self.0.list().await?, next: None })
    }

    async fn get(&self, name: &str) -> Answer<Option<Content>> {
        self.0.look(name).await
    }

    async fn create(&self, name: &str, want: &FileSpec, _: &Mark) -> Answer<()> {
        self.0.create(name, want).await
    }

    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        self.0.replace(name, change.want).await
    }

    async fn delete(&self, name: &str, _: &Content) -> Answer<()> {
        self.0.remove(name).await
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        self.0.watch()
    }
}

/// Parses a mode in octal digits. A file that its owner may not read could not be maintained.
pub(crate) fn mode(text: &str) -> Result<Mode, String> {
    const BITS_MAX: u32 = 0o7777;
    let is_octal = !text.is_empty() && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| is_octal && *bits <= BITS_MAX);
    let bits = bits.ok_or_else(|| format!("{text:?} is not a mode: write octal digits, such as 0644"))?;
    let mode = Mode::from_raw_mode(bits);
    if mode.contains(Mode::RUSR) {
        return Ok(mode);
    }
    Err(format!(
        "the mode {text} does not let the owner read the file, so it could not be maintained; add 0400"
    ))
}

fn octal(mode: Mode) -> String {
    format!("{:04o}", mode.as_raw_mode())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_and_lets_its_owner_read() {
        for text in ["0644", "644", "0400", "4755", "07777"] {
            assert!(mode(text).is_ok(), "{text:?}");
        }
        for text in ["", "+644", "0x1ff", "0888", "10644", "0000", "0200", "rw-r--r--", "-1"] {
            assert!(mode(text).is_err(), "{text:?}");
        }
    }
}
