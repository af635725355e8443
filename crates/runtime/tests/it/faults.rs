//! Tests the classes of errors (transient, permanent and unknown) and panics, which affect only their object.

use std::time::Duration;

use homeostat::testing::{InjectedFault, RequestVerb};
use homeostat_core::journal::{Entry, FaultClass};
use homeostat_runtime::{Action, Fault, retry_after, terminal};
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget, conditions, entries};

#[derive(Debug)]
enum DatabaseError {
    Busy,
    Misspelt,
    Odd,
}

impl std::fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "database: {self:?}")
    }
}

impl std::error::Error for DatabaseError {}

fn classify(error: DatabaseError) -> Fault {
    match error {
        DatabaseError::Busy => retry_after(Duration::from_secs(10), error),
        DatabaseError::Misspelt => terminal(error),
        DatabaseError::Odd => error.into(),
    }
}

fn class(entry: Entry) -> Option<FaultClass> {
    match entry {
        Entry::Failed { fault, .. } => Some(fault),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn transient_permanent_unknown() {
    let mut lab = TestCluster::new().await;
    let running = lab
        .run_with(|widget, _| async move {
            Err(match widget.metadata.name.as_deref() {
                Some("busy") => classify(DatabaseError::Busy),
                Some("misspelt") => classify(DatabaseError::Misspelt),
                _ => classify(DatabaseError::Odd),
            })
        })
        .await;
    for name in ["busy", "misspelt", "odd"] {
        lab.widget(name).await;
    }
    lab.pass(21).await;
    let ten = FaultClass::Retry { after: Duration::from_secs(10) };
    assert_eq!(entries(&running, "busy", class), [ten, ten, ten]);
    assert_eq!(entries(&running, "misspelt", class), [FaultClass::Terminal]);
    assert_eq!(entries(&running, "odd", class).len(), 5, "0 s, 1 s, 3 s, 7 s, 15 s");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_shows_in_the_status_until_an_edit_cures_it() {
    let mut lab = TestCluster::new().await;
    lab.run_with(|widget, _| async move {
        if widget.spec.size < 0 { Err(terminal("size is negative")) } else { Ok(Action::await_change()) }
    })
    .await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": -1}})).await;
    let told = |widget: Widget| {
        let all = widget.status.map(|status| status.base.conditions).unwrap_or_default();
        all.into_iter().map(|one| (one.type_, one.status, one.message)).collect::<Vec<_>>()
    };
    let bad = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(told(bad), [("Reconciled".into(), "False".into(), "size is negative".into())]);
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    let good = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(told(good), [("Reconciled".into(), "True".into(), String::new())]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_error_of_its_object() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let running = lab
        .run_with(move |widget, _| {
            let name = widget.metadata.name.clone().unwrap_or_default();
            assert!(widget.spec.size != 13, "thirteen");
            log.say(name);
            async { Ok(Action::await_change()) }
        })
        .await;
    lab.widget("good").await;
    lab.widget("bad").await;
    lab.log.take();
    lab.patch::<Widget>("bad", json!({"spec": {"size": 13}})).await;
    lab.patch::<Widget>("good", json!({"spec": {"size": 2}})).await;
    assert_eq!(lab.log.take(), ["good"]);
    assert!(matches!(entries(&running, "bad", class)[..], [FaultClass::Panic { .. }]));
    assert_eq!(running.metric("controller_runtime_reconcile_panics_total{controller=\"widget\"}").await, 1);
    let bad = lab.api::<Widget>().get("bad").await.unwrap();
    assert_eq!(conditions(bad), [["Reconciled", "False", "Panicked"]]);
    assert!(lab.has_logged("the reconciler panicked: thirteen"));
    lab.patch::<Widget>("bad", json!({"spec": {"size": 14}})).await;
    assert_eq!(lab.log.take()[0], "bad", "it heals without a restart");
    let good = lab.api::<Widget>().get("bad").await.unwrap();
    assert_eq!(conditions(good), [["Reconciled", "True", "Succeeded"]]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_reconciler_that_writes_does_not_run_in_circles() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    lab.run_with(move |_, cx| {
        log.say("run");
        async move {
            let now = cx.now().to_string();
            cx.condition(homeostat_runtime::condition("Ready", false, "Failing", now));
            Err("broken")?
        }
    })
    .await;
    lab.widget("w").await;
    lab.pass(60).await;
    let runs = lab.log.take().len();
    assert!(runs <= 7, "{runs} runs in a minute: its own status writes spent the backoff");
}

/// A terminal fault is reported in the status. If that write fails, it is repeated, because nothing else would ever
/// report the fault.
#[tokio::test(start_paused = true)]
async fn a_report_of_a_terminal_fault_is_made_again_until_it_is_written() {
    let mut lab = TestCluster::new().await;
    lab.run_with(|_, _| async { Err(classify(DatabaseError::Misspelt)) }).await;
    lab.faults.fail_next::<Widget>(RequestVerb::Patch, 2, InjectedFault::Refuse(500, "etcd is down"));
    lab.widget("misspelt").await;
    lab.pass(60).await;
    assert_eq!(lab.faults.pending(), 0);
    assert_eq!(conditions(lab.get("misspelt").await), [["Reconciled", "False", "TerminalError"]]);
}
