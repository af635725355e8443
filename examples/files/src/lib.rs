//! Files in a directory, kept as objects say: a `File` in the cluster is a real file with that content and mode. Whoever
//! edits or deletes the file finds it restored; other files are left alone.
//!
//! A file can carry no mark that every file system keeps, so this world is owned by records: an `OutsideRecord` in the
//! cluster for every file of ours.

mod drafts;
mod file;
mod folder;
mod tree;

pub use file::{File, FileSpec, FileStatus};
pub use folder::{Content, Folder};

use std::path::Path;

use homeostat::prelude::*;
use homeostat::world::{Limits, Outside, Ownership};

/// Calls a second that the directory takes. The usual 20 are for an API that belongs to others and counts; this disk is ours,
/// a call is a few system calls, and at 20 ten thousand files would take half an hour. What is left of a limit keeps a
/// mistake from filling the machine.
const CALLS_PER_SECOND: u32 = 5_000;

/// The operator that keeps the files in this directory.
pub fn operator(root: &Path) -> Operator {
    let limits =
        Limits { per_second: f64::from(CALLS_PER_SECOND), burst: CALLS_PER_SECOND, ..Limits::default() };
    let files = Outside::new(Folder::new(root))
        .ownership(Ownership::Records)
        .limits(limits)
        // A local directory shows at once what was written.
        .settle(Duration::ZERO);
    Operator::new("files.demo.dev").crd::<File>().control(files.control())
}
