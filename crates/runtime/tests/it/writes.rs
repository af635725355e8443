//! Tests writing through the context (apply, prune, status, events), and that nothing is written at rest.

use std::sync::Arc;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use homeostat_runtime::{Action, Context, Result, Severity, condition};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::reference::{NO_COLLECTOR, must_skip};
use crate::test_cluster::{Running, TestCluster, Widget, WidgetSpec, conditions, config, entries};

/// Applies as many ConfigMaps as the widget's size, a status and an event.
async fn reconcile(widget: Arc<Widget>, cx: Context<Widget>) -> Result<Action> {
    let name = widget.metadata.name.as_deref().unwrap_or_default();
    let mut maps = Vec::new();
    for number in 0..widget.spec.size {
        let mut map = config(&format!("{name}-{number}"), &[]);
        map.metadata.namespace = None;
        map.data = Some([("number".to_owned(), number.to_string())].into());
        maps.push(cx.apply(map).await?);
    }
    cx.prune(&maps).await?;
    let owned = cx.owned::<ConfigMap>()?.len();
    cx.status(|status| status.seen = i64::try_from(owned).unwrap_or_default());
    cx.condition(condition("Ready", true, "Up", format!("{owned} maps")));
    cx.event(Severity::Normal, "Reconciled", "all maps are there");
    Ok(Action::await_change())
}

fn sent(running: &Running, name: &str) -> Vec<Verb> {
    entries(running, name, |entry| match entry {
        Entry::Wrote { verb, outcome: WriteOutcome::Done { .. }, .. } => Some(verb),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn children_follow_the_spec_and_rest_is_quiet() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_with(reconcile).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 3}})).await;
    lab.pass(1).await;
    assert_eq!(lab.names::<ConfigMap>().await.into_iter().filter(|name| name.starts_with("w-")).count(), 3);
    let widget = lab.api::<Widget>().get("w").await.unwrap();
    let status = widget.status.expect("a status");
    assert_eq!(
        (status.seen, status.base.observed_generation),
        (3, Some(2)),
        "own creations are seen at once"
    );
    assert_eq!(status.base.conditions[0].message, "3 maps");
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    lab.pass(1).await;
    assert_eq!(lab.names::<ConfigMap>().await.into_iter().filter(|name| name.starts_with("w-")).count(), 1);
    let written = sent(&running, "w").len();
    lab.patch::<Widget>("w", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    lab.pass(1).await;
    assert_eq!(sent(&running, "w").len(), written, "nothing is written when nothing changed");
}

/// Returns the changes made by each write that was sent for the object with this name.
fn diffs(running: &Running, name: &str) -> Vec<String> {
    entries(running, name, |entry| match entry {
        Entry::Wrote { verb, outcome: WriteOutcome::Done { .. }, diff, .. } => {
            Some(format!("{verb:?} {diff}"))
        }
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn the_journal_says_what_each_write_changed() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_with(reconcile).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    lab.pass(1).await;
    let before = diffs(&running, "w").len();
    lab.patch::<ConfigMap>("w-0", json!({"data": {"number": "seven", "extra": "theirs"}})).await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 2}})).await;
    lab.pass(1).await;
    let after = diffs(&running, "w").split_off(before);
    assert_eq!(after[0], "Apply data.number \"seven\" → \"0\"", "a repair: {after:?}");
    assert!(after.contains(&"Apply ".to_owned()), "a new object has no diff: {after:?}");
    let status = after.iter().find(|diff| diff.starts_with("Status")).expect("its status is written");
    assert!(status.contains("status.seen 1 → 2"), "{status}");
    assert!(status.contains("status.conditions[Ready].message \"1 maps\" → \"2 maps\""), "{status}");
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_and_noted() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_with(reconcile).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    lab.patch::<ConfigMap>("w-0", json!({"data": {"number": "seven", "extra": "theirs"}})).await;
    lab.pass(1).await;
    let map = lab.api::<ConfigMap>().get("w-0").await.unwrap();
    let data = map.data.unwrap();
    assert_eq!((data["number"].as_str(), data["extra"].as_str()), ("0", "theirs"), "only our field is ours");
    let drifts = entries(&running, "w", |entry| match entry {
        Entry::Drifted { diff, .. } => Some(diff),
        _ => None,
    });
    assert_eq!(drifts, [["/data/number"]]);
    assert_eq!(running.metric("homeostat_drift_total{controller=\"widget\"}").await, 1);
    lab.delete::<ConfigMap>("w-0").await;
    lab.pass(1).await;
    assert!(lab.names::<ConfigMap>().await.contains(&"w-0".to_owned()), "a deleted child comes back");
}

#[tokio::test(start_paused = true)]
async fn children_go_with_their_owner() {
    let mut lab = TestCluster::new().await;
    lab.run_with(reconcile).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 2}})).await;
    let owners = lab.api::<ConfigMap>().get("w-0").await.unwrap().metadata.owner_references.unwrap();
    assert_eq!((owners[0].name.as_str(), owners[0].controller), ("w", Some(true)));
    lab.delete::<Widget>("w").await;
    lab.pass(5).await;
    if must_skip(NO_COLLECTOR) {
        return;
    }
    assert!(!lab.names::<ConfigMap>().await.iter().any(|name| name.starts_with("w-")));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_changes_nothing() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_with(reconcile).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 2}})).await;
    lab.pass(1).await;
    let before = (lab.version::<Widget>("w").await, lab.version::<ConfigMap>("w-0").await);
    running.stop.cancel();
    lab.rest().await;
    lab.run_with(reconcile).await;
    lab.pass(5).await;
    assert_eq!((lab.version::<Widget>("w").await, lab.version::<ConfigMap>("w-0").await), before);
}

#[tokio::test(start_paused = true)]
async fn events_are_counted_not_repeated() {
    let mut lab = TestCluster::new().await;
    lab.run_with(reconcile).await;
    lab.widget("w").await;
    for number in 0..5 {
        lab.patch::<Widget>("w", json!({"metadata": {"annotations": {"poke": number.to_string()}}})).await;
    }
    lab.pass(1).await;
    let events = lab.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 1);
    assert!(events[0].count >= Some(5), "{:?}", events[0].count);
    assert_eq!(events[0].involved_object.name.as_deref(), Some("w"));
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_refused() {
    let mut lab = TestCluster::new().await;
    let running = lab
        .run_with(|_, cx| async move {
            let mut map = config("elsewhere", &[]);
            map.metadata.namespace = Some("kube-system".into());
            cx.apply(map).await?;
            Ok(Action::await_change())
        })
        .await;
    lab.widget("w").await;
    let errors = entries(&running, "w", |entry| match entry {
        Entry::Failed { error, .. } => Some(error),
        _ => None,
    });
    assert!(errors[0].contains("cannot own") && errors[0].contains("apply_unowned"), "{errors:?}");
}

fn failures(running: &Running, name: &str) -> Vec<String> {
    entries(running, name, |entry| match entry {
        Entry::Failed { error, .. } => Some(error),
        _ => None,
    })
}

fn of_alice() -> ConfigMap {
    ConfigMap { data: Some([("owner".to_owned(), "alice".to_owned())].into()), ..config("w-0", &[]) }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_somebody_else_is_not_taken_over() {
    let mut lab = TestCluster::new().await;
    lab.create(&of_alice()).await;
    let running = lab.run_with(reconcile).await;
    lab.create(&Widget::new("w", WidgetSpec { size: 1, config: None })).await;
    let errors = failures(&running, "w");
    assert!(errors[0].contains("w-0 exists and is not ours (made by"), "{errors:?}");
    let told = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(conditions(told), [["Reconciled", "False", "Conflict"]], "it is told at once");
    lab.delete::<Widget>("w").await;
    lab.pass(5).await;
    let map = lab.api::<ConfigMap>().get("w-0").await.expect("it is still there");
    assert_eq!((map.data, map.metadata.owner_references), (of_alice().data, None));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_took_the_name_of_our_child_is_not_taken_over() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_with(reconcile).await;
    lab.create(&Widget::new("w", WidgetSpec { size: 1, config: None })).await;
    assert!(failures(&running, "w").is_empty());
    lab.faults.mute();
    lab.delete::<ConfigMap>("w-0").await;
    lab.create(&of_alice()).await;
    lab.faults.unmute();
    lab.faults.cut();
    lab.patch::<Widget>("w", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    lab.pass(30).await;
    assert!(failures(&running, "w").last().expect("it fails").contains("is not ours"));
    assert_eq!(lab.api::<ConfigMap>().get("w-0").await.unwrap().data, of_alice().data);
    lab.delete::<ConfigMap>("w-0").await;
    lab.pass(600).await;
    assert_eq!(lab.api::<ConfigMap>().get("w-0").await.unwrap().data.unwrap()["number"], "0", "and it heals");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_the_cache_does_not_show_yet_is_not_taken_over() {
    let mut lab = TestCluster::new().await;
    let running = lab
        .run_with(|_, cx| async move {
            // The value changes every five seconds, so that there is something to apply.
            let data = Some([("time".to_owned(), (cx.now().as_second() / 5).to_string())].into());
            cx.apply(ConfigMap { data, ..config("w-0", &[]) }).await?;
            Ok(Action::requeue(std::time::Duration::from_secs(5)))
        })
        .await;
    lab.widget("w").await;
    lab.faults.mute();
    lab.delete::<ConfigMap>("w-0").await;
    lab.pass(6).await;
    assert_eq!(failures(&running, "w"), [""; 0], "a child that is gone is made again");
    lab.delete::<ConfigMap>("w-0").await;
    lab.create(&of_alice()).await;
    lab.pass(6).await;
    assert!(failures(&running, "w")[0].contains("is not ours"));
    assert_eq!(lab.api::<ConfigMap>().get("w-0").await.unwrap().data, of_alice().data);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_somebody_else_is_adopted_when_asked() {
    let mut lab = TestCluster::new().await;
    lab.create(&of_alice()).await;
    let running = lab
        .run_with(|_, cx| async move {
            cx.adopt(config("w-0", &[])).await?;
            Ok(Action::await_change())
        })
        .await;
    lab.widget("w").await;
    assert!(failures(&running, "w").is_empty());
    let owners = lab.api::<ConfigMap>().get("w-0").await.unwrap().metadata.owner_references.unwrap();
    assert_eq!((owners[0].name.as_str(), owners[0].controller), ("w", Some(true)));
    lab.delete::<Widget>("w").await;
    lab.pass(5).await;
    if must_skip(NO_COLLECTOR) {
        return;
    }
    assert!(
        !lab.names::<ConfigMap>().await.contains(&"w-0".to_owned()),
        "what was adopted goes with its owner"
    );
}

#[tokio::test(start_paused = true)]
async fn what_we_applied_without_an_owner_is_ours_after_a_restart() {
    async fn reconcile(widget: Arc<Widget>, cx: Context<Widget>) -> Result<Action> {
        let mut map = config("settings", &[]);
        map.metadata.namespace = Some("kube-system".into());
        map.data = Some([("size".to_owned(), widget.spec.size.to_string())].into());
        cx.apply_unowned(map).await?;
        Ok(Action::await_change())
    }
    let mut lab = TestCluster::new().await;
    let first = lab.run_with(reconcile).await;
    lab.widget("w").await;
    first.stop.cancel();
    lab.rest().await;
    let second = lab.run_with(reconcile).await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 2}})).await;
    assert!(failures(&first, "w").is_empty() && failures(&second, "w").is_empty());
    let api: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "kube-system");
    assert_eq!(api.get("settings").await.unwrap().data.unwrap()["size"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_never_answered_is_given_up_and_sent_again() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_with(reconcile).await;
    lab.faults.set(|request| (request.method() == http::Method::PATCH).then_some(InjectedFault::Hang));
    lab.create(&Widget::new("w", WidgetSpec { size: 1, config: None })).await;
    lab.pass(30).await;
    lab.faults.clear();
    lab.pass(60).await;
    assert!(failures(&running, "w")[0].contains("the server was silent for 65 s"));
    assert!(lab.names::<ConfigMap>().await.contains(&"w-0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_at_the_stop_are_sent() {
    let mut lab = TestCluster::new().await;
    let stop = Arc::new(std::sync::OnceLock::<homeostat_runtime::CancellationToken>::new());
    let own = stop.clone();
    let running = lab
        .run_with(move |_, cx| {
            let own = own.clone();
            async move {
                for number in 0..20 {
                    cx.event(Severity::Normal, "Counting", format!("this is number {number}"));
                }
                own.get().expect("it was set before the widget was made").cancel();
                Ok(Action::await_change())
            }
        })
        .await;
    stop.set(running.stop.clone()).unwrap();
    lab.widget("w").await;
    lab.pass(1).await;
    let events = lab.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 20);
}
