//! Two replicas as two processes, one of which is killed or frozen: the other takes over, and the journals of both show
//! that no object was ever reconciled by two at once.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat::core::journal::{Entry, Record};
use homeostat::core::{Clock, Key};
use jiff::Timestamp;

use crate::programs::{Program, Server, eventually, operator};

/// As many as there are shards: the probability that a second replica gets none of them is one in 50 000.
const CHORES: usize = 24;
const SHARDS: &str = "24";

/// How soon the lease expires after a crash.
const TERM_SECONDS: &str = "5";

/// A replica and its journal.
struct Replica<'a> {
    program: Program,
    folder: &'a Path,
    name: &'static str,
}

/// When an object was reconciled: the start, and the end if there is one.
type Spans = BTreeMap<Key, Vec<(Timestamp, Option<Timestamp>)>>;

impl<'a> Replica<'a> {
    fn start(server: &Server, folder: &'a Path, name: &'static str, shards: Option<&str>) -> Self {
        let mut variables = vec![("JOURNAL", name), ("TERM_SECONDS", TERM_SECONDS)];
        variables.extend(shards.map(|shards| ("SHARDS", shards)));
        let kubeconfig = server.kubeconfig.to_str().unwrap();
        Self {
            program: operator(folder, "replicas", &["--kubeconfig", kubeconfig], &variables),
            folder,
            name,
        }
    }

    fn spans(&self) -> Spans {
        let text = std::fs::read_to_string(self.folder.join(self.name)).unwrap_or_default();
        let mut spans = Spans::new();
        // The last line of a killed process may be truncated.
        for record in text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok()) {
            match record.entry {
                Entry::Started { object, .. } => spans.entry(object).or_default().push((record.at, None)),
                Entry::Settled { object, .. } | Entry::Failed { object, .. } => {
                    let span = spans.get_mut(&object).and_then(|spans| spans.last_mut());
                    span.expect("it was started").1 = Some(record.at);
                }
                _ => {}
            }
        }
        spans
    }

    /// Waits until it has reconciled every object since `from`.
    #[track_caller]
    fn does_everything(&self, from: Timestamp) {
        eventually("it reconciles every object", || {
            let spans = self.spans();
            let done = spans
                .values()
                .filter(|spans| spans.iter().any(|(start, end)| *start > from && end.is_some()));
            (done.count() == CHORES).then_some(())
        });
    }
}

/// Checks that no object was reconciled by both at once; the runs of a replica end when it is killed or frozen, because
/// it can no longer write.
#[track_caller]
fn assert_no_overlap(killed: &Replica<'_>, death: Timestamp, other: &Replica<'_>) {
    let others = other.spans();
    let mut compared = 0;
    for (object, spans) in killed.spans() {
        for (start, end) in spans {
            let end = end.filter(|end| *end <= death || start > death).unwrap_or(start.max(death));
            for (begin, close) in others.get(&object).into_iter().flatten() {
                let is_apart = *begin >= end || close.is_some_and(|close| close <= start);
                assert!(is_apart, "{object} was reconciled by both between {begin} and {end}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "both reconciled something");
}

fn chores(server: &Server) {
    let chore = |number| {
        format!(
            "---\napiVersion: demo.dev/v1\nkind: Chore\nmetadata: {{name: c{number}}}\nspec: {{milliseconds: 300}}\n"
        )
    };
    let all: String = (0..CHORES).map(chore).collect();
    eventually("the kind is served", || server.try_kubectl(&["apply", "-f", "-"], &all));
}

/// A replica that has done all chores alone.
fn first<'a>(server: &Server, folder: &'a Path, shards: Option<&str>) -> Replica<'a> {
    let replica = Replica::start(server, folder, "first", shards);
    chores(server);
    replica.does_everything(Timestamp::UNIX_EPOCH);
    replica
}

#[test]
fn a_killed_leader_is_replaced_without_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let clock = Clock::system();
    let mut first = first(&server, folder.path(), None);
    let second = Replica::start(&server, folder.path(), "second", None);
    first.does_everything(clock.now());
    assert!(second.spans().is_empty(), "there is one leader");
    first.program.kill();
    let death = clock.now();
    second.does_everything(death);
    assert_no_overlap(&first, death, &second);
}

#[test]
fn shards_move_between_processes_without_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let clock = Clock::system();
    let mut first = first(&server, folder.path(), Some(SHARDS));
    let second = Replica::start(&server, folder.path(), "second", Some(SHARDS));
    eventually("the second gets its share", || (!second.spans().is_empty()).then_some(()));
    first.program.kill();
    let death = clock.now();
    second.does_everything(death);
    assert_no_overlap(&first, death, &second);
}

#[test]
fn a_leader_that_was_frozen_stops_reconciling() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let clock = Clock::system();
    let mut first = first(&server, folder.path(), None);
    let second = Replica::start(&server, folder.path(), "second", None);
    first.does_everything(clock.now());
    let frozen = clock.now();
    first.program.pause();
    second.does_everything(frozen);
    first.program.resume();
    second.does_everything(clock.now());
    assert_no_overlap(&first, frozen, &second);
    let late = first.spans().into_values().flatten().filter(|(start, _)| *start > frozen).count();
    // One key may have been taken but not yet recorded when the process was frozen.
    assert!(late <= 1, "{late} reconciles began after it woke up");
    assert!(first.program.is_running(), "it waits to become leader again");
}

#[test]
fn a_shard_holder_that_was_frozen_stops_reconciling() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let clock = Clock::system();
    let first = first(&server, folder.path(), Some(SHARDS));
    let second = Replica::start(&server, folder.path(), "second", Some(SHARDS));
    eventually("the second gets its share", || (!second.spans().is_empty()).then_some(()));
    let frozen = clock.now();
    first.program.pause();
    second.does_everything(frozen);
    let woken = clock.now();
    first.program.resume();
    eventually("the first gets its share again", || {
        first.spans().into_values().flatten().any(|(start, _)| start > woken).then_some(())
    });
    assert_no_overlap(&first, frozen, &second);
}
