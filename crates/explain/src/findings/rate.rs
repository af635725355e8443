//! Hot loops: an object that is reconciled and written again and again, and who else writes the same field.

use std::collections::BTreeMap;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, WriteOutcome};
use jiff::{SignedDuration, Timestamp};

use super::Finding;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;

/// The time window.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// This many writes to one object in the window are a loop: a healthy reconciler writes a few times and stops.
const WRITES_MIN: usize = 20;

/// Writes of one controller to one object.
#[derive(Default)]
struct WriteRate<'a> {
    count: usize,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// How often each field was changed.
    paths: BTreeMap<&'a str, usize>,
}

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut writes: BTreeMap<(&str, &Key, &Key), WriteRate<'_>> = BTreeMap::new();
    for (_, record) in evidence.records() {
        let Entry::Wrote { object, target, outcome: WriteOutcome::Done { .. }, diff, .. } = &record.entry
        else {
            continue;
        };
        if evidence.now.duration_since(record.at) > WINDOW {
            continue;
        }
        let seen = writes.entry((record.source.as_str(), object, target)).or_default();
        seen.count += 1;
        seen.first = seen.first.or(Some(record.at));
        seen.last = Some(record.at);
        diff.changes.iter().for_each(|change| *seen.paths.entry(&change.path).or_default() += 1);
    }
    let loops = writes.into_iter().filter(|(_, writes)| writes.count >= WRITES_MIN);
    loops
        .map(|((source, object, target), writes)| describe(evidence, source, (object, target), &writes))
        .collect()
}

fn describe(
    evidence: &Evidence,
    source: &str,
    (object, target): (&Key, &Key),
    writes: &WriteRate<'_>,
) -> Finding {
    let field = writes.paths.iter().max_by_key(|(_, count)| **count).map(|(path, _)| *path);
    let length =
        writes.last.zip(writes.first).map_or(0, |(last, first)| last.duration_since(first).as_secs());
    let what = if target == object { "it".to_owned() } else { evidence.name_of(target) };
    let about = field.map(|field| format!(", mostly {field}")).unwrap_or_default();
    let rival = field.and_then(|field| rival(evidence, target, field, source));
    let rival = rival.map(|who| format!("; {who} writes the same field")).unwrap_or_default();
    let text = format!(
        "is in a hot loop: the controller {source} wrote {what} {} times within {} s{about}{rival}",
        writes.count,
        length.max(1)
    );
    Finding::new(CauseCode::HotLoop, object, text)
}

/// Returns who else has written a field of an object, according to the server or another journal.
fn rival(evidence: &Evidence, target: &Key, field: &str, source: &str) -> Option<String> {
    let other = evidence.records().find_map(|(_, record)| match &record.entry {
        Entry::Wrote { target: written, diff, outcome: WriteOutcome::Done { .. }, .. }
            if written == target
                && record.source.as_str() != source
                && diff.changes.iter().any(|change| change.path == field) =>
        {
            Some(format!("the controller {}", record.source))
        }
        _ => None,
    });
    let operators: Vec<&str> = evidence.journals.iter().map(|journal| journal.operator.as_str()).collect();
    other.or_else(|| {
        let mut writes =
            evidence.writes.iter().rev().filter(|write| write.target == *target && write.refusal.is_none());
        let is_rival = |write: &&homeostat_core::write_history::WriteRecord| {
            !operators.contains(&write.manager.as_str())
                && write.diff.changes.iter().any(|change| change.path == field)
                && write.before.is_some()
        };
        let write = writes.find(is_rival)?;
        Some(super::actor_of(write))
    })
}
