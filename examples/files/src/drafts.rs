//! Drafts: a file is written under a hidden name in the same directory and then moved there. A process that is killed in
//! between leaves its draft behind; the next pass that finds it old removes it.
//!
//! **Invariant:** only regular files of our own user with exactly such a name are removed, and only when no living
//! process can still be writing them.

use std::io;
use std::path::Path;
use std::time::Duration;

use homeostat::core::{Clock, Entropy};
use rustix::fs::{AtFlags, FileType};

use crate::walk::{Entry, walk};

const PREFIX: &str = ".homeostat-";
const SUFFIX: &str = ".draft";

/// The number of random letters in a draft's name: they cannot be guessed, and if they were, creating it would fail.
const LETTERS: usize = 16;

/// When a draft counts as abandoned. It is written in a moment; one last written this long ago has no writer any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(10 * 60);

/// Returns a name for a draft.
pub(crate) fn name() -> String {
    format!("{PREFIX}{}{SUFFIX}", Entropy::system().suffix(LETTERS))
}

/// Removes what killed processes left. One that cannot be removed is left for the next time.
pub(crate) fn sweep(root: &Path) -> io::Result<()> {
    let now = Clock::system().now().as_second();
    walk(root, |entry| {
        if is_draft(entry.name) && is_abandoned(&entry, now) {
            _ = rustix::fs::unlinkat(entry.parent, entry.name, AtFlags::empty());
        }
    })
}

fn is_draft(name: &str) -> bool {
    let letters = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    letters.is_some_and(|letters| {
        letters.len() == LETTERS && letters.bytes().all(|letter| letter.is_ascii_alphanumeric())
    })
}

fn is_abandoned(entry: &Entry<'_>, now: i64) -> bool {
    let stat = &entry.stat;
    let age = Duration::from_secs(now.saturating_sub(stat.st_mtime).try_into().unwrap_or_default());
    FileType::from_raw_mode(stat.st_mode).is_file()
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && age >= ABANDONED_AFTER
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a file that was last written this long ago.
    fn old(root: &Path, name: &str, age: Duration) {
        let file = fs::File::create(root.join(name)).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - age).unwrap();
    }

    #[test]
    fn only_old_drafts_go() {
        let folder = tempfile::TempDir::new().unwrap();
        let (root, hour) = (folder.path(), Duration::from_secs(3600));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join(".hidden")).unwrap();
        let [top, deep, young, hidden, directory] = [(); 5].map(|()| name());
        old(root, &top, hour);
        old(root, &format!("a/b/{deep}"), hour);
        old(root, &young, Duration::from_secs(60));
        old(root, &format!(".hidden/{hidden}"), hour);
        fs::create_dir(root.join(&directory)).unwrap();
        let others = [".mine.draft", ".homeostat-short.draft", "a/.profile"];
        for name in others {
            old(root, name, hour);
        }
        sweep(root).unwrap();
        assert!(!root.join(&top).exists() && !root.join("a/b").join(&deep).exists());
        let hidden = format!(".hidden/{hidden}");
        for name in [young.as_str(), &hidden, &directory].into_iter().chain(others) {
            assert!(root.join(name).exists(), "{name}");
        }
        sweep(&root.join("missing")).unwrap();
    }
}
