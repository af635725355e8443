//! Finds fields in the recent writes that two writers change back and forth: each undoes the other's writes, so neither
//! ever comes to rest.
//!
//! **Invariant:** the work is bounded: few objects, few writes to each, few bytes. An object is examined only if
//! several writers wrote it often within [`WINDOW`].

use std::collections::{BTreeMap, BTreeSet};

use homeostat_core::write_history::FieldFight;
use homeostat_core::{FieldDiff, Key};
use jiff::{SignedDuration, Timestamp};

use crate::write_history::RecordedWrite;

/// How far back writes are considered: two loops that fight write many times per minute.
pub(crate) const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// The number of reverts of one field within the window that count as a fight. One or two happen when people change
/// their minds.
const REVERTS_MIN: u32 = 3;

/// How many writes to an object are compared (the newest ones), and how many objects.
const WRITES_MAX: usize = 16;
const OBJECTS_MAX: usize = 20;

/// The maximum total size of the states that are parsed.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// One change to a field.
struct FieldWrite {
    at: Timestamp,
    writer: String,
    old: String,
    new: String,
}

/// Finds fights in writes, newest first.
pub(crate) fn find_fights(recent: Vec<RecordedWrite>, may_get: impl Fn(&Key) -> bool) -> Vec<FieldFight> {
    let mut by_object: BTreeMap<Key, Vec<RecordedWrite>> = BTreeMap::new();
    for write in recent {
        let writes = by_object.entry(write.target.clone()).or_default();
        if writes.len() < WRITES_MAX {
            writes.push(write);
        }
    }
    let mut candidates: Vec<_> =
        by_object.into_iter().filter(|(key, all)| is_contested(all) && may_get(key)).collect();
    candidates.sort_by_key(|(_, writes)| std::cmp::Reverse(writes.len()));
    let (mut bytes, mut fights) = (0, Vec::new());
    for (target, writes) in candidates.into_iter().take(OBJECTS_MAX) {
        bytes += writes.iter().map(RecordedWrite::weight).sum::<usize>();
        if bytes > BYTES_MAX {
            break;
        }
        fights.extend(fights_of_object(&target, &writes));
    }
    fights
}

/// Returns whether several writers wrote an object often enough to fight.
fn is_contested(writes: &[RecordedWrite]) -> bool {
    let names: BTreeSet<String> = writes.iter().map(writer_of).collect();
    names.len() >= 2 && writes.len() > REVERTS_MIN as usize
}

/// Returns the field manager, or the program of a writer that has none.
fn writer_of(write: &RecordedWrite) -> String {
    let program = || write.agent.split([' ', '/']).next().unwrap_or_default().to_owned();
    if write.manager.is_empty() { program() } else { write.manager.clone() }
}

fn fights_of_object(target: &Key, writes: &[RecordedWrite]) -> Vec<FieldFight> {
    let mut by_path: BTreeMap<String, Vec<FieldWrite>> = BTreeMap::new();
    for write in writes.iter().rev() {
        let FieldDiff { changes, .. } = write.describe(true).diff;
        for change in changes {
            let (at, by) = (write.at, writer_of(write));
            let (old, new) = (format!("{:?}", change.old), format!("{:?}", change.new));
            by_path.entry(change.path).or_default().push(FieldWrite { at, writer: by, old, new });
        }
    }
    let fights = by_path.into_iter().filter_map(|(path, writes)| fight_over_field(target, path, &writes));
    fights.collect()
}

/// Returns the fight over a field, if there is one. `writes` are the changes to the field, oldest first.
fn fight_over_field(target: &Key, path: String, writes: &[FieldWrite]) -> Option<FieldFight> {
    let is_revert = |pair: &&[FieldWrite]| pair[0].writer != pair[1].writer && pair[0].old == pair[1].new;
    let reverts = writes.windows(2).filter(is_revert).count();
    let reverts = u32::try_from(reverts).unwrap_or(u32::MAX);
    let names: BTreeSet<String> = writes.iter().map(|write| write.writer.clone()).collect();
    (reverts >= REVERTS_MIN).then(|| FieldFight {
        target: target.clone(),
        path,
        writers: names.into_iter().collect(),
        reverts,
        since: writes[0].at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(changes: &[(&str, &str, &str)]) -> Vec<FieldWrite> {
        let write = |(writer, old, new): &(&str, &str, &str)| FieldWrite {
            at: Timestamp::UNIX_EPOCH,
            writer: (*writer).to_owned(),
            old: (*old).to_owned(),
            new: (*new).to_owned(),
        };
        changes.iter().map(write).collect()
    }

    #[track_caller]
    fn check(changes: &[(&str, &str, &str)], expected: Option<(&[&str], u32)>) {
        let target = Key::new("apps", "deployments", "a", "web");
        let found = fight_over_field(&target, "spec.replicas".to_owned(), &writes(changes));
        let found = found.as_ref().map(|fight| {
            let writers: Vec<&str> = fight.writers.iter().map(String::as_str).collect();
            (writers, fight.reverts)
        });
        assert_eq!(found, expected.map(|(writers, reverts)| (writers.to_vec(), reverts)));
    }

    #[test]
    fn a_field_that_goes_back_and_forth_between_two_writers_is_a_fight() {
        let back_and_forth = [("a", "1", "2"), ("b", "2", "1"), ("a", "1", "2"), ("b", "2", "1")];
        check(&back_and_forth, Some((&["a", "b"], 3)));
        check(&back_and_forth[..3], None);
        check(&[("a", "1", "2"), ("a", "2", "1"), ("a", "1", "2"), ("a", "2", "1")], None);
        check(&[("a", "1", "2"), ("b", "2", "3"), ("a", "3", "4"), ("b", "4", "5")], None);
    }
}
