//! Detects once at startup which namespaces this system offers, by starting processes in them.

use std::path::PathBuf;
use std::time::Duration;

use super::id_blocks;
use super::supervisor::node_layout::NodeLayout;
use super::supervisor::protocol::{
    ContainerKey, MachineView, Mount, MountOrigin, ProcessCapabilities, ProcessSpec,
};
use super::supervisor_client::SupervisorClient;

/// Nonexistent paths that can serve as mount points if any can: below the root, among devices, next to the account's
/// folder.
const PLACES: [&str; 3] =
    ["/homeostat-mount-check/folder", "/dev/homeostat-mount-check", "/var/run/homeostat-mount-check"];
/// How long a check may take; a process that does nothing exits much sooner.
const LIMIT: Duration = Duration::from_secs(20);

/// The namespaces that containers can have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AvailableNamespaces {
    /// Mount namespaces.
    pub(super) has_mounts: bool,
    /// User namespaces. If the node is not root, they come together with the mount namespaces.
    pub(super) has_users: bool,
}

/// Detects them by trying each one.
pub(super) async fn detect(supervisor: &SupervisorClient, layout: &NodeLayout) -> AvailableNamespaces {
    let has_mounts =
        does_run(supervisor, mount_check(layout), "no mount namespaces: Pods reach volumes through links")
            .await;
    let has_users = if rustix::process::geteuid().is_root() {
        does_run(
            supervisor,
            Ok(user_check()),
            "no user namespaces: Pods cannot run as a user that the machine knows",
        )
        .await
    } else {
        has_mounts
    };
    AvailableNamespaces { has_mounts, has_users }
}

async fn does_run(
    supervisor: &SupervisorClient,
    process: std::io::Result<ProcessSpec>,
    otherwise: &str,
) -> bool {
    let process = match process {
        Ok(process) => process,
        Err(error) => {
            tracing::warn!(%error, "cannot detect which namespaces this system offers");
            return false;
        }
    };
    let id = ContainerKey { pod: String::new(), container: String::new() };
    let executed = supervisor.execute(id, process, LIMIT).await;
    if !executed.exit.is_success() {
        tracing::info!(why = executed.output, "{otherwise}");
    }
    executed.exit.is_success()
}

/// Returns a process that looks for folders mounted at paths that do not exist, in the places every container uses.
fn mount_check(layout: &NodeLayout) -> std::io::Result<ProcessSpec> {
    let source = layout.root().join("mount-check").join("source");
    std::fs::create_dir_all(&source)?;
    let mount = |target: &&str| Mount {
        source: source.clone(),
        part: PathBuf::new(),
        target: target.into(),
        is_read_only: true,
        origin: MountOrigin::Pod,
    };
    let command = ["ls"].iter().chain(&PLACES).map(|&word| word.to_owned()).collect();
    let view = MachineView { hidden: vec![layout.root().to_owned()], ..MachineView::default() };
    Ok(ProcessSpec { mounts: PLACES.iter().map(mount).collect(), view, ..plain_process(command) })
}

/// Returns a process that is root only inside its user namespace.
fn user_check() -> ProcessSpec {
    let ranges = id_blocks::sample_ranges();
    ProcessSpec { user: Some(0), group: Some(0), ranges, ..plain_process(vec!["true".to_owned()]) }
}

fn plain_process(command: Vec<String>) -> ProcessSpec {
    ProcessSpec {
        command,
        environment: std::env::var("PATH").map(|path| ("PATH".to_owned(), path)).into_iter().collect(),
        directory: "/".into(),
        user: None,
        group: None,
        groups: Vec::new(),
        ranges: Vec::new(),
        rights: ProcessCapabilities::default(),
        memory_bytes: None,
        mounts: Vec::new(),
        view: MachineView::default(),
        is_program_given: false,
    }
}
