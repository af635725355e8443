//! A directory as a world. Every write is atomic: a file is written beside its place and linked or renamed into it, so
//! nobody reads half of it and a crash leaves at most a hidden file.
//!
//! Hidden files are not seen, links are not followed, empty directories are left behind.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use homeostat::prelude::*;
use homeostat::world::{Answer, Change, Difference, Failure, Mark, Page, Push, World};

use crate::file::{File, FileSpec};

/// How often the directory is looked at for changes: a `stat` per file.
const LOOK: Duration = Duration::from_secs(1);

/// The bits of a mode that are ours to set.
const MODE_BITS: u32 = 0o7777;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    /// The bytes, as text as far as they are.
    pub content: String,
    /// The mode in octal.
    pub mode: String,
}

/// A directory of files.
#[derive(Clone, Debug)]
pub struct Folder {
    root: Arc<Path>,
}

impl Folder {
    /// This directory; it is made when the first file is.
    pub fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Runs `work` with the path of a name where it may block.
    async fn at<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let path = self.root.join(name);
        tokio::task::spawn_blocking(move || work(&path)).await?.map_err(told)
    }
}

/// What the kernel's errors mean.
fn told(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Exists,
        io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            Failure::refused(error)
        }
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
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.to_string_lossy().starts_with('.'));
        if spec.path.is_empty() || !Path::new(&spec.path).components().all(is_plain) {
            return Err(terminal(format!(
                "{:?} does not lead below the directory, or to a hidden file",
                spec.path
            )));
        }
        u32::from_str_radix(&spec.mode, 8).map_err(|_| terminal(format!("{:?} is not a mode", spec.mode)))?;
        Ok([(spec.path.clone(), spec.clone())].into())
    }

    fn diff(&self, want: &FileSpec, have: &Content) -> Vec<Difference> {
        let mut differences = Vec::new();
        if want.content != have.content {
            let bytes = |text: &str| format!("{} bytes", text.len());
            differences.push(Difference::new("/content", bytes(&want.content), bytes(&have.content)));
        }
        if mode(want) != u32::from_str_radix(&have.mode, 8).unwrap_or_default() {
            differences.push(Difference::new("/mode", &want.mode, &have.mode));
        }
        differences
    }

    async fn list(&self, _: Option<&str>) -> Answer<Page<Content>> {
        let things = self.at("", |root| {
            let names = scan(root)?.into_keys();
            let files = names.filter_map(|name| Some((read(&root.join(&name)).transpose()?, name)));
            files.map(|(content, name)| Ok((name, content?))).collect::<io::Result<Vec<_>>>()
        });
        Ok(Page { things: things.await?, next: None })
    }

    async fn get(&self, name: &str) -> Answer<Option<Content>> {
        self.at(name, read).await
    }

    async fn create(&self, name: &str, want: &FileSpec, _: &Mark) -> Answer<()> {
        let want = want.clone();
        self.at(name, move |path| {
            let draft = write_beside(path, &want)?;
            // A link fails where a file is; a rename would replace it.
            let linked = fs::hard_link(&draft, path);
            fs::remove_file(&draft)?;
            linked
        })
        .await
    }

    async fn update(&self, name: &str, change: Change<'_, Self>) -> Answer<()> {
        let want = change.want.clone();
        self.at(name, move |path| fs::rename(write_beside(path, &want)?, path)).await
    }

    async fn delete(&self, name: &str, _: &Content) -> Answer<()> {
        self.at(name, |path| match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
        .await
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<Push>>> {
        let looks = futures::stream::unfold((self.clone(), None), |(folder, before)| async move {
            tokio::time::sleep(LOOK).await;
            let after = folder.at("", scan).await.unwrap_or_default();
            let pushes = changed(before.as_ref(), &after);
            Some((futures::stream::iter(pushes), (folder, Some(after))))
        });
        Some(looks.flatten().map(|name| Ok(Push::Changed(name))).boxed())
    }
}

fn mode(want: &FileSpec) -> u32 {
    u32::from_str_radix(&want.mode, 8).unwrap_or_default() & MODE_BITS
}

/// Writes the file to a hidden place beside its own.
fn write_beside(path: &Path, want: &FileSpec) -> io::Result<PathBuf> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = parent.join(format!(".{name}.draft"));
    fs::write(&draft, &want.content)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode(want)))?;
    Ok(draft)
}

fn read(path: &Path) -> io::Result<Option<Content>> {
    let found = || io::Result::Ok((fs::read(path)?, fs::symlink_metadata(path)?));
    match found() {
        Ok((bytes, meta)) => Ok(Some(Content {
            content: String::from_utf8_lossy(&bytes).into_owned(),
            mode: format!("{:04o}", meta.mode() & MODE_BITS),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What tells a file from its former self without reading it.
type Trace = (i64, i64, u64, u32, u64);

/// Every file below a directory that is not hidden; a directory that is not there has none.
fn scan(root: &Path) -> io::Result<BTreeMap<String, Trace>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            // It may be gone between the two looks.
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.is_dir() && !is_hidden {
                folders.push(path);
            } else if meta.is_file() && !is_hidden {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                found.insert(name, (meta.mtime(), meta.mtime_nsec(), meta.len(), meta.mode(), meta.ino()));
            }
        }
    }
    Ok(found)
}

/// The names that came, went or changed. The first look tells nothing.
fn changed(before: Option<&BTreeMap<String, Trace>>, after: &BTreeMap<String, Trace>) -> Vec<String> {
    let Some(before) = before else { return vec![] };
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let other = after.iter().filter(|(name, trace)| before.get(*name) != Some(trace)).map(|(name, _)| name);
    gone.chain(other).cloned().collect()
}
