//! Keeps files in a directory as objects describe them: a `File` in the cluster is a real file with that content and
//! mode. If the file is edited or deleted, it is restored; other files are left alone.
//!
//! A file cannot carry a mark that every file system keeps, so this world is owned by records: the cluster has an
//! `OutsideRecord` for each of our files.

mod directory;
mod drafts;
mod file;
mod files_world;
mod tree;
mod walk;

pub use directory::Directory;
pub use file::{File, FileSpec, FileStatus};
pub use files_world::{Content, Disk, Folder};

use std::path::Path;

use homeostat::prelude::*;
use homeostat::world::{Limits, Outside, Ownership};

/// How many calls per second the directory allows. The default of 20 is for a foreign API that counts calls; this
/// disk is ours, a call is a few system calls, and at 20 ten thousand files would take half an hour. A limit remains so
/// that a mistake cannot fill the machine.
const CALLS_PER_SECOND: u32 = 5_000;

/// Returns the operator that keeps the files in this directory.
pub fn operator(root: &Path) -> Operator {
    operator_on(Directory::new(root))
}

/// Returns the operator that keeps the files on this disk.
pub fn operator_on(disk: impl Disk) -> Operator {
    let limits =
        Limits { per_second: f64::from(CALLS_PER_SECOND), burst: CALLS_PER_SECOND, ..Limits::default() };
    let files = Outside::new(Folder(disk))
        .ownership(Ownership::Records)
        .limits(limits)
        // A local directory shows immediately what was written.
        .visible_within(Duration::ZERO);
    Operator::new("files.demo.dev").crd::<File>().control(files.control())
}
