//! Why an object was reconciled and what came of it: its records in the journal, as text for people or as JSON.

use homeostat_core::Key;
use homeostat_core::journal::{Cause, Change, Entry, FaultClass, HandlerOutcome, Next, WriteOutcome};
use http::StatusCode;

use super::{AdminPage, PageFormat};
use crate::journal::{Journal, KEPT_OBJECTS, KEPT_PER_OBJECT, Reach};

/// Returns the page about one object. `kind` may be the plural or the kind, with the group behind a dot where it
/// matters; `-` or `_` stands for no namespace.
pub(super) fn page(
    journal: &Journal,
    kind: &str,
    namespace: &str,
    name: &str,
    format: PageFormat,
) -> AdminPage {
    let namespace = if matches!(namespace, "-" | "_") { "" } else { namespace };
    let is_meant = |key: &Key| key.name() == name && key.namespace() == namespace && is_same_kind(key, kind);
    let records = journal.about_any(is_meant);
    let reach = journal.reach();
    if records.is_empty() {
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let text = format!("nothing is known about {kind} {place}{name}{}\n", explain_unknown(reach));
        return AdminPage::text(StatusCode::NOT_FOUND, text);
    }
    if format == PageFormat::Json {
        let text = serde_json::to_string(&records).unwrap_or_default();
        return AdminPage { code: StatusCode::OK, content_type: "application/json", text };
    }
    let width = records.iter().map(|record| record.source.as_str().len()).max().unwrap_or_default();
    // Always with milliseconds, so that the columns line up.
    let lines = records.iter().map(|record| {
        format!("{:.3} {:<width$} {}\n", record.at, record.source.as_str(), describe_entry(&record.entry))
    });
    let lines: String = lines.collect();
    AdminPage::text(StatusCode::OK, describe_gaps(reach) + &lines)
}

/// Returns what the page of an object may lack.
fn describe_gaps(reach: Reach) -> String {
    match reach {
        Reach { since: Some(since), dropped: 1.. } => format!(
            "before {since:.3} only its last changes and failures are known, at most {KEPT_PER_OBJECT} of each\n"
        ),
        _ => String::new(),
    }
}

/// Explains why an object may be unknown.
fn explain_unknown(reach: Reach) -> String {
    match reach {
        Reach { since: Some(since), dropped: dropped @ 1.. } => format!(
            " since {since:.3}: nothing happened to it, or it is another operator's. Of the {dropped} records before, \
             the last failures of {KEPT_OBJECTS} objects and the last changes of as many are kept, and it is not \
             among them"
        ),
        Reach { since: Some(since), .. } => format!(
            ": nothing happened to it since the operator started ({since:.3}), or it is another operator's"
        ),
        Reach { since: None, .. } => ": nothing has happened yet".to_owned(),
    }
}

/// Returns whether two names mean the same kind: `configmaps`, `configmap` and `ConfigMap` do, and so do `deployments`
/// and `Deployment.apps`.
fn is_same_kind(key: &Key, asked: &str) -> bool {
    let asked = asked.to_lowercase();
    let (asked, group) =
        asked.split_once('.').map_or((asked.as_str(), None), |(kind, group)| (kind, Some(group)));
    let resource = key.resource();
    if group.is_some_and(|group| group != key.group()) {
        return false;
    }
    resource == asked || resource == format!("{asked}s") || resource == format!("{asked}es") || {
        asked.strip_suffix('y').is_some_and(|stem| resource == format!("{stem}ies"))
    }
}

/// Describes one entry.
fn describe_entry(entry: &Entry) -> String {
    match entry {
        Entry::Observed { revision, change, .. } => {
            format!("observed     {change:?} at {revision}").to_lowercase()
        }
        Entry::Quarantined { error, .. } => format!("quarantined  {error}"),
        Entry::Panicked { function, message, .. } => {
            format!("panicked     {function} of the operator: {message}")
        }
        Entry::Queued { cause, .. } => format!("queued       {}", cause_words(cause)),
        Entry::Started { causes, failures, waited, .. } => {
            let causes: Vec<String> = causes.iter().map(cause_words).collect();
            format!("started      after {waited:.1?}, failures {failures}, because {}", causes.join("; "))
        }
        Entry::Read { read, revision, .. } => match revision {
            Some(revision) => format!("read         {read} at {revision}"),
            None => format!("read         {read}: there is none"),
        },
        Entry::Wrote { verb, target, outcome, .. } => {
            let outcome = match outcome {
                WriteOutcome::Skipped => "nothing to change".to_owned(),
                WriteOutcome::Done { revision: Some(revision) } => format!("now {revision}"),
                WriteOutcome::Done { revision: None } => "done".to_owned(),
                WriteOutcome::Fenced => "not sent: the lease is lost".to_owned(),
                WriteOutcome::Failed { error } => format!("failed: {error}"),
            };
            format!("wrote        {} {target}: {outcome}", format!("{verb:?}").to_lowercase())
        }
        Entry::Drifted { target, diff, .. } => {
            format!("drifted      {} at {}", target, diff.join(" "))
        }
        Entry::Handled { handler, outcome, took, .. } => {
            let outcome = match outcome {
                HandlerOutcome::Done => "done".to_owned(),
                HandlerOutcome::Retry { after, error } => format!("again in {after:.1?}: {error}"),
                HandlerOutcome::GaveUp { error } => format!("gave up until it is edited: {error}"),
            };
            format!("handled      {handler} in {took:.1?}: {outcome}")
        }
        Entry::Failed { error, fault, failures, took, .. } => {
            let next = match fault {
                FaultClass::Retry { after } => format!("retry in {after:.1?}"),
                FaultClass::Panic { after } => format!("panicked, retry in {after:.1?}"),
                FaultClass::Terminal => "no retry until it is edited".to_owned(),
            };
            format!("failed       after {took:.1?}, {failures} in a row, {next}: {error}")
        }
        Entry::Settled { next, took, .. } => {
            let next = match next {
                Next::AwaitChange => "waits for a change".to_owned(),
                Next::Requeue { after } => format!("again in {after:.1?}"),
                Next::Gone => "it is gone".to_owned(),
            };
            format!("settled      after {took:.1?}, {next}")
        }
        Entry::Cancelled { took, .. } => {
            format!("cancelled    after {took:.1?}: the right to act was lost, or the operator stopped")
        }
        Entry::Watched { resource, .. } => format!("watched      {resource}"),
        Entry::Surveyed { world, things, owned, suspects, leaks, deleted, withheld } => {
            let withheld = withheld.as_ref().map(|why| format!(", none deleted: {why}")).unwrap_or_default();
            format!(
                "surveyed     {world}: {things} things, {owned} ours, {suspects} to look at, {leaks} leaks, \
                 {deleted} deleted{withheld}"
            )
        }
        Entry::Led { lease, is_leader } => format!("led          {lease} {is_leader}"),
    }
}

fn describe_related(whose: &str, other: &Key, change: Change) -> String {
    format!("{whose} {} was {}", other, format!("{change:?}").to_lowercase())
}

fn cause_words(cause: &Cause) -> String {
    match cause {
        Cause::Listed => "it was there at start".to_owned(),
        Cause::Created => "it was created".to_owned(),
        Cause::Edited => "it was edited".to_owned(),
        Cause::Changed => "it changed".to_owned(),
        Cause::Deleted => "it was deleted".to_owned(),
        Cause::Owned { child, change } => describe_related("its", child, *change),
        Cause::Related { other, change } => describe_related("the related", other, *change),
        Cause::Referenced { other, change } => describe_related("the referenced", other, *change),
        Cause::Outside { source } => format!("{source} asked"),
        Cause::Requeued => "it asked to be called again".to_owned(),
        Cause::Retried => "its backoff is over".to_owned(),
        Cause::Resync => "its periodic pass is due".to_owned(),
        Cause::Interrupted => "its last run was cut off".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Clock, Revision};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn columns_stand_under_each_other_and_no_segment_is_empty() {
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).expect("a time"));
        let journal = Journal::new(clock);
        let object = Key::new("", "nodes", "", "n");
        let child = Key::new("", "pods", "a", "p");
        let cause = Cause::Owned { child: child.clone(), change: Change::Added };
        journal.record(&"node".into(), Entry::Queued { object: object.clone(), cause });
        let read = Entry::Read { object, read: child, revision: Some(Revision::new(7)) };
        journal.record(&"a-longer-name-of-a-controller".into(), read);
        let text = page(&journal, "Node", "-", "n", PageFormat::Text).text;
        assert_eq!(
            text,
            "2027-01-15T08:00:00.000Z node                          queued       its pods/a/p was added\n\
             2027-01-15T08:00:00.000Z a-longer-name-of-a-controller read         pods/a/p at 7\n"
        );
        assert_eq!(
            page(&journal, "Node", "-", "x", PageFormat::Text).text,
            "nothing is known about Node x: nothing happened to it since the operator started \
             (2027-01-15T08:00:00.000Z), or it is another operator's\n"
        );
    }

    #[test]
    fn a_kind_may_be_written_as_people_write_it() {
        let check = |key: &Key, asked: &str, expected: bool| {
            assert_eq!(is_same_kind(key, asked), expected, "{asked}");
        };
        let policy = Key::new("demo.dev", "policies", "a", "p");
        for asked in ["policies", "Policy", "policy", "policies.demo.dev", "Policy.demo.dev"] {
            check(&policy, asked, true);
        }
        for asked in ["polic", "pods", "policies.other.dev", "policies.demo", "policies."] {
            check(&policy, asked, false);
        }
        check(&Key::new("", "pods", "a", "p"), "Pod.", true);
        check(&Key::new("networking.k8s.io", "ingresses", "a", "i"), "Ingress", true);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_dropped_is_said() {
        let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).expect("a time"));
        let journal = Journal::new(clock);
        let sick = Key::new("", "pods", "a", "sick");
        let error = "odd".to_owned();
        journal.record(&"pod".into(), Entry::Quarantined { object: sick, error });
        let crowd = || Entry::Queued { object: Key::new("", "pods", "a", "p"), cause: Cause::Created };
        for _ in 0..20_000 {
            journal.record(&"pod".into(), crowd());
        }
        let since = "2027-01-15T08:00:00.000Z";
        assert_eq!(
            page(&journal, "pods", "a", "sick", PageFormat::Text).text,
            format!(
                "before {since} only its last changes and failures are known, at most 4 of each\n{since} pod quarantined  odd\n"
            )
        );
        let unknown = page(&journal, "pods", "a", "other", PageFormat::Text).text;
        assert!(
            unknown.starts_with(&format!("nothing is known about pods a/other since {since}: ")),
            "{unknown}"
        );
        assert!(unknown.contains("the 3617 records before"), "{unknown}");
    }
}
