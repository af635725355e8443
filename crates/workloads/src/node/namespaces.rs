//! Does this system give mount namespaces? Asked once at the start, by starting a process with a mount.

use std::time::Duration;

use super::keeper::layout::Layout;
use super::keeper::protocol::{Mount, Process, RunId};
use super::link::Link;

/// A process that does nothing is through long before.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts `true` with a folder mounted at a path that does not exist.
pub(super) async fn are_possible(link: &Link, layout: &Layout) -> bool {
    let folder = layout.root().join("mount-check");
    let (source, scratch) = (folder.join("source"), folder.join("scratch"));
    if let Err(error) = std::fs::create_dir_all(&source) {
        tracing::warn!(%error, "cannot find out whether volumes can be mounted");
        return false;
    }
    let mount = Mount { source, target: "/homeostat-mount-check/folder".into(), is_read_only: true };
    let process = Process {
        command: ["test", "-d", "/homeostat-mount-check/folder"].map(ToOwned::to_owned).into(),
        environment: std::env::var("PATH").map(|path| ("PATH".to_owned(), path)).into_iter().collect(),
        directory: "/".into(),
        user: None,
        group: None,
        memory_bytes: None,
        mounts: vec![mount],
        scratch,
    };
    let id = RunId { pod: String::new(), container: String::new() };
    let executed = link.execute(id, process, LIMIT).await;
    if !executed.exit.is_success() {
        tracing::info!(
            why = executed.output,
            "no mount namespaces: volumes are reached by links and variables"
        );
    }
    executed.exit.is_success()
}
