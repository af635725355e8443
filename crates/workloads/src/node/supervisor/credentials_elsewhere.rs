//! Changes this process to a container's user on systems other than Linux: only the user, nothing else.

use std::io::{self, Read, Write};

use super::protocol::ProcessSpec;

/// Refuses anything that needs more than the user that runs the node, because only Linux supports that here.
pub(super) fn become_user(process: &ProcessSpec, _: &mut (impl Read + Write)) -> io::Result<()> {
    let is_same = process.user.is_none_or(|user| user == rustix::process::getuid().as_raw());
    if is_same && process.ranges.is_empty() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Runs `act` as the node's own user.
pub(super) fn as_user<T>(_: &ProcessSpec, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    act()
}
