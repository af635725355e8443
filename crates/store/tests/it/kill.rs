//! Tests a real process that writes to a real disk and is killed repeatedly: everything that it printed as acknowledged
//! exists afterwards.
//!
//! The process is this test binary; an environment variable makes it write until it dies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use homeostat_core::{Entropy, Revision};
use homeostat_store::disk::Config;
use homeostat_store::{Disk, Limits, SharedStore, Store};

use crate::contract::{contents, pods, put};

/// The folder to write to; set only in the process to be killed.
const FOLDER: &str = "HOMEOSTAT_STORE_KILL_FOLDER";
const KILLS: u64 = 25;
const WRITERS: u64 = 8;

/// Small enough that kills also hit rotations and checkpoints.
fn small() -> Config {
    Config {
        history: Limits { bytes: 40_000, ..Limits::default() },
        segment_bytes: 20_000,
        checkpoint_bytes: 40_000,
        ..Config::default()
    }
}

/// Runs in the process that is killed; as an ordinary test it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_until_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store: SharedStore = Arc::new(Disk::open(folder, &small()).expect("the folder opens"));
    let first = store.snapshot().revision().get();
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&store), writer, first))).collect();
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
}

/// Counts up under one key forever and prints each acknowledged count.
async fn write(store: SharedStore, writer: u64, first: u64) {
    for count in first.. {
        let text = format!("{count} {}", "x".repeat(500));
        let done = store.commit(put(&writer.to_string(), &text)).await.expect("nothing fails");
        println!("acknowledged {writer} {count} {}", done.revision);
    }
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let entropy = Entropy::seeded(3);
    let mut newest = Revision::ZERO;
    let mut total = 0;
    for kill in 0..KILLS {
        let acknowledged = run_and_kill(folder.path(), entropy.below(300));
        total += acknowledged.len();
        newest = check(folder.path(), &acknowledged, newest, kill);
    }
    assert!(total > 100, "the processes must have written something: {total}");
}

fn start(folder: &Path) -> Child {
    let binary = std::env::current_exe().expect("this binary has a path");
    Command::new(binary)
        .args(["--exact", "kill::write_until_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this binary starts")
}

/// Kills a writing process after this many acknowledgements; returns the last count and revision of each writer.
fn run_and_kill(folder: &Path, after: u64) -> BTreeMap<String, (u64, Revision)> {
    let mut child = start(folder);
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut acknowledged = BTreeMap::new();
    let mut seen = 0;
    let mut note = |line: std::io::Result<String>| {
        let line = line.unwrap_or_default();
        let mut words = line.split(' ').skip_while(|word| *word != "acknowledged").skip(1);
        if let (Some(writer), Some(count), Some(revision)) = (words.next(), words.next(), words.next()) {
            let count = count.parse().expect("a count");
            acknowledged.insert(writer.to_owned(), (count, revision.parse().expect("a revision")));
            seen += 1;
        }
        seen
    };
    while note(lines.next().expect("it writes until killed")) < after {}
    child.kill().expect("it can be killed");
    lines.for_each(|line| {
        note(line);
    });
    child.wait().expect("it ended");
    acknowledged
}

/// Opens the remaining files and compares them.
fn check(
    folder: &Path,
    acknowledged: &BTreeMap<String, (u64, Revision)>,
    newest: Revision,
    kill: u64,
) -> Revision {
    let store = Disk::open(folder, &small()).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
    let revision = store.snapshot().revision();
    assert!(revision >= newest, "kill {kill}: the revision went back");
    let stored = contents(&store.snapshot(), &pods());
    for (writer, (count, at)) in acknowledged {
        let text = &stored[&format!("/pods/default/{writer}")];
        let found: u64 = text.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
        assert!(
            *at <= revision && (*count..=count + 1).contains(&found),
            "kill {kill}: {writer} {count} {found}"
        );
    }
    revision
}
