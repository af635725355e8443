//! Mounts volumes at the paths that a container requests, in its own mount namespace.
//!
//! The volume covers an existing path. A path that does not exist is created without touching the host: a small
//! in-memory file system covers the deepest existing folder, its entries lead to the originals, and the path is created
//! there. For the root folder this is a new root. **Invariants:** the host's mounts and folders never change; only the
//! container's processes see the mounts, which disappear with them. Paths are created only in our own mounts, which are
//! recognized by ID and not by name, and never through a link in a volume.
//!
//! All sources are opened before the first mount that may cover them: first the Pod's own; then hidden paths are
//! covered; then the machine's, which therefore do not show anything hidden. This needs Linux 5.8 or later.

use std::ffi::{CStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Gid, Mode, OFlags, StatVfsMountFlags, StatxFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags,
};
use rustix::thread::UnshareFlags;

use super::credentials::as_user;
use super::host_path;
use super::protocol::{Mount, MountOrigin, ProcessSpec};
use super::safe_path::{self, FinalLink, ResolvedPath};

/// The maximum number of entries in a mirrored folder, because each entry is a mount.
const ENTRIES_MAX: usize = 4096;
/// The mode of a file that serves as a mount point.
const PLAIN: Mode = Mode::from_raw_mode(0o644);
/// Folders that containers always see as a mirror.
const ALWAYS_MIRRORED: [&str; 2] = ["/dev", "/run"];

/// Creates the mounts; afterwards this process sees them.
pub(super) fn mount_all(process: &ProcessSpec) -> io::Result<()> {
    let (linked, mounted): (Vec<_>, Vec<_>) =
        process.mounts.iter().partition(|mount| mount.target.as_os_str().is_empty());
    for mount in linked {
        // It is created if its type says so, and nothing else.
        drop(
            open_source(mount, process)
                .map_err(with_context(format!("cannot use {}", mount.source.display())))?,
        );
    }
    if mounted.is_empty() && process.view.hidden.is_empty() {
        return Ok(());
    }
    enter_namespace().map_err(with_context("this system offers no mount namespace".to_owned()))?;
    let mut maker = MountBuilder {
        descriptors: rustix::fs::open("/proc/self/fd", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
        mirrors: Vec::new(),
        volumes: Vec::new(),
    };
    let (own, foreign): (Vec<_>, Vec<_>) =
        mounted.into_iter().partition(|mount| mount.origin == MountOrigin::Pod);
    let mut volumes = MountTree::open_all(own, process)?;
    hide(&process.view.hidden)?;
    volumes.extend(MountTree::open_all(foreign, process)?);
    if process.view.is_read_only {
        maker
            .make_machine_read_only()
            .map_err(with_context("cannot make the machine's files read-only".to_owned()))?;
    }
    // Outer paths come first, so that inner ones are mounted on top.
    volumes.sort_by_key(|volume| volume.mount.target.components().count());
    maker.attach_volumes(&volumes)?;
    if process.view.is_read_only {
        maker
            .make_mirrors_read_only()
            .map_err(with_context("cannot make the machine's files read-only".to_owned()))?;
    }
    if process.view.has_own_processes_only {
        show_own_processes();
    }
    std::env::set_current_dir("/")
}

fn with_context(what: String) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::other(format!("{what}: {error}"))
}

fn mount_context(mount: &Mount) -> impl FnOnce(io::Error) -> io::Error {
    with_context(format!("cannot mount at {}", mount.target.display()))
}

#[expect(
    deprecated,
    reason = "unshare_unsafe warns about shared descriptor tables, which are not requested here"
)]
fn enter_namespace() -> io::Result<()> {
    if rustix::process::getuid().is_root() {
        // In a user namespace with one user, the process could not change to a different one.
        rustix::thread::unshare(UnshareFlags::NEWNS)?;
    } else {
        // It is created even if it is not needed for mounting, because it keeps the container away from the node's
        // processes.
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        rustix::thread::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    // Our mounts must not reach the host; the host's mounts may reach us.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", slave)?)
}

/// Covers hidden paths with something empty and inaccessible. Ignores missing paths.
fn hide(hidden: &[PathBuf]) -> io::Result<()> {
    const NOBODYS: Mode = Mode::empty();
    if hidden.is_empty() {
        return Ok(());
    }
    let system = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&system)?;
    let empty = rustix::mount::fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    rustix::fs::mkdirat(&empty, c"folder", NOBODYS)?;
    drop(make_file(&empty, c"file", NOBODYS)?);
    for path in hidden {
        let point = match safe_path::open_path(path, FinalLink::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(with_context(format!("cannot hide {}", path.display())))?,
        };
        let is_folder = FileType::from_raw_mode(rustix::fs::fstat(&point)?.st_mode).is_dir();
        let cover =
            rustix::mount::open_tree(&empty, if is_folder { c"folder" } else { c"file" }, tree_flags())?;
        attach(&cover, &point).map_err(with_context(format!("cannot hide {}", path.display())))?;
    }
    Ok(())
}

/// Shows the container only its own user's processes. If that is not allowed, it also sees the names of others.
fn show_own_processes() {
    let made = || -> io::Result<()> {
        let system = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_set_string(&system, "hidepid", "invisible")?;
        rustix::mount::fsconfig_create(&system)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let tree = rustix::mount::fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        attach(&tree, &safe_path::open_path(Path::new("/proc"), FinalLink::Follow)?)
    };
    let _ = made();
}

/// Opens the source of a mount; the machine's files are opened as the container's user.
fn open_source(mount: &Mount, process: &ProcessSpec) -> io::Result<OwnedFd> {
    match &mount.origin {
        MountOrigin::Machine(kind) => as_user(process, || host_path::open(&mount.source, kind, &mount.part)),
        // The node created this path.
        MountOrigin::Pod => {
            let ResolvedPath { at, missing } = safe_path::resolve_beneath(
                safe_path::open_path(&mount.source, FinalLink::Refuse)?,
                &mount.part,
            )?;
            if missing.is_empty() { Ok(at) } else { Err(io::ErrorKind::NotFound.into()) }
        }
    }
}

/// A detached mount, until it is attached somewhere.
struct MountTree<'a> {
    mount: &'a Mount,
    tree: OwnedFd,
    is_folder: bool,
}

impl<'a> MountTree<'a> {
    fn open_all(mounts: Vec<&'a Mount>, process: &ProcessSpec) -> io::Result<Vec<Self>> {
        mounts.into_iter().map(|mount| Self::open(mount, process).map_err(mount_context(mount))).collect()
    }

    fn open(mount: &'a Mount, process: &ProcessSpec) -> io::Result<Self> {
        let at = open_source(mount, process)?;
        let is_folder = FileType::from_raw_mode(rustix::fs::fstat(&at)?.st_mode).is_dir();
        let tree = rustix::mount::open_tree(&at, c"", tree_flags() | OpenTreeFlags::AT_EMPTY_PATH)?;
        Ok(Self { mount, tree, is_folder })
    }
}

/// Returns the flags for a copy of a tree, with everything that is mounted in it.
fn tree_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE
}

fn attach(tree: &OwnedFd, point: &OwnedFd) -> io::Result<()> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, c"", point, c"", both)?)
}

/// Creates a detached in-memory file system whose root has the mode and owner of this folder.
fn memory_file_system(like: &OwnedFd) -> io::Result<OwnedFd> {
    /// The bits of a mode without the file's type.
    const MODE_BITS: u32 = 0o7777;
    let stat = rustix::fs::fstat(like)?;
    let system = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&system, "mode", format!("{:o}", stat.st_mode & MODE_BITS))?;
    rustix::mount::fsconfig_create(&system)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let tree = rustix::mount::fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    // Without permissions there are no other users here.
    let _ = rustix::fs::chownat(&tree, c"", Some(user), Some(group), AtFlags::EMPTY_PATH);
    Ok(tree)
}

/// Returns the IDs of a mount and of a file in it, which together identify a location.
fn mount_and_inode(of: &OwnedFd) -> io::Result<(u64, u64)> {
    let wanted = StatxFlags::MNT_ID | StatxFlags::INO;
    let stat = rustix::fs::statx(of, c"", AtFlags::EMPTY_PATH, wanted)?;
    if stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(io::Error::other("the kernel does not report mount IDs: Linux 5.8 or later is required"));
    }
    Ok((stat.stx_mnt_id, stat.stx_ino))
}

fn is_root(place_of_it: (u64, u64)) -> io::Result<bool> {
    Ok(mount_and_inode(&safe_path::open_path(Path::new("/"), FinalLink::Refuse)?)? == place_of_it)
}

struct MountBuilder {
    /// `/proc/self/fd`, wherever it is mounted now: calls that need a path get a descriptor's path in it.
    descriptors: OwnedFd,
    /// The mounts that cover the host's folders. Each entry is another mount.
    mirrors: Vec<u64>,
    /// The mounts of the Pod's own volumes: folders may be created anywhere in them.
    volumes: Vec<u64>,
}

impl MountBuilder {
    fn resolve(&self, path: &Path) -> io::Result<ResolvedPath> {
        safe_path::resolve_from_root(path, |folder| {
            let (mount, _) = mount_and_inode(folder)?;
            if self.volumes.contains(&mount) {
                return Err(io::Error::other("the path leads through a symbolic link in a volume"));
            }
            Ok(())
        })
    }

    fn attach_volumes(&mut self, volumes: &[MountTree<'_>]) -> io::Result<()> {
        for folder in ALWAYS_MIRRORED {
            self.mirror_if_folder(Path::new(folder))
                .map_err(with_context(format!("cannot make a view of {folder}")))?;
        }
        for volume in volumes {
            self.attach_volume(volume).map_err(mount_context(volume.mount))?;
        }
        // This is done last, because paths inside other volumes may have to be created.
        for volume in volumes.iter().filter(|volume| volume.mount.is_read_only) {
            self.make_read_only(&volume.tree).map_err(mount_context(volume.mount))?;
        }
        Ok(())
    }

    fn attach_volume(&mut self, volume: &MountTree<'_>) -> io::Result<()> {
        let ResolvedPath { at, missing } = self.resolve(&volume.mount.target)?;
        let point = if missing.is_empty() { at } else { self.make_point(at, &missing, volume.is_folder)? };
        if is_root(mount_and_inode(&point)?)? {
            return Err(io::Error::other("nothing can be mounted at the root folder"));
        }
        attach(&volume.tree, &point)?;
        if volume.mount.origin == MountOrigin::Pod {
            self.volumes.push(mount_and_inode(&volume.tree)?.0);
        } else if volume.mount.is_read_only {
            // This is a folder of the host: mounts inside it are created in a mirror of it, whose entries are as
            // restricted as the folder.
            self.make_read_only(&volume.tree)?;
        }
        Ok(())
    }

    fn make_point(
        &mut self,
        existing: OwnedFd,
        missing: &[std::ffi::OsString],
        is_folder: bool,
    ) -> io::Result<OwnedFd> {
        let (mount, _) = mount_and_inode(&existing)?;
        let is_ours = self.mirrors.contains(&mount) || self.volumes.contains(&mount);
        let existing = if is_ours { existing } else { self.mirror(&existing)? };
        if is_folder {
            return safe_path::make_folders(existing, missing, safe_path::make_passable);
        }
        let (name, folders) = missing.split_last().expect("something is missing");
        let folder = safe_path::make_folders(existing, folders, safe_path::make_passable)?;
        make_file(&folder, name.as_os_str(), PLAIN)
    }

    /// Mirrors the path if it is a folder.
    fn mirror_if_folder(&mut self, path: &Path) -> io::Result<()> {
        let ResolvedPath { at, missing } = self.resolve(path)?;
        let is_folder = FileType::from_raw_mode(rustix::fs::fstat(&at)?.st_mode).is_dir();
        if missing.is_empty() && is_folder && !self.mirrors.contains(&mount_and_inode(&at)?.0) {
            self.mirror(&at)?;
        }
        Ok(())
    }

    /// Covers the folder with one of our own that shows the same entries.
    fn mirror(&mut self, folder: &OwnedFd) -> io::Result<OwnedFd> {
        let is_root = is_root(mount_and_inode(folder)?)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = Dir::new(rustix::fs::openat(folder, c".", flags, Mode::empty())?)?;
        let entries = listed.collect::<Result<Vec<_>, Errno>>()?;
        if entries.len() > ENTRIES_MAX {
            return Err(io::Error::other(format!("the folder above it has more than {ENTRIES_MAX} entries")));
        }
        let tree = memory_file_system(folder)?;
        attach(&tree, folder)?;
        for entry in entries.iter().filter(|entry| ![c".", c".."].contains(&entry.file_name())) {
            match show_entry(folder, entry, &tree) {
                // It disappeared in the meantime: such folders are busy.
                Err(_) if file_type(folder, entry.file_name()).is_err() => {}
                shown => shown?,
            }
        }
        self.mirrors.push(mount_and_inode(&tree)?.0);
        if is_root {
            rustix::process::fchdir(&tree)?;
            rustix::process::chroot(".")?;
        }
        Ok(tree)
    }

    /// Makes all of the machine's existing mounts read-only, except those that do not hold files.
    fn make_machine_read_only(&self) -> io::Result<()> {
        /// The kernel's own file systems, where devices and processes are used by writing to them.
        const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
        for point in points.filter(|point| !KERNELS.iter().any(|kernels| point.starts_with(kernels))) {
            match safe_path::open_path(&point, FinalLink::Refuse) {
                // The path is covered by another mount, or closed to this user, so the container cannot write there.
                Err(_) => {}
                Ok(tree) => self.make_read_only(&tree)?,
            }
        }
        Ok(())
    }

    /// Also makes the mirrors read-only, except that of devices.
    fn make_mirrors_read_only(&self) -> io::Result<()> {
        for folder in ["/", "/run"] {
            let tree = safe_path::open_path(Path::new(folder), FinalLink::Follow)?;
            if self.mirrors.contains(&mount_and_inode(&tree)?.0) {
                self.make_read_only(&tree)?;
            }
        }
        Ok(())
    }

    /// Makes a mount read-only. Keeps the restrictions the file system already has: lifting them requires permissions.
    fn make_read_only(&self, tree: &OwnedFd) -> io::Result<()> {
        let held = rustix::fs::fstatvfs(tree)?.f_flag;
        let mut flags = MountFlags::BIND | MountFlags::RDONLY;
        for (is_held, flag) in [
            (held.contains(StatVfsMountFlags::NOSUID), MountFlags::NOSUID),
            (held.contains(StatVfsMountFlags::NODEV), MountFlags::NODEV),
            (held.contains(StatVfsMountFlags::NOEXEC), MountFlags::NOEXEC),
        ] {
            flags.set(flag, is_held);
        }
        rustix::process::fchdir(&self.descriptors)?;
        Ok(rustix::mount::mount_remount(tree.as_raw_fd().to_string(), flags, c"")?)
    }
}

fn make_file(folder: &OwnedFd, name: impl rustix::path::Arg + Copy, mode: Mode) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, mode)?)
}

/// Decodes a path from the kernel's mount table, in which spaces and similar characters are octal escapes.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn file_type(folder: &OwnedFd, name: &CStr) -> io::Result<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Shows one of the host's entries in a different folder.
fn show_entry(folder: &OwnedFd, entry: &DirEntry, mirror: &OwnedFd) -> io::Result<()> {
    let name = entry.file_name();
    let kind = match entry.file_type() {
        FileType::Unknown => file_type(folder, name)?,
        known => known,
    };
    if kind.is_symlink() {
        let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
        return Ok(rustix::fs::symlinkat(target, mirror, name)?);
    }
    if kind.is_dir() {
        rustix::fs::mkdirat(mirror, name, Mode::from_raw_mode(0o755))?;
    } else {
        make_file(mirror, name, PLAIN)?;
    }
    let tree = rustix::mount::open_tree(folder, name, tree_flags() | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(rustix::mount::move_mount(&tree, c"", mirror, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}
