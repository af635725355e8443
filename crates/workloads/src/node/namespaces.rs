//! Does this system give mount namespaces? Asked once at the start, by starting a process with a mount.

use std::path::PathBuf;
use std::time::Duration;

use super::keeper::layout::Layout;
use super::keeper::protocol::{Mount, Process, RunId};
use super::link::Link;

/// What does not exist and can be mounted, if anything can: below the root, beside devices, beside the account's folder.
const PLACES: [&str; 3] =
    ["/homeostat-mount-check/folder", "/dev/homeostat-mount-check", "/var/run/homeostat-mount-check"];
/// A process that does nothing is through long before.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a test with folders mounted at paths that do not exist, in the places where every container gets something.
pub(super) async fn are_possible(link: &Link, layout: &Layout) -> bool {
    let folder = layout.root().join("mount-check");
    let source = folder.join("source");
    if let Err(error) = std::fs::create_dir_all(&source) {
        tracing::warn!(%error, "cannot find out whether volumes can be mounted");
        return false;
    }
    let mount = |target: &&str| Mount {
        source: source.clone(),
        part: PathBuf::new(),
        target: target.into(),
        is_read_only: true,
        is_own: true,
    };
    let process = Process {
        command: ["ls"].iter().chain(&PLACES).map(|&word| word.to_owned()).collect(),
        environment: std::env::var("PATH").map(|path| ("PATH".to_owned(), path)).into_iter().collect(),
        directory: "/".into(),
        user: None,
        group: None,
        groups: Vec::new(),
        memory_bytes: None,
        mounts: PLACES.iter().map(mount).collect(),
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
