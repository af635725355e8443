//! A directory as a world: what a file should be, what it is, and what the kernel's errors mean. `tree` does the work
//! on the disk.
//!
//! Hidden files are ignored, links are not followed, empty directories are left behind. Files that are not ours are
//! never written; those we may not read are skipped.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use homeostat::prelude::*;
use homeostat::world::{Answer, Change, Difference, Failure, Mark, Page, Push, World};
use rustix::fs::Mode;

use crate::drafts;
use crate::file::{File, FileSpec};
use crate::tree::{self, Found, Placing, Trace};

/// How often the directory is checked for changes: a `stat` per file.
const LOOK: Duration = Duration::from_secs(1);

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

/// A directory of files.
#[derive(Clone, Debug)]
pub struct Folder {
    root: Arc<Path>,
}

impl Folder {
    /// Uses this directory, which is created with the first file.
    pub fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Runs `work` on the directory where it may block; `verb` and `name` describe it in errors.
    async fn run_blocking<T: Send + 'static>(
        &self,
        verb: &'static str,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let (root, path) = (self.root.clone(), self.root.join(name));
        tokio::task::spawn_blocking(move || work(&root))
            .await?
            .map_err(|error| describe_failure(verb, &path, &error))
    }

    async fn put(&self, name: &str, want: &FileSpec, placing: Placing) -> Answer<()> {
        let (path, want) = (name.to_owned(), want.clone());
        let mode = mode(&want.mode).map_err(Failure::refused)?;
        self.run_blocking("write", name, move |root| tree::put(root, &path, &want.content, mode, placing))
            .await
    }
}

/// Converts a kernel error to a refusal of this file or a failure that concerns all. The message says what could not be
/// done to what.
fn describe_failure(verb: &str, path: &Path, error: &io::Error) -> Failure {
    let kind = error.kind();
    let error = io::Error::new(kind, format!("cannot {verb} {}: {error}", path.display()));
    match kind {
        io::ErrorKind::AlreadyExists => Failure::Exists,
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::FileTooLarge
        | io::ErrorKind::NotFound => Failure::refused(error),
        _ => error.into(),
    }
}

impl World for Folder {
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
        let things = self.run_blocking("list", "", |root| {
            drafts::sweep(root)?;
            let names = tree::scan(root)?.into_keys();
            // What cannot be read now is skipped: each of our files is also looked at on its own.
            let found = names.filter_map(|name| Some((tree::look(root, &name).ok()??.into(), name)));
            Ok(found.map(|(content, name)| (name, content)).collect())
        });
        Ok(Page { things: things.await?, next: None })
    }

    async fn get(&self, name: &str) -> Answer<Option<Content>> {
        let path = name.to_owned();
        Ok(self.run_blocking("read", name, move |root| tree::look(root, &path)).await?.map(Content::from))
    }

    async fn create(&self, name: &str, want: &FileSpec, _: &Mark) -> Answer<()> {
        self.put(name, want, Placing::New).await
    }

    async fn update(&self, name: &str, change: Change<'_, Self>) -> Answer<()> {
        self.put(name, change.want, Placing::Over).await
    }

    async fn delete(&self, name: &str, _: &Content) -> Answer<()> {
        let path = name.to_owned();
        self.run_blocking("remove", name, move |root| tree::remove(root, &path)).await
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<Push>>> {
        let looks = futures::stream::unfold((self.clone(), None), |(folder, before)| async move {
            tokio::time::sleep(LOOK).await;
            let after = folder.run_blocking("list", "", tree::scan).await.unwrap_or_default();
            let pushes = changed(before.as_ref(), &after);
            Some((futures::stream::iter(pushes), (folder, Some(after))))
        });
        Some(looks.flatten().map(|name| Ok(Push::Changed(name))).boxed())
    }
}

/// Parses a mode in octal digits. A file that its owner may not read could not be maintained.
fn mode(text: &str) -> Result<Mode, String> {
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

/// Returns the names that appeared, disappeared or changed. The first look returns nothing.
fn changed(before: Option<&BTreeMap<String, Trace>>, after: &BTreeMap<String, Trace>) -> Vec<String> {
    let Some(before) = before else { return vec![] };
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let other = after.iter().filter(|(name, trace)| before.get(*name) != Some(trace)).map(|(name, _)| name);
    gone.chain(other).cloned().collect()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

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

    #[test]
    fn bad_values_are_no_outage() {
        let failure = |errno: io::Error| describe_failure("write", Path::new("/dir/x"), &errno);
        for errno in [Errno::NAMETOOLONG, Errno::INVAL, Errno::NOTDIR, Errno::ISDIR] {
            assert!(matches!(failure(errno.into()), Failure::Refused(_)), "{errno:?}");
        }
        assert!(matches!(failure(Errno::NOSPC.into()), Failure::Unavailable(_)));
        assert!(matches!(failure(Errno::IO.into()), Failure::Unavailable(_)));
    }

    #[tokio::test]
    async fn an_error_says_what_could_not_be_done_to_what() {
        let place = tempfile::TempDir::new().unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        let folder = Folder::new(place.path());
        let want = FileSpec { path: "file/x".into(), content: String::new(), mode: "0644".into() };
        let failure = folder.put("file/x", &want, Placing::New).await.unwrap_err();
        let path = place.path().join("file/x");
        assert!(failure.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{failure}");
        let failure = Folder::new(&place.path().join("file")).list(None).await.unwrap_err();
        let root = place.path().join("file");
        assert!(failure.to_string().starts_with(&format!("cannot list {}/: ", root.display())), "{failure}");
    }
}
