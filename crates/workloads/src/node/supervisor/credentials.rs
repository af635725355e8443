//! Changes this process to a container's user, with exactly the permissions it should have.
//!
//! The process has one thread, so its credentials are those of the thread. **Invariant:** all other permissions are
//! given up permanently before the command runs, in an order in which every step still has the permissions it needs.

use std::io::{self, Read, Write};

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::join_container::ContainerNamespaces;
use super::protocol::{ProcessCapabilities, ProcessSpec};
use super::{NAMESPACE_IS_SET_UP, NAMESPACE_MADE};

/// The maximum number of capabilities; a kernel with fewer reports that.
const CAPABILITIES: u32 = 64;

/// Becomes the container's user permanently. The supervisor, at the other end of the socket, sets up the user
/// namespace.
pub(super) fn become_user(process: &ProcessSpec, supervisor: &mut (impl Read + Write)) -> io::Result<()> {
    if !process.ranges.is_empty() {
        enter_user_namespace(supervisor)?;
    }
    give_up_rights(process, change_user)
}

/// Becomes the user of a running container permanently, in the container's user namespace.
pub(super) fn become_user_of(process: &ProcessSpec, container: &ContainerNamespaces) -> io::Result<()> {
    if process.ranges.is_empty() {
        return give_up_rights(process, change_user);
    }
    // The container's processes may hold every capability in its namespace, so this process enters it as their user. It
    // keeps its capabilities only for that step.
    rustix::thread::set_keep_capabilities(true)?;
    change_user_outside(process)?;
    let held = rustix::thread::capabilities(None)?.permitted;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    container.enter_users()?;
    give_up_rights(process, |_| Ok(()))
}

/// Gives up all permissions that the container must not have, and changes the user along the way.
fn give_up_rights(
    process: &ProcessSpec,
    change_user: impl FnOnce(&ProcessSpec) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(bound) = process.rights.bound {
        set_bound(bound)?;
    }
    let has_ambient = process.rights.ambient != 0;
    if has_ambient {
        rustix::thread::set_keep_capabilities(true)?;
    }
    change_user(process)?;
    if has_ambient {
        keep_capabilities(&process.rights)?;
    }
    // In a user namespace, root is not the machine's root. Elsewhere a program such as `su` would make the process root
    // of the machine, and a Pod can mount its own configuration over that of `su`.
    if process.rights.no_new_privileges || process.ranges.is_empty() {
        rustix::thread::set_no_new_privs(true)?;
    }
    Ok(())
}

#[expect(
    deprecated,
    reason = "unshare_unsafe warns about shared descriptor tables, which are not requested here"
)]
fn enter_user_namespace(supervisor: &mut (impl Read + Write)) -> io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWUSER)?;
    supervisor.write_all(&[NAMESPACE_MADE])?;
    let mut answer = [0];
    supervisor.read_exact(&mut answer)?;
    if answer != [NAMESPACE_IS_SET_UP] {
        return Err(io::Error::other("the supervisor did not set up the user namespace"));
    }
    Ok(())
}

/// Takes every capability beyond the bound from this process and its descendants.
fn set_bound(bound: u64) -> io::Result<()> {
    for number in 0..CAPABILITIES {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if bound & (1 << number) == 0 && rustix::thread::capability_is_in_bounding_set(one) == Ok(true) {
            rustix::thread::remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}

fn change_user(process: &ProcessSpec) -> io::Result<()> {
    use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
    let user = process.user.map_or_else(rustix::process::getuid, Uid::from_raw);
    let group = process.group.map_or_else(rustix::process::getgid, Gid::from_raw);
    let is_same = (user, group) == (rustix::process::getuid(), rustix::process::getgid());
    // In a new user namespace without mappings the kernel reports "nobody", which the container may ask for.
    if is_same && process.groups.is_empty() && process.ranges.is_empty() {
        return Ok(());
    }
    let more = process.groups.iter().copied().map(Gid::from_raw);
    set_thread_groups(&[group].into_iter().chain(more).collect::<Vec<_>>())?;
    set_thread_gid(group)?;
    Ok(set_thread_uid(user)?)
}

/// Changes to the container's user by its IDs on the machine. Fails if its namespace does not map one of them.
fn change_user_outside(process: &ProcessSpec) -> io::Result<()> {
    use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
    let mapped = |id: Option<u32>| {
        let outside = id.and_then(|id| process.mapped_outside(id));
        outside.ok_or_else(|| io::Error::other("its user namespace does not have this user or group"))
    };
    let (user, group) = (mapped(process.user)?, mapped(process.group)?);
    let more = process.groups.iter().map(|id| mapped(Some(*id))).collect::<Result<Vec<_>, _>>()?;
    set_thread_groups(&[group].into_iter().chain(more).map(Gid::from_raw).collect::<Vec<_>>())?;
    set_thread_gid(Gid::from_raw(group))?;
    Ok(set_thread_uid(Uid::from_raw(user))?)
}

/// Keeps only these capabilities for a user who is not root.
fn keep_capabilities(rights: &ProcessCapabilities) -> io::Result<()> {
    let held = rustix::thread::capabilities(None)?.permitted;
    let kept = CapabilitySet::from_bits_retain(rights.ambient) & held;
    let sets = CapabilitySets { effective: CapabilitySet::empty(), permitted: kept, inheritable: kept };
    rustix::thread::set_capabilities(None, sets)?;
    for one in kept.iter() {
        rustix::thread::configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

/// Runs `act` with the permissions of the container's user on the machine, then changes back. Only root can change its
/// user.
pub(super) fn as_user<T>(process: &ProcessSpec, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (own_user, own_group) = (rustix::process::getuid(), rustix::process::getgid());
    let own_groups = rustix::process::getgroups()?;
    let user = process.user.map_or(own_user, |id| Uid::from_raw(process.outside(id)));
    let group = process.group.map_or(own_group, |id| Gid::from_raw(process.outside(id)));
    if !own_user.is_root() || (user, group) == (own_user, own_group) {
        return act();
    }
    let more = process.groups.iter().map(|id| Gid::from_raw(process.outside(*id)));
    set_thread_groups(&[group].into_iter().chain(more).collect::<Vec<_>>())?;
    set_thread_res_gid(None, group, None)?;
    set_thread_res_uid(None, user, None)?;
    let done = act();
    set_thread_res_uid(None, own_user, None)?;
    set_thread_res_gid(None, own_group, None)?;
    set_thread_groups(&own_groups)?;
    done
}
