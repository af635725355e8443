//! Stores the last two runs of each container on disk, next to its logs.
//!
//! A file is replaced as a whole, so a reader sees either the old or the new one. Nothing is synced: after a machine
//! crash no process is left, and the record is only of historical interest.

use std::fs;
use std::io;
use std::path::Path;

use super::node_layout::NodeLayout;
use super::protocol::ContainerRuns;

pub(super) fn save(layout: &NodeLayout, runs: &ContainerRuns) -> io::Result<()> {
    let path = layout.runs(&runs.id);
    let fresh = path.with_extension("new");
    fs::write(&fresh, serde_json::to_vec(runs)?)?;
    fs::rename(fresh, path)
}

/// Loads every record in the folder; unreadable ones are reported on stderr and left out.
pub(super) fn load_all(layout: &NodeLayout) -> Vec<ContainerRuns> {
    let mut all = Vec::new();
    for pod in entries(&layout.pods()) {
        for container in entries(&pod.join("containers")) {
            let path = container.join("runs.json");
            match fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)) {
                Ok(runs) => all.push(runs),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => eprintln!("cannot read {}: {error}", path.display()),
            }
        }
    }
    all
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}
