//! Enters the namespaces of a running container, to run a command in it.
//!
//! **Invariant:** the launcher never has more capabilities in one of the container's namespaces than the container
//! itself: it becomes the container's user before it enters the user namespace, where the container's processes might
//! have control over it. It cannot be traced while it still has the node's permissions (see `credentials`).

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags};
use rustix::thread::ThreadNameSpaceType;

use super::process::started_ticks;
use super::protocol::JoinTarget;

/// A container to enter.
pub(super) struct ContainerNamespaces {
    process: OwnedFd,
    root: OwnedFd,
    has_own_mounts: bool,
    has_own_users: bool,
}

impl ContainerNamespaces {
    /// Finds the namespaces of a container by its first process.
    pub(super) fn find(target: &JoinTarget) -> io::Result<Self> {
        // The container's processes cannot read or change this process.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let gone = || io::Error::other("the container has ended");
        let pid = Pid::from_raw(target.pid).ok_or_else(gone)?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
        let path = |name: &str| format!("/proc/{}/{name}", target.pid);
        let root = rustix::fs::openat(
            CWD,
            path("root"),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let is_own = |name: &str| {
            let theirs = rustix::fs::readlink(path(name), Vec::new())?;
            Ok::<_, io::Error>(theirs != rustix::fs::readlink(format!("/proc/self/{name}"), Vec::new())?)
        };
        let (has_own_mounts, has_own_users) = (is_own("ns/mnt")?, is_own("ns/user")?);
        // This is checked last, so that the pid is known to have belonged to this process all along.
        if started_ticks(target.pid) != Some(target.started_ticks) {
            return Err(gone());
        }
        Ok(Self { process, root, has_own_mounts, has_own_users })
    }

    /// Enters the container's view of the files. Without root's permissions this includes the user namespace, which
    /// then belongs to the node's own user.
    pub(super) fn enter_mounts(&self) -> io::Result<()> {
        let mut spaces = ThreadNameSpaceType::empty();
        if self.has_own_mounts {
            spaces |= ThreadNameSpaceType::MOUNT;
        }
        if self.has_own_users && !rustix::process::geteuid().is_root() {
            spaces |= ThreadNameSpaceType::USER;
        }
        if !spaces.is_empty() {
            rustix::thread::move_into_thread_name_spaces(self.process.as_fd(), spaces)?;
        }
        if self.has_own_mounts {
            rustix::process::fchdir(&self.root)?;
            rustix::process::chroot(".")?;
        }
        Ok(())
    }

    /// Enters the user namespace of a container that was given one.
    pub(super) fn enter_users(&self) -> io::Result<()> {
        if !self.has_own_users {
            return Err(io::Error::other("the container has left its user namespace"));
        }
        Ok(rustix::thread::move_into_thread_name_spaces(self.process.as_fd(), ThreadNameSpaceType::USER)?)
    }
}
