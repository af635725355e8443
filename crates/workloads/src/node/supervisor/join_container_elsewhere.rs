//! Stands in for `join_container` on systems without namespaces: a container has no namespaces that a command could
//! enter.

use std::io;

use super::protocol::JoinTarget;

/// A container without namespaces.
pub(super) struct ContainerNamespaces;

#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "its counterpart on Linux can fail")]
impl ContainerNamespaces {
    pub(super) fn find(_: &JoinTarget) -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn enter_mounts(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn enter_users(&self) -> io::Result<()> {
        Ok(())
    }
}
