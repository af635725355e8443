//! A directory on the disk: what the kernel's errors mean, and what changed. `tree` does the work.
//!
//! Hidden files are ignored, links are not followed, empty directories are left behind. Files that are not ours are
//! never written; those we may not read are skipped.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use homeostat::world::{Answer, Failure, PushedChange};

use crate::drafts;
use crate::file::FileSpec;
use crate::files_world::{Content, Disk, mode};
use crate::tree::{self, Placing, Trace};

/// How often the directory is checked for changes: a `stat` per file.
const LOOK: Duration = Duration::from_secs(1);

/// A directory on the disk.
#[derive(Clone, Debug)]
pub struct Directory {
    root: Arc<Path>,
}

impl Directory {
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

impl Disk for Directory {
    async fn list(&self) -> Answer<Vec<(String, Content)>> {
        let things = self.run_blocking("list", "", |root| {
            drafts::sweep(root)?;
            let names = tree::scan(root)?.into_keys();
            // What cannot be read now is skipped: each of our files is also read separately.
            let found = names.filter_map(|name| Some((tree::look(root, &name).ok()??.into(), name)));
            Ok(found.map(|(content, name)| (name, content)).collect())
        });
        things.await
    }

    async fn look(&self, path: &str) -> Answer<Option<Content>> {
        let wanted = path.to_owned();
        Ok(self.run_blocking("read", path, move |root| tree::look(root, &wanted)).await?.map(Content::from))
    }

    async fn create(&self, path: &str, want: &FileSpec) -> Answer<()> {
        self.put(path, want, Placing::New).await
    }

    async fn replace(&self, path: &str, want: &FileSpec) -> Answer<()> {
        self.put(path, want, Placing::Over).await
    }

    async fn remove(&self, path: &str) -> Answer<()> {
        let unwanted = path.to_owned();
        self.run_blocking("remove", path, move |root| tree::remove(root, &unwanted)).await
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        let looks = futures::stream::unfold((self.clone(), None), |(folder, before)| async move {
            tokio::time::sleep(LOOK).await;
            let after = folder.run_blocking("list", "", tree::scan).await.unwrap_or_default();
            let pushes = changed(before.as_ref(), &after);
            Some((futures::stream::iter(pushes), (folder, Some(after))))
        });
        Some(looks.flatten().map(|name| Ok(PushedChange::Changed(name))).boxed())
    }
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
        let folder = Directory::new(place.path());
        let want = FileSpec { path: "file/x".into(), content: String::new(), mode: "0644".into() };
        let failure = folder.put("file/x", &want, Placing::New).await.unwrap_err();
        let path = place.path().join("file/x");
        assert!(failure.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{failure}");
        let failure = Directory::new(&place.path().join("file")).list().await.unwrap_err();
        let root = place.path().join("file");
        assert!(failure.to_string().starts_with(&format!("cannot list {}/: ", root.display())), "{failure}");
    }
}
