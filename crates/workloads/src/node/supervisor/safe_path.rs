//! Resolves paths one name at a time, so that no symbolic link leads where it should not.
//!
//! Volumes and homes belong to containers, which may put links in them, and the node may be root. **Invariant:**
//! [`resolve_beneath`] follows no link out of its folder, and nothing is created through a link. Every name is looked
//! up from a descriptor, so replacing a folder in the meantime changes nothing. Permissions are left to the kernel.
//!
//! docs/why/dependencies.md explains why neither `openat2` with `RESOLVE_BENEATH` nor `cap-std` is used.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::system;

/// A path with more links than this is circular; the kernel's own limit.
const LINKS_MAX: usize = 40;
/// The mode of folders that others may traverse.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);
/// Flags that open a folder and never follow a link to one.
pub(crate) const OPEN_FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags that open anything without access to its content.
const LOOK: OFlags = system::LOOK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What [`open_path`] does with a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalLink {
    Follow,
    Refuse,
}

/// How far a path exists: its last existing part, and the missing names below.
pub(crate) struct ResolvedPath {
    pub(crate) at: OwnedFd,
    pub(crate) missing: Vec<OsString>,
}

/// Resolves a path below a folder. Links are followed as long as they stay below it.
pub(crate) fn resolve_beneath(base: impl AsFd, path: &Path) -> io::Result<ResolvedPath> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(leads_out(path));
    }
    let base = base.as_fd().try_clone_to_owned()?;
    PathResolver { passed: vec![base], left: names(path), is_bound: true }.resolve(path, |_| Ok(()))
}

/// Resolves a path from the root as this process sees it. Calls `may_follow` with the folder of every link.
#[cfg(target_os = "linux")]
pub(super) fn resolve_from_root(
    path: &Path,
    may_follow: impl Fn(&OwnedFd) -> io::Result<()>,
) -> io::Result<ResolvedPath> {
    let root = rustix::fs::open("/", LOOK, Mode::empty())?;
    PathResolver { passed: vec![root], left: names(path), is_bound: false }.resolve(path, may_follow)
}

/// Creates the folders, each in the previous one; `finish` receives every new one.
pub(crate) fn make_folders(
    mut at: OwnedFd,
    names: &[OsString],
    finish: impl Fn(&OwnedFd) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    for name in names {
        let is_made = match rustix::fs::mkdirat(&at, name.as_os_str(), FOLDER_MODE) {
            // Another process was faster; the next line finds out what it created.
            Err(Errno::EXIST) => false,
            made => made.map(|()| true)?,
        };
        at = rustix::fs::openat(&at, name.as_os_str(), OPEN_FOLDER, Mode::empty())?;
        if is_made {
            finish(&at)?;
        }
    }
    Ok(at)
}

/// Lets everyone traverse the folder, regardless of this process's umask.
pub(crate) fn make_passable(folder: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fchmod(folder, FOLDER_MODE)?)
}

/// Opens the parent folder of a path below a base folder, creating it if necessary, and returns the last name.
pub(crate) fn make_parent_folder(base: impl AsFd, path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or_else(|| leads_out(path))?;
    let reached = resolve_beneath(base, path.parent().unwrap_or(Path::new("")))?;
    Ok((make_folders(reached.at, &reached.missing, make_passable)?, name))
}

/// Opens the folder, and creates it if it is missing. Removes a link or file in its place, without following the link.
pub(crate) fn open_or_make_folder(path: &Path) -> io::Result<OwnedFd> {
    match rustix::fs::open(path, OPEN_FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) => fs::remove_file(path)?,
        found => return Ok(found?),
    }
    fs::create_dir_all(path)?;
    Ok(rustix::fs::open(path, OPEN_FOLDER, Mode::empty())?)
}

/// Opens something by its path.
pub(crate) fn open_path(path: &Path, link: FinalLink) -> io::Result<OwnedFd> {
    let flags = match link {
        FinalLink::Follow => LOOK.difference(OFlags::NOFOLLOW),
        FinalLink::Refuse => LOOK,
    };
    refuse_link(rustix::fs::open(path, flags, Mode::empty())?, path)
}

fn refuse_link(found: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode).is_symlink() {
        return Err(io::Error::other(format!("{} is a symbolic link", path.display())));
    }
    Ok(found)
}

fn leads_out(path: &Path) -> io::Error {
    io::Error::other(format!("{} leads out of the volume", path.display()))
}

/// Returns the names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    let named = parts.filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned()).collect()
}

struct PathResolver {
    /// The current folder, and those above it; never empty.
    passed: Vec<OwnedFd>,
    /// The names that remain, the next one last.
    left: Vec<OsString>,
    /// Whether it must stay below its base.
    is_bound: bool,
}

impl PathResolver {
    fn resolve(
        mut self,
        path: &Path,
        may_follow: impl Fn(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<ResolvedPath> {
        let mut links = 0;
        while let Some(name) = self.left.pop() {
            if name == ".." {
                self.go_up(path)?;
                continue;
            }
            let here = self.passed.last().expect("the base is never left");
            match rustix::fs::readlinkat(here, name.as_os_str(), Vec::new()) {
                Ok(target) => {
                    may_follow(here)?;
                    links += 1;
                    self.follow(&PathBuf::from(OsString::from_vec(target.into_bytes())), path)?;
                }
                Err(Errno::INVAL) => {
                    let found = rustix::fs::openat(here, name.as_os_str(), LOOK, Mode::empty())?;
                    self.passed.push(refuse_link(found, path)?);
                }
                Err(Errno::NOENT) => {
                    self.left.push(name);
                    return self.reached(path);
                }
                Err(error) => return Err(error.into()),
            }
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
        }
        self.reached(path)
    }

    fn go_up(&mut self, path: &Path) -> io::Result<()> {
        if self.passed.len() > 1 {
            self.passed.pop();
        } else if self.is_bound {
            return Err(leads_out(path));
        }
        Ok(())
    }

    fn follow(&mut self, target: &Path, path: &Path) -> io::Result<()> {
        if target.is_absolute() {
            if self.is_bound {
                return Err(leads_out(path));
            }
            self.passed.truncate(1);
        }
        self.left.extend(names(target));
        Ok(())
    }

    fn reached(mut self, path: &Path) -> io::Result<ResolvedPath> {
        if self.left.iter().any(|name| name == "..") {
            return Err(io::Error::other(format!(
                "{} goes up from a folder that does not exist",
                path.display()
            )));
        }
        self.left.reverse();
        let at = self.passed.pop().expect("the base is never left");
        Ok(ResolvedPath { at, missing: self.left })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_stays_below_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        fs::create_dir_all(base.join("a/b")).unwrap();
        for (target, link) in
            [("a", "in"), ("../a/b", "a/back"), ("..", "up"), ("/tmp", "away"), ("a/../../x", "far")]
        {
            symlink(target, base.join(link)).unwrap();
        }
        symlink("round", base.join("round")).unwrap();
        let opened = open_path(&base, FinalLink::Follow).unwrap();
        let check = |path: &str, expected: Result<usize, &str>| {
            let reached = resolve_beneath(&opened, Path::new(path)).map(|reached| reached.missing.len());
            match (reached, expected) {
                (Ok(missing), Ok(expected)) => assert_eq!(missing, expected, "{path}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{path}: {error}"),
                (reached, _) => panic!("{path}: {reached:?}"),
            }
        };
        check("", Ok(0));
        check("a/b", Ok(0));
        check("in/b/c/d", Ok(2));
        check("a/back/c", Ok(1));
        for path in ["up", "up/x", "away", "away/x", "far", "a/../..", "../base"] {
            check(path, Err("leads out of the volume"));
        }
        check("round", Err("symbolic links"));
        assert!(make_parent_folder(&opened, Path::new("away/x/y")).is_err());
        assert!(!Path::new("/tmp/x/y").exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (there, own) = (folder.path().join("there"), folder.path().join("own"));
        fs::create_dir(&there).unwrap();
        symlink(&there, &own).unwrap();
        open_or_make_folder(&own).unwrap();
        assert!(fs::symlink_metadata(&own).unwrap().is_dir());
        assert!(there.is_dir());
    }
}
