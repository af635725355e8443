//! Tests damaged folders: every byte of every file is flipped in turn. Each time the store refuses to start, or
//! contains exactly what was committed; it never panics and never loses a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_store::disk::Config;
use homeostat_store::{Disk, Error, Limits, Store};

use crate::contract::{contents, pods, put};
use crate::simulated::Simulated;

fn small() -> Config {
    Config {
        history: Limits { bytes: 2_000, ..Limits::default() },
        segment_bytes: 1_000,
        checkpoint_bytes: 5_000,
        ..Config::default()
    }
}

type Folder = BTreeMap<String, Vec<u8>>;

/// Returns a folder with a checkpoint and several log files, closed cleanly or as after a crash.
async fn folder(is_closed: bool) -> (Folder, BTreeMap<String, String>) {
    let files = Simulated::default();
    let store = Disk::open_on(Arc::new(files.clone()), &small()).expect("an empty folder opens");
    let has_checkpoint = || files.files().keys().any(|name| name.starts_with("checkpoint-"));
    let mut number = 0;
    let mut rest = 12;
    while rest > 0 {
        rest -= usize::from(has_checkpoint());
        number += 1;
        store
            .commit(put(&(number % 4).to_string(), &"x".repeat(number % 30 * 10)))
            .await
            .expect("nothing fails");
        files.let_checkpoint_finish(usize::MAX).await;
    }
    let expected = contents(&store.snapshot(), &pods());
    let mut left = files.files();
    if is_closed {
        store.close().await;
        left = files.files();
    }
    let count = |kind| left.keys().filter(|name| name.starts_with(kind)).count();
    assert!(count("checkpoint-") >= 1 && count("log-") >= 2, "{:?}", left.keys());
    (left, expected)
}

/// Opens a folder; `None` means refused as damaged.
fn open(folder: Folder) -> Option<BTreeMap<String, String>> {
    match Disk::open_on(Arc::new(Simulated::of(folder)), &small()) {
        Ok(store) => Some(contents(&store.snapshot(), &pods())),
        Err(error @ Error::Corrupt { .. }) => {
            assert!(error.to_string().contains("backup"), "it must say what to do: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Damages each file at each place in turn: every time the folder is refused, or nothing is missing. Returns how often
/// it was refused.
fn check_each(
    (folder, expected): &(Folder, BTreeMap<String, String>),
    is_damaged: impl Fn(&str) -> bool,
    damage: impl Fn(&mut Vec<u8>, usize),
) -> usize {
    let mut refused = 0;
    for (name, bytes) in folder.iter().filter(|(name, _)| is_damaged(name)) {
        for place in 0..bytes.len() {
            let mut damaged = folder.clone();
            damage(damaged.get_mut(name).expect("it is there"), place);
            match open(damaged) {
                Some(actual) => assert_eq!(actual, *expected, "byte {place} of {name}"),
                None => refused += 1,
            }
        }
    }
    refused
}

#[tokio::test]
async fn every_flipped_byte_is_refused_or_harmless() {
    for is_closed in [true, false] {
        let flip = |bytes: &mut Vec<u8>, place: usize| bytes[place] ^= 1 << (place % 8);
        assert!(check_each(&folder(is_closed).await, |_| true, flip) > 0);
    }
}

#[tokio::test]
async fn every_zeroed_byte_is_refused_or_harmless() {
    for is_closed in [true, false] {
        let blank = |bytes: &mut Vec<u8>, place: usize| bytes[place] = 0;
        assert!(check_each(&folder(is_closed).await, |_| true, blank) > 0);
    }
}

#[tokio::test]
async fn a_log_file_cut_short_anywhere_is_refused_or_misses_nothing() {
    for is_closed in [true, false] {
        let is_log = |name: &str| name.starts_with("log-");
        assert!(check_each(&folder(is_closed).await, is_log, Vec::truncate) > 0);
    }
}

#[tokio::test]
async fn a_missing_file_is_refused() {
    let (folder, _) = folder(true).await;
    let newest = folder.keys().filter(|name| name.starts_with("log-")).max().cloned();
    for name in folder.keys() {
        let mut damaged = folder.clone();
        damaged.remove(name);
        // A log file older than the checkpoint may be left over; nothing is missing without it.
        if name.starts_with("checkpoint-") || Some(name) == newest.as_ref() {
            assert_eq!(open(damaged), None, "{name}");
        } else {
            open(damaged);
        }
    }
}

#[tokio::test]
async fn a_folder_that_was_used_is_not_taken_for_a_new_one() {
    let files = Simulated::default();
    let store = Disk::open_on(Arc::new(files.clone()), &small()).expect("an empty folder opens");
    store.commit(put("a", "1")).await.expect("nothing fails");
    let mut left = files.files();
    left.retain(|name, _| !name.starts_with("log-"));
    assert_eq!(open(left), None);
}

/// Tests zeros over the newest records, from any sector or byte on, which look like a torn or missing write. The
/// acknowledged revision next to the log reveals the difference.
#[tokio::test]
async fn newest_records_that_were_blanked_are_missed() {
    let (folder, expected) = folder(false).await;
    let name = folder.keys().filter(|name| name.starts_with("log-")).max().expect("there is a log").clone();
    let end = folder[&name].iter().rposition(|byte| *byte != 0).expect("it has records") + 1;
    for from in 0..end - 1 {
        let mut damaged = folder.clone();
        damaged.get_mut(&name).expect("it is there")[from..].fill(0);
        assert_eq!(open(damaged.clone()), None, "from byte {from} of {end}");
        // An administrator may decide to continue without them.
        damaged.remove("used");
        assert_ne!(open(damaged), Some(expected.clone()), "from byte {from} of {end}");
    }
}

#[tokio::test]
async fn a_note_of_an_earlier_version_says_nothing() {
    let (mut folder, expected) = folder(true).await;
    folder.insert("used".to_owned(), Vec::new());
    assert_eq!(open(folder), Some(expected));
}
