//! Explanations of made-up evidence, rule by rule: what the first line says.

use std::time::Duration;

use homeostat_core::journal::{
    Cause, Entry, FaultClass, Record, RequestedNext, Verb, WatchState, WriteOutcome,
};
use homeostat_core::write_history::{OperatorJournal, Refusal, SERVER_USER, WriteRecord};
use homeostat_core::{FieldDiff, Key, Revision};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{CauseCode, Evidence, Health, SeenObject, explain, render};

fn now() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().expect("a time")
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn task() -> Key {
    Key::new("demo.dev", "tasks", "a", "t")
}

fn map() -> Key {
    Key::new("", "configmaps", "a", "t")
}

/// Evidence about a Task with this JSON.
fn about_task(value: Value) -> Evidence {
    let subject = SeenObject { key: task(), kind: "Task".to_owned(), value, depth: 0 };
    Evidence { objects: vec![subject], ..Evidence::new(now(), task()) }
}

fn journal(entries: Vec<(i64, Entry)>) -> OperatorJournal {
    let record = |(seconds, entry)| Record { at: ago(seconds), source: "task".into(), entry };
    let records = entries.into_iter().map(record).collect();
    OperatorJournal { operator: "tasks.demo.dev".to_owned(), records, since: None, dropped: 0, started: None }
}

fn started() -> Entry {
    Entry::Started { object: task(), causes: vec![Cause::Edited], failures: 0, waited: Duration::ZERO }
}

fn settled() -> Entry {
    Entry::Settled { object: task(), next: RequestedNext::AwaitChange, took: Duration::ZERO }
}

fn failed(error: &str, failures: u32) -> Entry {
    let fault = FaultClass::Retry { after: Duration::from_secs(30) };
    Entry::Failed { object: task(), error: error.to_owned(), fault, failures, took: Duration::ZERO }
}

fn wrote(value: u64) -> Entry {
    let diff = FieldDiff::between(&map(), &json!({"data": {"x": value}}), &json!({"data": {"x": value + 1}}));
    let outcome = WriteOutcome::Done { revision: Some(Revision::new(value)) };
    Entry::Wrote { object: task(), verb: Verb::Apply, target: map(), outcome, diff }
}

/// A write that the server reports.
fn write(target: &Key, seconds: i64, refusal: Option<Refusal>) -> WriteRecord {
    WriteRecord {
        at: ago(seconds),
        user: "dev".to_owned(),
        agent: "kubectl/v1 (linux)".to_owned(),
        verb: "patch".to_owned(),
        target: target.clone(),
        subresource: String::new(),
        manager: String::new(),
        before: None,
        after: None,
        diff: FieldDiff::default(),
        refusal,
    }
}

/// The first line about a Task of which nothing is known.
const NOTHING_KNOWN: &str = "Task t has no known state: nothing here is known to watch Task objects (no operator \
    announced itself), and its status is empty.";

#[track_caller]
fn check(evidence: &Evidence, code: Option<CauseCode>, first: &str) {
    let explanation = explain(evidence);
    assert_eq!(explanation.causes.first().map(|cause| cause.code), code, "{explanation:#?}");
    assert_eq!(explanation.summary[0], first);
    assert_eq!(render(&explanation).lines().next(), Some(first));
}

#[test]
fn a_failure_is_reported_with_attempt_and_retry_until_a_run_succeeds() {
    let mut evidence = about_task(json!({}));
    let run = vec![(20, started()), (10, failed("create pods/a/x: may not (403)", 3))];
    evidence.journals = vec![journal(run.clone())];
    check(
        &evidence,
        Some(CauseCode::MissingRight),
        "Task t fails in the controller task (10s ago, 11:59:50Z, attempt 3): create pods/a/x: may not (403). \
         It tries again in 20s, 12:00:20Z.",
    );
    evidence.journals = vec![journal([run.clone(), vec![(5, started())]].concat())];
    assert_eq!(explain(&evidence).health, Health::Failing, "another attempt is in progress");
    evidence.journals = vec![journal([run, vec![(5, started()), (4, settled())]].concat())];
    check(
        &evidence,
        None,
        "Task t is healthy: the controller task looked at it 4s ago, 11:59:56Z and found nothing left to do.",
    );
}

#[test]
fn failures_are_classified() {
    let code = |error: &str| {
        let mut evidence = about_task(json!({}));
        evidence.journals = vec![journal(vec![(10, failed(error, 1))])];
        explain(&evidence).causes[0].code
    };
    assert_eq!(code("configmaps/a/t exists and is not ours (nobody): choose"), CauseCode::ConflictingOwner);
    assert_eq!(
        code("apply configmaps/a/t: ConfigMap \"t\" is invalid: data (422)"),
        CauseCode::InvalidObject
    );
    assert_eq!(code("the API outside does not answer: gone"), CauseCode::FailingWorld);
    assert_eq!(code("no answer within 30s"), CauseCode::SlowOutside);
    assert_eq!(code("odd"), CauseCode::Failing);
}

#[test]
fn an_operator_that_cannot_watch_is_reported() {
    let mut evidence = about_task(json!({}));
    let error = "cannot watch demo.dev/tasks: forbidden".to_owned();
    let state = WatchState::Failing { error, retry: Duration::from_secs(5) };
    evidence.journals =
        vec![journal(vec![(0, Entry::Watched { resource: "demo.dev/tasks".to_owned(), state })])];
    check(
        &evidence,
        Some(CauseCode::MissingRight),
        "Task t is not seen by the operator task: cannot watch demo.dev/tasks: forbidden. It tries again in 5s, 12:00:05Z.",
    );
}

#[test]
fn a_run_that_does_not_end_is_reported() {
    let mut evidence = about_task(json!({}));
    evidence.journals = vec![journal(vec![(3, started())])];
    assert_eq!(explain(&evidence).health, Health::Waiting, "three seconds are not too long");
    evidence.journals = vec![journal(vec![(70, started())])];
    check(
        &evidence,
        Some(CauseCode::SlowRun),
        "Task t is being reconciled by the controller task since 1m10s ago, 11:58:50Z, which has not ended yet.",
    );
}

#[test]
fn a_hot_loop_names_the_field_and_the_other_writer() {
    let mut evidence = about_task(json!({}));
    let writes = (1..=30).map(|number| (31 - number, wrote(u64::try_from(number).expect("it is positive"))));
    evidence.journals = vec![journal(writes.collect())];
    let first =
        "Task t is in a hot loop: the controller task wrote Configmap t 30 times within 29 s, mostly data.x";
    let first = first.replace("Configmap", "ConfigMap");
    check(&evidence, Some(CauseCode::HotLoop), &format!("{first}."));
    let diff = FieldDiff::between(&map(), &json!({"data": {"x": 1}}), &json!({"data": {"x": 0}}));
    evidence.writes = vec![WriteRecord { before: Some(Revision::new(900)), diff, ..write(&map(), 2, None) }];
    check(
        &evidence,
        Some(CauseCode::HotLoop),
        &format!("{first}; kubectl (user dev) writes the same field."),
    );
}

#[test]
fn a_stuck_finalizer_names_who_should_remove_it() {
    let held = |finalizer: &str| {
        about_task(
            json!({"metadata": {"deletionTimestamp": "2026-11-17T11:59:00Z", "finalizers": [finalizer]}}),
        )
    };
    let start = "Task t is being deleted (1m ago, 11:59:00Z) and waits for the finalizer";
    let code = Some(CauseCode::StuckFinalizer);
    let unknown = "which x.dev should remove; no operator of that name is known to be running here";
    check(&held("x.dev/f"), code, &format!("{start} x.dev/f, {unknown}."));
    let mut evidence = held("tasks.demo.dev/f");
    evidence.journals = vec![journal(vec![])];
    check(
        &evidence,
        code,
        &format!("{start} tasks.demo.dev/f, which the operator tasks.demo.dev should remove."),
    );
    evidence.journals = vec![journal(vec![(10, failed("the backup failed", 1))])];
    let text = explain(&evidence).summary[0].clone();
    assert!(
        text.starts_with(start) && text.contains("the backup failed") && text.contains("It tries again"),
        "{text}"
    );
}

#[test]
fn a_lapsed_lease_counts_only_for_the_operator_of_the_object() {
    let lease = |renewed: &str| json!({"metadata": {"name": "tasks.demo.dev"}, "spec": {"leaseDurationSeconds": 15, "renewTime": renewed}});
    let mut evidence = about_task(json!({"metadata": {"managedFields": [{"manager": "tasks.demo.dev"}]}}));
    evidence.leases = vec![lease("2026-11-17T11:58:45Z")];
    check(
        &evidence,
        Some(CauseCode::LapsedLease),
        "Task t has nobody who acts on it: the lease of the operator tasks.demo.dev lapsed 1m ago, 11:59:00Z.",
    );
    evidence.leases = vec![lease("2026-11-17T11:59:50Z")];
    check(&evidence, None, NOTHING_KNOWN);
    evidence.leases = vec![lease("2026-11-17T11:58:45Z")];
    evidence.objects[0].value = json!({"metadata": {"managedFields": [{"manager": "other"}]}});
    check(&evidence, None, NOTHING_KNOWN);
}

#[test]
fn a_refused_write_counts_until_the_next_one() {
    let mut evidence = about_task(json!({}));
    let refusal = Refusal { code: 403, message: "no".to_owned() };
    evidence.writes = vec![write(&task(), 9, None), write(&task(), 5, Some(refusal.clone()))];
    let first = "Task t was to be changed by kubectl (user dev) (5s ago, 11:59:55Z), and the server refused it (403): no.";
    check(&evidence, Some(CauseCode::MissingRight), first);
    evidence.writes = vec![write(&task(), 5, Some(refusal)), write(&task(), 3, None)];
    check(&evidence, None, NOTHING_KNOWN);
}

/// The object does not exist, so the refusal is the only evidence.
#[test]
fn a_refused_creation_is_reported() {
    let mut evidence = about_task(json!({}));
    evidence.objects.clear();
    let message =
        "pods \"t\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1";
    let refusal = Some(Refusal { code: 403, message: message.to_owned() });
    evidence.writes = vec![WriteRecord { verb: "create".to_owned(), ..write(&task(), 5, refusal) }];
    check(
        &evidence,
        Some(CauseCode::QuotaExceeded),
        &format!(
            "Task t does not exist: it was to be created by kubectl (user dev) (5s ago, 11:59:55Z), and the server \
             refused it (403): {message}."
        ),
    );
    assert_eq!(explain(&evidence).health, Health::Absent);
}

#[test]
fn the_failing_leaf_comes_before_the_conditions_of_its_owners() {
    let pod = Key::new("", "pods", "a", "t-1");
    let owner = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "0 of 1"}]},
        "metadata": {"uid": "1"}});
    let mut evidence = about_task(owner);
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}});
    let ended = json!({"terminated": {"exitCode": 7, "finishedAt": "2026-11-17T11:59:50Z"}});
    evidence.objects.push(SeenObject {
        key: pod,
        kind: "Pod".to_owned(),
        value: json!({"metadata": {"uid": "2", "ownerReferences": [{"uid": "1"}]}, "status": {"containerStatuses": [
            {"name": "main", "restartCount": 4, "ready": false, "state": waiting, "lastState": ended}]}}),
        depth: 1,
    });
    check(
        &evidence,
        Some(CauseCode::CrashLoop),
        "Task t → Pod t-1 is in a crash loop: container main has restarted 4 times, last exit code 7 (10s ago, \
         11:59:50Z). Back-off 20s.",
    );
    assert_eq!(explain(&evidence).causes[1].code, CauseCode::Condition);
}

#[test]
fn a_write_with_two_reports_appears_once_and_failures_are_counted() {
    let mut evidence = about_task(json!({}));
    let fails = (1..=5).flat_map(|number| {
        let seconds = 20 - i64::from(number);
        let outcome = WriteOutcome::Failed { error: "boom".to_owned() };
        let (object, target, diff) = (task(), map(), FieldDiff::default());
        let write = Entry::Wrote { object, verb: Verb::Apply, target, outcome, diff };
        let again = Entry::Started {
            object: task(),
            causes: vec![Cause::Retried],
            failures: 1,
            waited: Duration::ZERO,
        };
        [(seconds, again), (seconds, write), (seconds, failed("boom", number))]
    });
    let mut entries = vec![(40, wrote(7))];
    entries.extend(fails);
    evidence.journals = vec![journal(entries)];
    evidence.writes = vec![WriteRecord { after: Some(Revision::new(7)), ..write(&map(), 40, None) }];
    let steps = explain(&evidence).timeline;
    let told: Vec<String> = steps.iter().map(|step| format!("{}× {}", step.times, step.text)).collect();
    assert_eq!(told.iter().filter(|text| text.contains("boom")).count(), 1, "{told:#?}");
    assert_eq!(told[0], "1× applied ConfigMap t for Task t");
    assert_eq!(told.len(), 2, "the server's record of the same write is left out: {told:#?}");
    assert!(told.contains(&"5× could not write ConfigMap t for Task t: boom".to_owned()), "{told:#?}");
}

#[test]
fn a_missing_object_names_who_deleted_it() {
    let mut evidence = about_task(json!({}));
    evidence.objects.clear();
    check(&evidence, None, "Task t in a does not exist.");
    let deletion = |seconds, user: &str, agent: &str| WriteRecord {
        verb: "delete".to_owned(),
        user: user.to_owned(),
        agent: agent.to_owned(),
        ..write(&task(), seconds, None)
    };
    evidence.writes = vec![deletion(60, "dev", "kubectl/v1")];
    check(&evidence, None, "Task t in a does not exist: kubectl (user dev) deleted it (1m ago, 11:59:00Z).");
    evidence.writes.push(deletion(5, SERVER_USER, "garbage collector"));
    check(
        &evidence,
        None,
        "Task t in a does not exist: the server's garbage collector deleted it (5s ago, 11:59:55Z).",
    );
    evidence.is_readable = false;
    evidence.writes.clear();
    check(&evidence, None, "You may not read Task t in a.");
}

/// The pods `t-0`, `t-1`, … below the Task, each with two containers in a crash loop.
fn with_crashing_pods(evidence: &mut Evidence, count: usize) {
    let container = |name: &str| {
        json!({"name": name, "restartCount": 4, "ready": false,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s."}}})
    };
    for number in 0..count {
        let name = format!("t-{number}");
        evidence.objects.push(SeenObject {
            key: Key::new("", "pods", "a", &name),
            kind: "Pod".to_owned(),
            value: json!({"metadata": {"uid": name, "ownerReferences": [{"uid": "1"}]},
                "status": {"containerStatuses": [container("main"), container("side")]}}),
            depth: 1,
        });
    }
}

#[test]
fn the_number_of_others_counts_objects_and_sentences_end_once() {
    let first = |count: usize| {
        let mut evidence = about_task(json!({"metadata": {"uid": "1"}}));
        with_crashing_pods(&mut evidence, count);
        explain(&evidence).summary[0].clone()
    };
    let start = "Task t → Pod t-0 is in a crash loop: container main has restarted 4 times. Back-off 20s.";
    assert_eq!(first(1), start);
    assert_eq!(first(2), format!("{start} The same holds for 1 more Pod."));
    assert_eq!(first(4), format!("{start} The same holds for 3 more Pods."));
}

#[test]
fn the_last_change_includes_metadata_and_deletions_but_not_controllers() {
    let mut evidence = about_task(json!({"metadata": {"deletionTimestamp": "2026-11-17T11:59:59Z"}}));
    let change = |seconds, path: [&str; 2], verb: &str| WriteRecord {
        before: Some(Revision::new(1)),
        verb: verb.to_owned(),
        diff: FieldDiff::of_field(&task(), &path, None, Some(&json!("x"))),
        ..write(&task(), seconds, None)
    };
    let last = |evidence: &Evidence| explain(evidence).summary.get(1).cloned().unwrap_or_default();
    evidence.writes = vec![change(30, ["spec", "size"], "patch"), change(20, ["status", "size"], "patch")];
    assert_eq!(
        last(&evidence),
        "Last change: kubectl (user dev) patched Task t (30s ago, 11:59:30Z): spec.size = \"x\"."
    );
    evidence.writes.push(change(15, ["metadata", "labels"], "patch"));
    assert_eq!(
        last(&evidence),
        "Last change: kubectl (user dev) patched Task t (15s ago, 11:59:45Z): metadata.labels = \"x\"."
    );
    let server =
        WriteRecord { user: SERVER_USER.to_owned(), ..change(12, ["metadata", "finalizers"], "patch") };
    evidence.writes.push(server);
    assert!(last(&evidence).contains("15s ago"), "metadata written by the server is not a user's change");
    evidence.writes.push(change(1, ["metadata", "deletionTimestamp"], "delete"));
    assert_eq!(last(&evidence), "Last change: kubectl (user dev) deleted Task t (1s ago, 11:59:59Z).");
}

#[test]
fn the_text_is_short() {
    let mut evidence = about_task(json!({"metadata": {"uid": "1"}, "status": {"conditions": [
        {"type": "Ready", "status": "False", "message": "0 of 9"}]}}));
    with_crashing_pods(&mut evidence, 9);
    for number in 0..40 {
        let message =
            format!("{} {}", "y".repeat(usize::try_from(number).expect("it is positive")), "x".repeat(2000));
        evidence.writes.push(write(&task(), 100 - number, Some(Refusal { code: 500, message })));
    }
    evidence.gaps = vec!["the server has dropped 3 writes before 2026-11-17T11:00:00Z".to_owned()];
    let text = render(&explain(&evidence));
    assert!(
        text.contains("Not seen:\n  The server has dropped 3 writes before 2026-11-17T11:00:00Z.\n"),
        "{text}"
    );
    assert!(text.lines().count() < 40, "{text}");
    assert!(text.lines().skip(1).all(|line| line.chars().count() < 400), "{text}");
    assert!(text.contains("steps of less weight are left out; --json has all"), "{text}");
    assert!(!text.contains("0 of 9"), "a consequence is not shown beside its cause: {text}");
}
