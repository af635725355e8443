//! Volumes at the paths a container asks for, in a mount namespace of its own.
//!
//! A path that exists is covered by the volume. One that does not is made without touching the host: the deepest folder
//! that exists is covered by a small file system in memory whose entries lead to the originals, and the path is made there.
//! For the root folder that is a new root. **Invariant:** the host's mounts and folders never change; everything here is
//! seen by the container's processes only and ends with them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use super::protocol::Mount;

/// A folder with more entries is not mirrored: each entry is a mount.
const ENTRIES_MAX: usize = 4096;

/// Makes the mounts, after which this process sees them. `scratch` is an empty folder for the making.
pub(super) fn all(mounts: &[Mount], scratch: &Path) -> io::Result<()> {
    if mounts.is_empty() {
        return Ok(());
    }
    let said = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| io::Error::other(format!("{what}: {error}"))
    };
    enter_namespace().map_err(said("this system gives no mount namespace"))?;
    fs::create_dir_all(scratch)?;
    mount_memory(scratch).map_err(said("cannot make a file system in memory"))?;
    let mut maker = Maker { scratch, mirrors: 0, volumes: Vec::new(), folders: Vec::new() };
    let mut mounts: Vec<&Mount> = mounts.iter().collect();
    // Outer paths first, so that inner ones lie on top.
    mounts.sort_by_key(|mount| mount.target.components().count());
    for mount in &mounts {
        maker.make(mount).map_err(said(&format!("cannot mount at {}", mount.target.display())))?;
    }
    // At the end: paths inside of others may have to be made.
    for mount in mounts.iter().filter(|mount| mount.is_read_only) {
        close(&mount.target).map_err(said(&format!("cannot make {} read-only", mount.target.display())))?;
    }
    Ok(())
}

#[expect(deprecated, reason = "unshare_unsafe is about shared descriptor tables, which we do not ask for")]
fn enter_namespace() -> io::Result<()> {
    if rustix::thread::unshare(UnshareFlags::NEWNS).is_err() {
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        rustix::thread::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    // What we mount must not reach the host; what the host mounts may reach us.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", slave)?)
}

fn mount_memory(folder: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount(
        "homeostat",
        folder,
        "tmpfs",
        MountFlags::NODEV | MountFlags::NOSUID,
        c"mode=0755",
    )?)
}

struct Maker<'a> {
    scratch: &'a Path,
    mirrors: u32,
    /// Where volumes of the Pod lie already: anywhere below them folders may be made.
    volumes: Vec<PathBuf>,
    /// Mirrors and folders made in them. What lies in a mirror is the host's own again.
    folders: Vec<PathBuf>,
}

impl Maker<'_> {
    fn make(&mut self, mount: &Mount) -> io::Result<()> {
        let is_folder = fs::metadata(&mount.source)?.is_dir();
        if !mount.target.exists() {
            self.make_path(&mount.target, is_folder)?;
        }
        rustix::mount::mount_bind_recursive(&mount.source, &mount.target)?;
        if self.scratch.parent().is_some_and(|pod| mount.source.starts_with(pod)) {
            self.volumes.push(mount.target.clone());
        } else if mount.is_read_only {
            // A folder of the host: what lies inside of it is put on a mirror, whose entries are as closed as this.
            close(&mount.target)?;
        }
        Ok(())
    }

    fn make_path(&mut self, target: &Path, is_folder: bool) -> io::Result<()> {
        let existing = target.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        let is_ours = self.folders.iter().any(|folder| folder == existing)
            || self.volumes.iter().any(|volume| existing.starts_with(volume));
        if !is_ours {
            self.mirror(existing)?;
        }
        let made = target.ancestors().skip(1).take_while(|path| *path != existing);
        self.folders.extend(made.map(Path::to_owned));
        if is_folder {
            return fs::create_dir_all(target);
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(target, "")
    }

    /// Covers the folder by one of our own that shows the same.
    fn mirror(&mut self, folder: &Path) -> io::Result<()> {
        let mirror = self.scratch.join(self.mirrors.to_string());
        self.mirrors += 1;
        fs::create_dir(&mirror)?;
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        if entries.len() > ENTRIES_MAX {
            return Err(io::Error::other(format!("{} has too many entries", folder.display())));
        }
        for entry in entries {
            match show(&entry, &mirror.join(entry.file_name())) {
                // It went while we looked: folders like these are busy.
                Err(_) if fs::symlink_metadata(entry.path()).is_err() => {}
                shown => shown?,
            }
        }
        self.folders.push(folder.to_owned());
        if folder == Path::new("/") {
            rustix::process::chroot(&mirror)?;
            return std::env::set_current_dir("/");
        }
        Ok(rustix::mount::mount_bind_recursive(&mirror, folder)?)
    }
}

/// Makes a mount read-only. What the file system forbids already stays forbidden: without rights it may not be allowed again.
fn close(target: &Path) -> io::Result<()> {
    let held = rustix::fs::statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (is_held, flag) in [
        (held.contains(StatVfsMountFlags::NOSUID), MountFlags::NOSUID),
        (held.contains(StatVfsMountFlags::NODEV), MountFlags::NODEV),
        (held.contains(StatVfsMountFlags::NOEXEC), MountFlags::NOEXEC),
    ] {
        flags.set(flag, is_held);
    }
    Ok(rustix::mount::mount_remount(target, flags, c"")?)
}

/// Shows an entry of the host at another place.
fn show(entry: &fs::DirEntry, place: &Path) -> io::Result<()> {
    let kind = entry.file_type()?;
    if kind.is_symlink() {
        return symlink(fs::read_link(entry.path())?, place);
    }
    if kind.is_dir() {
        fs::create_dir(place)?;
    } else {
        fs::write(place, "")?;
    }
    Ok(rustix::mount::mount_bind_recursive(entry.path(), place)?)
}
