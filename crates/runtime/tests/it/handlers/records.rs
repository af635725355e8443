//! Tests where progress is stored (in an annotation, compressed if it is long, and in a Secret beyond the annotation's
//! limit) and how others can interfere with it.

use homeostat::testing::InjectedFault;
use homeostat_core::Entropy;
use homeostat_core::journal::Entry;
use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::options::HandlerDeclared;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::{Gadget, GadgetSpec, gadget, get, kill, lab, run, says, says_changes};
use crate::test_cluster::{Log, TestCluster};

const ANNOTATION: &str = "widgets.test.dev/gadget.handled";

fn handlers(log: &Log) -> Handlers<Gadget, HandlerDeclared> {
    Handlers::<Gadget>::new()
        .on_create("create", says(log, "create"))
        .on_update("update", says_changes(log, "update"))
}

async fn annotation(lab: &TestCluster, name: &str) -> String {
    get(lab, name).await.unwrap().annotations()[ANNOTATION].clone()
}

#[tokio::test(start_paused = true)]
async fn short_readable_long_compressed_longest_in_a_secret() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, handlers(&log)).await;
    let text = |bytes| Entropy::seeded(1).suffix(bytes);
    let sized =
        |name: &str, bytes| Gadget::new(name, GadgetSpec { text: text(bytes), ..GadgetSpec::default() });
    for (name, bytes, start) in [("a", 10, "{"), ("b", 1_000, "deflate:"), ("c", 100_000, "aside:")] {
        let made = lab.create(&sized(name, bytes)).await;
        assert!(annotation(&lab, name).await.starts_with(start), "{name}");
        let secrets = lab.names::<Secret>().await;
        assert_eq!(secrets.len(), usize::from(name == "c"), "{name}");
        if let Some(secret) = secrets.first() {
            let owners = lab.api::<Secret>().get(secret).await.unwrap().metadata.owner_references.unwrap();
            assert_eq!(Some(&owners[0].uid), made.metadata.uid.as_ref(), "it goes with the object");
        }
    }
    assert_eq!(log.take(), ["create", "create", "create"]);
    kill(&lab, &running).await;
    lab.patch::<Gadget>("c", json!({"spec": {"size": 7}})).await;
    run(&mut lab, handlers(&log)).await;
    assert_eq!(log.take(), ["update spec.size: 0 -> 7"], "found in the Secret");
    lab.patch::<Gadget>("c", json!({"spec": {"size": 8}})).await;
    assert_eq!(log.take(), ["update spec.size: 7 -> 8"]);
    let version = lab.version::<Gadget>("c").await;
    lab.pass(36_000).await;
    assert_eq!(lab.version::<Gadget>("c").await, version);
}

/// An object with two handlers, whose record cannot be written.
async fn unwritable() -> (TestCluster, Log) {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, handlers(&log).on_create("second", says(&log, "second"))).await;
    lab.faults.set(|request| {
        (request.method() == http::Method::PATCH).then_some(InjectedFault::Refuse(500, "later"))
    });
    gadget(&lab, "g", 1).await;
    (lab, log)
}

#[tokio::test(start_paused = true)]
async fn while_it_cannot_be_written_nothing_is_repeated() {
    let (lab, log) = unwritable().await;
    lab.pass(100).await;
    assert_eq!(log.take(), ["create"], "and nothing is called before it is written");
    lab.faults.clear();
    lab.pass(300).await;
    assert_eq!(log.take(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn what_another_process_wrote_meanwhile_is_newer() {
    let (lab, log) = unwritable().await;
    assert_eq!(log.take(), ["create"]);
    let record = json!({"marks": {"create": {"seen": "once"}, "second": {"seen": "once"}}}).to_string();
    lab.patch::<Gadget>("g", json!({"metadata": {"annotations": {ANNOTATION: record}}})).await;
    lab.faults.clear();
    lab.pass(300).await;
    assert_eq!(
        log.take(),
        ["update spec: nothing -> {\"size\":1}"],
        "the other did not have it in its program"
    );
}

#[tokio::test(start_paused = true)]
async fn without_its_record_an_object_is_handled_anew() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, handlers(&log)).await;
    gadget(&lab, "g", 1).await;
    log.take();
    lab.patch::<Gadget>("g", json!({"metadata": {"annotations": {ANNOTATION: null}}})).await;
    assert_eq!(log.take(), ["create"]);
    lab.patch::<Gadget>("g", json!({"metadata": {"annotations": {ANNOTATION: "rubbish"}}})).await;
    lab.pass(1000).await;
    assert!(log.take().is_empty(), "an unreadable one is a person's business");
    let failures = running.journal.records().into_iter().filter_map(|record| match record.entry {
        Entry::Failed { error, .. } => Some(error),
        _ => None,
    });
    let told = format!("the annotation {ANNOTATION} cannot be read");
    assert!(failures.last().is_some_and(|error| error.contains(&told)), "the journal says what to do");
    assert!(lab.has_logged(&told), "and so does the log");
    let events = lab.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let shown = events.iter().find(|event| event.reason.as_deref() == Some("RecordUnreadable"));
    let message = shown.and_then(|event| event.message.as_deref()).expect("and it is told to the person");
    assert!(message.contains("remove it to have the object handled from the beginning"), "{message}");
    lab.patch::<Gadget>("g", json!({"metadata": {"annotations": {ANNOTATION: null}}})).await;
    assert_eq!(log.take(), ["create"], "which helps");
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_record_is_spoilt_can_be_deleted() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    run(&mut lab, handlers(&log).on_delete("delete", says(&log, "delete"))).await;
    gadget(&lab, "g", 1).await;
    lab.patch::<Gadget>("g", json!({"metadata": {"annotations": {ANNOTATION: "rubbish"}}})).await;
    log.take();
    lab.delete::<Gadget>("g").await;
    lab.pass(60).await;
    assert_eq!(log.take(), ["delete"]);
    assert!(get(&lab, "g").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_record_refused_by_a_conflict_is_not_taken_for_written() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let first = run(&mut lab, handlers(&log)).await;
    lab.faults.set(|request| {
        (request.method() == http::Method::PATCH)
            .then_some(InjectedFault::Refuse(409, "the object was modified"))
    });
    gadget(&lab, "g", 1).await;
    lab.pass(10).await;
    lab.faults.clear();
    lab.pass(300).await;
    assert_eq!(log.take(), ["create"]);
    kill(&lab, &first).await;
    run(&mut lab, handlers(&log)).await;
    lab.pass(300).await;
    assert_eq!(log.take(), [""; 0], "what was done is on record");
}

#[tokio::test(start_paused = true)]
async fn two_programs_do_not_take_each_others_records_for_edits() {
    let mut lab = lab().await;
    let (one, two) = (Log::default(), Log::default());
    lab.run(|operator| operator.control(handlers(&one)));
    let other = homeostat_runtime::Controller::<Gadget>::new().named("other").handlers(handlers(&two));
    lab.run(|operator| operator.control(other));
    gadget(&lab, "g", 1).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    lab.pass(100).await;
    assert_eq!(one.take(), ["create", "update spec.size: 1 -> 2"]);
    assert_eq!(two.take(), ["create", "update spec.size: 1 -> 2"]);
}
