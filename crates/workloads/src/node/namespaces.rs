//! Which namespaces does this system give? Asked once at the start, by starting processes in them.

use std::path::PathBuf;
use std::time::Duration;

use super::id_blocks;
use super::supervisor::layout::Layout;
use super::supervisor::protocol::{Mount, Origin, Process, Rights, RunId, View};
use super::supervisor_client::Link;

/// What does not exist and can be mounted, if anything can: below the root, beside devices, beside the account's folder.
const PLACES: [&str; 3] =
    ["/homeostat-mount-check/folder", "/dev/homeostat-mount-check", "/var/run/homeostat-mount-check"];
/// A process that does nothing is through long before.
const LIMIT: Duration = Duration::from_secs(20);

/// What containers can have of their own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespaces {
    /// A view of the files.
    pub(super) has_mounts: bool,
    /// Users and groups. For a node that is not root they come with the mounts.
    pub(super) has_users: bool,
}

/// Tries them.
pub(super) async fn find(link: &Link, layout: &Layout) -> Namespaces {
    let has_mounts = works(link, mounting(layout), "no mount namespaces: volumes are reached by links").await;
    let has_users = if rustix::process::geteuid().is_root() {
        works(link, Ok(mapping()), "no user namespaces: no user of the machine has a stand-in").await
    } else {
        has_mounts
    };
    Namespaces { has_mounts, has_users }
}

async fn works(link: &Link, process: std::io::Result<Process>, otherwise: &str) -> bool {
    let process = match process {
        Ok(process) => process,
        Err(error) => {
            tracing::warn!(%error, "cannot find out which namespaces there are");
            return false;
        }
    };
    let id = RunId { pod: String::new(), container: String::new() };
    let executed = link.execute(id, process, LIMIT).await;
    if !executed.exit.is_success() {
        tracing::info!(why = executed.output, "{otherwise}");
    }
    executed.exit.is_success()
}

/// Sees folders mounted at paths that do not exist, in the places where every container gets something.
fn mounting(layout: &Layout) -> std::io::Result<Process> {
    let source = layout.root().join("mount-check").join("source");
    std::fs::create_dir_all(&source)?;
    let mount = |target: &&str| Mount {
        source: source.clone(),
        part: PathBuf::new(),
        target: target.into(),
        is_read_only: true,
        origin: Origin::Pod,
    };
    let command = ["ls"].iter().chain(&PLACES).map(|&word| word.to_owned()).collect();
    let view = View { hidden: vec![layout.root().to_owned()], ..View::default() };
    Ok(Process { mounts: PLACES.iter().map(mount).collect(), view, ..plain(command) })
}

/// Is root in its own eyes only.
fn mapping() -> Process {
    let ranges = id_blocks::sample();
    Process { user: Some(0), group: Some(0), ranges, ..plain(vec!["true".to_owned()]) }
}

fn plain(command: Vec<String>) -> Process {
    Process {
        command,
        environment: std::env::var("PATH").map(|path| ("PATH".to_owned(), path)).into_iter().collect(),
        directory: "/".into(),
        user: None,
        group: None,
        groups: Vec::new(),
        ranges: Vec::new(),
        rights: Rights::default(),
        memory_bytes: None,
        mounts: Vec::new(),
        view: View::default(),
        is_program_given: false,
    }
}
