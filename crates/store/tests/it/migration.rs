//! A folder with older contents is migrated when it is opened: nothing is lost, even if the process is killed in the
//! meantime, and a folder with newer contents is left as it is.
//!
//! `first_edition` is a folder that the first edition wrote, with a checkpoint at revision 89 and two log files.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use homeostat_core::{Key, Prefix, Revision};
use homeostat_store::disk::{Config, ContentFormat, KeyMigration, Migration};
use homeostat_store::{Disk, Error, Expect, Limits, Op, SharedStore, Snapshot, Store, Txn, Value};

use crate::simulated::{Fault, Left, Simulated};

/// Entries in a group with a dot move, unless their value says that they stay.
const MIGRATION: Migration = Migration::Keys(KeyMigration {
    new_name: |key| Key::new(&format!("new:{}", key.group()), key.resource(), key.namespace(), key.name()),
    moves: |key, bytes| key.group().contains('.') && !bytes.starts_with(b"stays"),
});
const MIGRATED: ContentFormat = ContentFormat { migrations: &[MIGRATION] };

fn config(contents: ContentFormat) -> Config {
    Config {
        contents,
        history: Limits { bytes: 6_000, ..Limits::default() },
        segment_bytes: 4_000,
        checkpoint_bytes: 8_000,
        ..Config::default()
    }
}

fn first_edition() -> BTreeMap<String, Vec<u8>> {
    let files: [(&str, &[u8]); 4] = [
        (
            "checkpoint-00000000000000000089",
            include_bytes!("first_edition/checkpoint-00000000000000000089.bin"),
        ),
        ("log-00000000000000000089", include_bytes!("first_edition/log-00000000000000000089.bin")),
        ("log-00000000000000000104", include_bytes!("first_edition/log-00000000000000000104.bin")),
        ("used", include_bytes!("first_edition/used.bin")),
    ];
    files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect()
}

/// Everything that a client can see of a store: entries and, from the oldest revision kept, events.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    revision: Revision,
    entries: Vec<String>,
    events: Vec<String>,
}

fn entries(snapshot: &Snapshot) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    snapshot
        .iter()
        .map(|entry| format!("{} {} {}", entry.revision, entry.key.as_str(), text(&entry.bytes)))
        .collect()
}

/// The prefixes of the test's keys, old and new.
fn prefixes() -> Vec<Prefix> {
    let names = [("", "configmaps"), ("demo.dev", "lamps"), ("demo.dev", "stars")];
    let all = names.into_iter().chain([("new:demo.dev", "lamps"), ("new:demo.dev", "stars")]);
    all.map(|(group, resource)| Prefix::resource(group, resource)).collect()
}

fn see(store: &dyn Store, from: Revision) -> Seen {
    let snapshot = store.snapshot();
    let mut events = Vec::new();
    for prefix in prefixes() {
        let mut watch = store.watch(&prefix, from).expect("history reaches back");
        loop {
            let batch = watch.try_next().expect("nothing is trimmed");
            if batch.is_empty() {
                break;
            }
            let revision =
                |entry: Option<&Arc<homeostat_store::Entry>>| entry.map_or(0, |entry| entry.revision.get());
            events.extend(batch.iter().map(|event| {
                let (old, new) = (revision(event.old.as_ref()), revision(event.new.as_ref()));
                format!("{:04} {} {old}>{new}", event.revision.get(), event.key.as_str())
            }));
        }
    }
    events.sort();
    Seen { revision: snapshot.revision(), entries: entries(&snapshot), events }
}

fn oldest(store: &dyn Store) -> Revision {
    match store.watch(&Prefix::resource("", "configmaps"), Revision::ZERO) {
        Err(Error::Compacted { oldest, .. }) => oldest,
        other => panic!("so much history is not kept: {other:?}"),
    }
}

/// Returns the same contents under the new names.
fn renamed(seen: &Seen) -> Seen {
    let rename = |lines: &[String]| {
        let lines = lines.iter().map(|line| line.replace(" demo.dev/", " new:demo.dev/"));
        let mut lines = lines.collect::<Vec<_>>();
        lines.sort_by_key(|line| line.split(' ').nth(1).map(ToOwned::to_owned));
        lines
    };
    let mut events = rename(&seen.events);
    events.sort();
    Seen { revision: seen.revision, entries: rename(&seen.entries), events }
}

#[tokio::test]
async fn a_folder_of_the_first_edition_is_opened_as_it_was() {
    let files = Simulated::of(first_edition());
    let store = Disk::open_on(Arc::new(files), &config(ContentFormat::default())).expect("it opens");
    let seen = see(&store, oldest(&store));
    assert_eq!(seen.revision, Revision::new(109));
    assert_eq!(seen.entries.len(), 10, "{:#?}", seen.entries);
    assert!(seen.events.len() >= 10, "{:#?}", seen.events);
}

#[tokio::test]
async fn keys_move_with_their_revisions_and_their_history() {
    let before = {
        let store =
            Disk::open_on(Arc::new(Simulated::of(first_edition())), &config(ContentFormat::default()));
        let store = store.expect("it opens");
        see(&store, oldest(&store))
    };
    let files = Simulated::of(first_edition());
    let store = Disk::open_on(Arc::new(files.clone()), &config(MIGRATED)).expect("it is migrated");
    let after = see(&store, oldest(&store));
    assert_eq!(after, renamed(&before));
    assert!(after.entries.iter().any(|line| line.contains("new:demo.dev/lamps/team/thing0")), "{after:#?}");
    // Opens it for writing, and once more: there is nothing left to migrate.
    let key = Key::new("new:demo.dev", "lamps", "team", "more");
    let put = Txn::one(key, Expect::Absent, Op::Put(Value::plain("{}")));
    assert_eq!(store.commit(put).await.expect("it is written").revision, Revision::new(110));
    drop(store);
    let bytes = files.files();
    let again = Disk::open_on(Arc::new(Simulated::of(bytes)), &config(MIGRATED)).expect("it opens");
    assert_eq!(again.snapshot().revision(), Revision::new(110));
    assert_eq!(again.snapshot().len(), after.entries.len() + 1);
}

/// A value that does not move is overwritten by one that does, and vice versa: each time the old one is gone.
#[tokio::test]
async fn a_value_that_moves_leaves_its_former_name() {
    let files = Simulated::default();
    let store = Disk::open_on(Arc::new(files.clone()), &config(ContentFormat::default())).expect("it opens");
    let key = Key::new("demo.dev", "lamps", "team", "a");
    let writes = ["stays 1", "2", "3", "stays 4", "", "5", "", "stays 6"];
    for text in writes {
        let op = if text.is_empty() { Op::Delete } else { Op::Put(Value::plain(text)) };
        store.commit(Txn::one(key.clone(), Expect::Any, op)).await.expect("it is written");
    }
    drop(store);
    let store = Disk::open_on(Arc::new(files), &config(MIGRATED)).expect("it is migrated");
    let seen = see(&store, Revision::ZERO);
    let (old, new) = ("demo.dev/lamps/team/a", "new:demo.dev/lamps/team/a");
    assert_eq!(seen.entries, [format!("8 {old} stays 6")]);
    let expected = [
        format!("0001 {old} 0>1"),
        format!("0002 {old} 1>0"),
        format!("0002 {new} 0>2"),
        format!("0003 {new} 2>3"),
        format!("0004 {old} 0>4"),
        format!("0004 {new} 3>0"),
        format!("0005 {old} 4>0"),
        format!("0006 {new} 0>6"),
        format!("0007 {new} 6>0"),
        format!("0008 {old} 0>8"),
    ];
    assert_eq!(seen.events, expected);
}

/// A value that begins with a cross gets a tag instead, in the checkpoint and in the log; everything else is unchanged.
#[tokio::test]
async fn values_are_rewritten_where_they_are() {
    const TAGGED: ContentFormat = ContentFormat {
        migrations: &[Migration::Values(|_, value| {
            let rest = value.bytes.strip_prefix(b"x")?;
            Some(Value { tag: 7, ..Value::plain(value.bytes.slice_ref(rest)) })
        })],
    };
    let files = Simulated::default();
    let store = Disk::open_on(Arc::new(files.clone()), &config(ContentFormat::default())).expect("it opens");
    let key = |number: usize| Key::new("", "configmaps", "team", &(number % 40).to_string());
    for number in 0..200 {
        let text = format!("{}{number} {}", if number % 3 == 0 { "x" } else { "" }, ".".repeat(200));
        let op = if number % 7 == 6 { Op::Delete } else { Op::Put(Value::plain(text)) };
        store.commit(Txn::one(key(number), Expect::Any, op)).await.expect("it is written");
    }
    let from = oldest(&store);
    let before = see(&store, from);
    drop(store);
    assert!(files.files().keys().any(|name| name.starts_with("checkpoint-")), "both kinds of files");
    let store = Disk::open_on(Arc::new(files.clone()), &config(TAGGED)).expect("it is migrated");
    let after = see(&store, from);
    assert_eq!(after.events, before.events);
    let without_cross = before.entries.iter().map(|line| line.replace(" x", " "));
    assert_eq!(after.entries, without_cross.collect::<Vec<_>>());
    let expected = before.entries.iter().filter(|line| line.contains(" x")).count();
    let tagged = |store: &Disk| store.snapshot().iter().filter(|entry| entry.tag == 7).count();
    assert!(expected > 3, "{expected}");
    assert_eq!(tagged(&store), expected);
    drop(store);
    let again = Disk::open_on(Arc::new(files), &config(TAGGED)).expect("it opens");
    assert_eq!(tagged(&again), expected, "tags are stored");
    assert_eq!(see(&again, from), after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes_or_a_call_fails_at_every_call_of_the_migration() {
    const LEFT: [Left; 5] = [Left::Everything, Left::Synced, Left::Torn(1), Left::Torn(2), Left::Torn(3)];
    let undisturbed = Simulated::of(first_edition());
    let store = Disk::open_on(Arc::new(undisturbed.clone()), &config(MIGRATED)).expect("it is migrated");
    let from = oldest(&store);
    let expected = see(&store, from);
    let calls = undisturbed.calls();
    drop(store);
    assert!(calls > 15, "three files are written anew: {calls}");
    let mut interrupted = 0;
    for at in 0..=calls {
        for fault in [Fault::PowerCut(at), Fault::Fails(at), Fault::FailsHalfDone(at), Fault::Full(at)] {
            let files = Simulated::of(first_edition()).with_fault(fault);
            let opened = Disk::open_on(Arc::new(files.clone()), &config(MIGRATED));
            if let Err(error) = &opened {
                interrupted += 1;
                assert!(matches!(error, Error::Open { .. }), "{fault:?}: {error}");
            }
            drop(opened);
            for left in LEFT {
                let after = files.after(left);
                let store = Disk::open_on(Arc::new(after), &config(MIGRATED))
                    .unwrap_or_else(|error| panic!("{fault:?}, {left:?}: {error}"));
                assert_eq!(see(&store, from), expected, "{fault:?}, {left:?}");
            }
        }
    }
    assert!(interrupted > calls, "most faults keep the first start from finishing: {interrupted}");
}

#[tokio::test]
async fn a_newer_folder_is_refused_and_left_as_it_is() {
    const LATER: ContentFormat = ContentFormat { migrations: &[MIGRATION, MIGRATION] };
    let files = Simulated::default();
    let store = Disk::open_on(Arc::new(files.clone()), &config(LATER)).expect("an empty folder opens");
    let key = Key::new("", "configmaps", "team", "a");
    store.commit(Txn::one(key, Expect::Any, Op::Put(Value::plain("{}")))).await.expect("it is written");
    drop(store);
    let before = files.files();
    let again = Simulated::of(before.clone());
    let error = Disk::open_on(Arc::new(again.clone()), &config(MIGRATED)).expect_err("it is newer");
    assert!(matches!(error, Error::Newer { .. }), "{error}");
    let expected = "the data in simulated was written by a newer version of this program (format 3.2, and this version \
                    knows 3.1): use the newer version, or choose another folder to start empty; nothing was changed";
    assert_eq!(error.to_string(), expected);
    assert_eq!(again.calls(), 0, "nothing was written");
    assert_eq!(again.files(), before);
}

#[tokio::test]
async fn a_damaged_folder_is_refused_before_it_is_migrated() {
    for (name, bytes) in first_edition().iter().filter(|(name, _)| *name != "used") {
        for place in (0..bytes.len().min(3_000)).step_by(7).filter(|place| bytes[*place] != 0) {
            let mut damaged = first_edition();
            damaged.get_mut(name).expect("it is there")[place] ^= 1;
            let files = Simulated::of(damaged.clone());
            let error = Disk::open_on(Arc::new(files.clone()), &config(MIGRATED)).expect_err("it is damaged");
            assert!(matches!(error, Error::Corrupt { .. }), "byte {place} of {name}: {error}");
            assert_eq!(files.files(), damaged, "byte {place} of {name}");
        }
    }
}

/// The folder to migrate; set only in the process to be killed.
const FOLDER: &str = "HOMEOSTAT_STORE_MIGRATION_FOLDER";
const KILLS: usize = 12;
const COMMITS: u64 = 3_000;

/// Small files, so that there are many moments to kill between.
fn many_files(contents: ContentFormat) -> Config {
    Config { contents, segment_bytes: 30_000, ..Config::default() }
}

/// Runs in the process that is killed; as an ordinary test it does nothing.
#[test]
fn migrate_until_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = Disk::open(folder, &many_files(MIGRATED)).expect("the folder opens");
    println!("migrated to {}", store.snapshot().revision());
}

async fn write_folder(folder: &Path) -> Seen {
    let store: SharedStore =
        Arc::new(Disk::open(folder, &many_files(ContentFormat::default())).expect("it opens"));
    for number in 0..COMMITS {
        let group = if number % 3 == 0 { "" } else { "demo.dev" };
        let resource = if group.is_empty() { "configmaps" } else { "lamps" };
        let key = Key::new(group, resource, "team", &(number % 200).to_string());
        let op = if number % 11 == 0 {
            Op::Delete
        } else {
            Op::Put(Value::plain(format!("{number} {}", "x".repeat(300))))
        };
        store.commit(Txn::one(key, Expect::Any, op)).await.expect("it is written");
    }
    let seen = see(&*store, Revision::ZERO);
    store.close().await;
    seen
}

/// Returns how many log files in the folder are marked as migrated.
fn migrated_files(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).expect("the folder is there").filter_map(Result::ok);
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log-"));
    let starts = logs.filter_map(|file| {
        let mut start = [0; 100];
        let read = std::fs::File::open(file.path()).and_then(|mut file| file.read(&mut start)).ok()?;
        Some(String::from_utf8_lossy(&start[..read]).into_owned())
    });
    starts.filter(|start| start.contains("contents 1")).count()
}

fn start(folder: &Path) -> Child {
    let binary = std::env::current_exe().expect("this binary has a path");
    Command::new(binary)
        .args(["--exact", "migration::migrate_until_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this binary starts")
}

#[tokio::test]
async fn a_process_killed_while_it_migrates_loses_nothing() {
    let original = tempfile::tempdir().expect("a temporary folder can be made");
    let expected = renamed(&write_folder(original.path()).await);
    let (mut files, mut between) = (0, 0);
    for kill in 1..=KILLS {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for file in std::fs::read_dir(original.path()).expect("it is there").filter_map(Result::ok) {
            std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("it can be copied");
            files += usize::from(kill == 1);
        }
        let mut child = start(folder.path());
        // It is killed when this many files have been replaced, wherever it is at that moment.
        while migrated_files(folder.path()) < kill * 3 && child.try_wait().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ended");
        let migrated = migrated_files(folder.path());
        between += usize::from(migrated > 0 && migrated + 2 < files);
        let store = Disk::open(folder.path(), &many_files(MIGRATED))
            .unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        assert_eq!(see(&store, Revision::ZERO), expected, "kill {kill} after {migrated} files");
    }
    assert!(between > KILLS / 2, "most kills must hit the middle of it: {between} of {KILLS}, {files} files");
}
