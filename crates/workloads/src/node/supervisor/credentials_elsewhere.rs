//! Becoming who a container shall be, on systems that are not Linux: the user, and nothing else.

use std::io::{self, Read, Write};

use super::protocol::ProcessSpec;

/// Refuses whatever takes more than Linux' own means.
pub(super) fn become_user(process: &ProcessSpec, _: &mut (impl Read + Write)) -> io::Result<()> {
    let is_same = process.user.is_none_or(|user| user == rustix::process::getuid().as_raw());
    if is_same && process.ranges.is_empty() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Does it as the node's own user.
pub(super) fn as_user<T>(_: &ProcessSpec, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    act()
}
