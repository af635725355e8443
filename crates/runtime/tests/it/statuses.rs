//! Tests statuses with several writers: a reconciler writes only its own changes, and other writers' changes are kept,
//! whenever they were written and even if our types do not know them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use homeostat_runtime::{Action, Controller, changed, condition, terminal};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, NamespaceResourceScope};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::handlers::{Gadget, Made, gadget, get};
use crate::test_cluster::{Running, TestCluster, Widget, WidgetSpec, conditions, entries_of_any};

const TIME: &str = "2027-01-01T00:00:00Z";

/// Merges this into the status of an object, as another writer would.
async fn patch_status<K>(lab: &TestCluster, name: &str, status: Value)
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({"status": status}));
    lab.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.expect("it is patched");
    lab.rest().await;
}

/// Returns the status writes for the object with this name, and their outcomes.
fn written(running: &Running, name: &str) -> Vec<WriteOutcome> {
    entries_of_any(running, name, |entry| match entry {
        Entry::Wrote { verb: Verb::Status, outcome, .. } => Some(outcome),
        _ => None,
    })
}

/// Runs a reconciler that first sets one field of the status and then takes five seconds; after one second another
/// writer writes `theirs`. Returns the final status.
async fn beside(before: Value, theirs: Value) -> Value {
    let mut lab = crate::handlers::lab().await;
    gadget(&lab, "g", 1).await;
    patch_status::<Gadget>(&lab, "g", before).await;
    let control = Controller::<Gadget>::new().when(changed::generation()).reconcile(|_, cx| async move {
        cx.status(|status| status.create = Some(Made { name: "ours".into() }));
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(Action::await_change())
    });
    let running = lab.run(|operator| operator.control(control));
    lab.pass(1).await;
    patch_status::<Gadget>(&lab, "g", theirs).await;
    lab.pass(30).await;
    let status = get(&lab, "g").await.unwrap().status.unwrap();
    assert_eq!(status.create.as_ref().map(|made| made.name.as_str()), Some("ours"), "ours is written");
    assert_eq!(written(&running, "g").len(), 1, "once");
    serde_json::to_value(status).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_field_that_another_adds_while_the_reconciler_runs_stays() {
    let status = beside(json!({}), json!({"outside": "theirs"})).await;
    assert_eq!(status["outside"], "theirs", "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_another_changes_while_the_reconciler_runs_stays_changed() {
    let status = beside(json!({"outside": "before"}), json!({"outside": "after"})).await;
    assert_eq!(status["outside"], "after", "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_another_removes_while_the_reconciler_runs_stays_away() {
    let status = beside(json!({"outside": "before"}), json!({"outside": null})).await;
    assert_eq!(status.get("outside"), None, "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_map_entry_that_another_adds_while_the_reconciler_runs_stays() {
    let status = beside(json!({"children": {"a": "done"}}), json!({"children": {"b": "done"}})).await;
    assert_eq!(status["children"], json!({"a": "done", "b": "done"}), "{status}");
}

/// Two writers add entries to the same map, which neither has seen yet, and one of them removes its last entry.
#[tokio::test(start_paused = true)]
async fn entries_of_one_map_are_written_and_removed_one_by_one() {
    let mut lab = crate::handlers::lab().await;
    let control =
        Controller::<Gadget>::new().when(changed::generation()).reconcile(|gadget, cx| async move {
            cx.status(|status| {
                if gadget.spec.size == 0 {
                    status.children.remove("ours");
                } else {
                    status.children.insert("ours".into(), gadget.spec.size.to_string());
                }
            });
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(Action::await_change())
        });
    lab.run(|operator| operator.control(control));
    gadget(&lab, "g", 1).await;
    patch_status::<Gadget>(&lab, "g", json!({"children": {"theirs": "1"}})).await;
    lab.pass(10).await;
    let children = async || json!(get(&lab, "g").await.unwrap().status.unwrap().children);
    assert_eq!(children().await, json!({"ours": "1", "theirs": "1"}));
    patch_status::<Gadget>(&lab, "g", json!({"children": {"theirs": null}})).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 0}})).await;
    patch_status::<Gadget>(&lab, "g", json!({"children": {"theirs": "2"}})).await;
    lab.pass(10).await;
    assert_eq!(children().await, json!({"theirs": "2"}));
}

/// Returns the conditions of a Pod after a controller has added its own to `theirs`.
async fn pod_beside(theirs: Value) -> Value {
    let mut lab = TestCluster::bare().await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    lab.create(&pod).await;
    patch_status::<Pod>(&lab, "p", json!({"conditions": [theirs]})).await;
    let before = lab.api::<Pod>().get("p").await.unwrap().status.unwrap().conditions.unwrap();
    assert_eq!(serde_json::to_value(&before).unwrap(), json!([theirs]), "the server keeps it as it is");
    let control = Controller::<Pod>::new().writes_status::<Pod>().reconcile(|_, cx| async move {
        cx.condition(condition("demo.dev/Checked", true, "Up", "all is well"));
        Ok(Action::await_change())
    });
    let running = lab.run(|operator| operator.control(control));
    lab.pass(5).await;
    lab.patch::<Pod>("p", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    lab.pass(5).await;
    assert_eq!(written(&running, "p").len(), 1, "what is said already is not written again");
    let pod = lab.api::<Pod>().get("p").await.unwrap();
    serde_json::to_value(pod.status.unwrap().conditions.unwrap_or_default()).unwrap()
}

fn of_type<'a>(conditions: &'a Value, r#type: &str) -> &'a Value {
    let all = conditions.as_array().unwrap();
    all.iter().find(|one| one["type"] == r#type).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_another_without_a_transition_time_stays() {
    let all = pod_beside(json!({"type": "Theirs", "status": "True"})).await;
    assert_eq!(of_type(&all, "Theirs"), &json!({"type": "Theirs", "status": "True"}));
    assert_eq!(of_type(&all, "demo.dev/Checked")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_condition_of_another_that_are_not_of_the_common_type_stay() {
    let theirs =
        json!({"type": "Theirs", "status": "True", "lastProbeTime": TIME, "lastTransitionTime": TIME});
    let all = pod_beside(theirs.clone()).await;
    assert_eq!(of_type(&all, "Theirs"), &theirs, "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_another_that_the_watch_has_not_shown_yet_stays() {
    let mut lab = TestCluster::new().await;
    lab.lag(Duration::from_millis(500));
    let control = Controller::<Widget>::new().when(changed::generation()).reconcile(|_, cx| async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cx.condition(condition("Ours", true, "Up", ""));
        Ok(Action::await_change())
    });
    let running = lab.run_on(false, |operator| operator.control(control));
    lab.pass(5).await;
    let (api, widget) = (lab.api::<Widget>(), Widget::new("w", WidgetSpec::default()));
    api.create(&PostParams::default(), &widget).await.unwrap();
    tokio::time::sleep(Duration::from_millis(3_250)).await;
    let theirs = json!({"conditions": [{"type": "Theirs", "status": "True", "reason": "Up", "message": "",
                                        "lastTransitionTime": TIME}]});
    patch_status::<Widget>(&lab, "w", theirs).await;
    lab.pass(60).await;
    let all = conditions(api.get("w").await.unwrap());
    assert_eq!(all, [["Theirs", "True", "Up"], ["Ours", "True", "Up"]]);
    assert!(
        matches!(written(&running, "w")[..], [WriteOutcome::Done { .. }]),
        "{:?}",
        written(&running, "w")
    );
}

/// A definition from another project, whose conditions have fields that our type does not have.
#[tokio::test(start_paused = true)]
async fn fields_of_our_own_condition_that_our_type_does_not_name_stay() {
    let mut lab = crate::degraded::lab_that_accepts_anything().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
    let widget = DynamicObject::new("w", &kind).data(json!({"spec": {"size": 1}}));
    api.create(&PostParams::default(), &widget).await.unwrap();
    let one = |r#type: &str| {
        json!({"type": r#type, "status": "False", "reason": "Old", "message": "", "lastTransitionTime": TIME,
               "severity": "High"})
    };
    let status = json!({"conditions": [one("Theirs"), one("Ready")], "unknown": {"deep": [1]}});
    patch_status::<Widget>(&lab, "w", status).await;
    lab.run_with(|_, cx| async move {
        cx.status(|status| status.seen = 7);
        cx.condition(condition("Ready", true, "Up", ""));
        Ok(Action::await_change())
    })
    .await;
    lab.pass(5).await;
    let status = api.get("w").await.unwrap().data["status"].clone();
    assert_eq!((&status["seen"], &status["unknown"]), (&json!(7), &json!({"deep": [1]})));
    assert_eq!(of_type(&status["conditions"], "Theirs"), &one("Theirs"));
    let ours = of_type(&status["conditions"], "Ready");
    assert_eq!(
        (&ours["status"], &ours["reason"], &ours["severity"]),
        (&json!("True"), &json!("Up"), &json!("High"))
    );
    assert_ne!(ours["lastTransitionTime"], TIME, "its status changed");
}

#[tokio::test(start_paused = true)]
async fn conditions_of_others_stay_on_an_object_that_does_not_decode() {
    let mut lab = crate::degraded::lab_that_accepts_anything().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
    let poison = DynamicObject::new("w", &kind).data(json!({"spec": {"size": "many"}}));
    api.create(&PostParams::default(), &poison).await.unwrap();
    let theirs = json!({"type": "Theirs", "status": "True", "odd": {"a": 1}});
    let patch = Patch::Merge(json!({"status": {"conditions": [theirs]}}));
    api.patch_status("w", &PatchParams::default(), &patch).await.unwrap();
    lab.run_logging(|controller| controller).await;
    lab.pass(5).await;
    let all = api.get("w").await.unwrap().data["status"]["conditions"].clone();
    assert_eq!(of_type(&all, "Theirs"), &theirs);
    assert_eq!(of_type(&all, "Reconciled")["reason"], "Undecodable");
}

/// Another writer writes the status in a loop: our write succeeds, or is abandoned and retried later, and nothing is
/// lost.
#[tokio::test(start_paused = true)]
async fn a_writer_that_never_rests_neither_stops_us_nor_loses_a_write() {
    let mut lab = TestCluster::new().await;
    let (api, count) = (lab.api::<Widget>(), Arc::new(AtomicUsize::new(0)));
    lab.widget("w").await;
    let theirs = |number: usize| {
        json!({"conditions": [{"type": "Theirs", "status": "True", "reason": format!("N{number}"),
                               "message": "", "lastTransitionTime": TIME}]})
    };
    patch_status::<Widget>(&lab, "w", theirs(0)).await;
    // Our status writes are refused three times, as if another writer had been faster each time.
    let refused = count.clone();
    lab.faults.set(move |request| {
        let is_ours = request.method() == http::Method::PATCH && request.uri().path().ends_with("/status");
        let is_refused = is_ours && refused.fetch_add(1, Ordering::Relaxed) < 3;
        is_refused.then_some(InjectedFault::Refuse(422, "the server rejected our request"))
    });
    let reader = api.clone();
    let control = Controller::<Widget>::new().when(changed::generation()).reconcile(move |_, cx| {
        let reader = reader.clone();
        async move {
            for number in 1..=3 {
                let patch = Patch::Merge(json!({"status": {"seen": number}}));
                reader.patch_status("w", &PatchParams::default(), &patch).await?;
            }
            cx.condition(condition("Ours", true, "Up", ""));
            Ok(Action::await_change())
        }
    });
    let running = lab.run(|operator| operator.control(control));
    lab.pass(60).await;
    let widget = api.get("w").await.unwrap();
    assert_eq!(widget.status.as_ref().unwrap().seen, 3);
    assert_eq!(conditions(widget), [["Theirs", "True", "N0"], ["Ours", "True", "Up"]]);
    assert!(written(&running, "w").iter().any(|outcome| matches!(outcome, WriteOutcome::Done { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_server_finds_invalid_is_an_error_and_not_a_loop() {
    let mut lab = TestCluster::new().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    lab.faults.set(move |request| {
        let is_ours = request.uri().path().contains("/widgets/w");
        counted.fetch_add(usize::from(is_ours), Ordering::Relaxed);
        (is_ours && request.method() == http::Method::PATCH)
            .then_some(InjectedFault::Refuse(422, "seen is too small"))
    });
    let running = lab
        .run_with(|_, cx| async move {
            cx.status(|status| status.seen = -1);
            Ok(Action::await_change())
        })
        .await;
    lab.widget("w").await;
    let failed = entries_of_any(&running, "w", |entry| match entry {
        Entry::Failed { error, .. } => Some(error),
        _ => None,
    });
    assert!(failed[0].contains("seen is too small"), "{failed:?}");
    // The write is sent based on the cache, the object is read, the write is sent again based on the server's state,
    // and the object is read again: then it is known to be current.
    assert_eq!(requests.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_kinds_of_kubernetes_is_written_only_where_that_is_declared() {
    let mut lab = TestCluster::bare().await;
    let pod = |name: &str| -> Pod {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        serde_json::from_value(pod).unwrap()
    };
    for (name, is_declared) in [("undeclared", false), ("declared", true)] {
        let control = Controller::<Pod>::new().named(name).labels(format!("app={name}"));
        let control = if is_declared { control.writes_status::<Pod>() } else { control };
        let control = control.reconcile(|_, _| async { Err(terminal("not today")) });
        let running = lab.run(|operator| operator.control(control));
        let mut pod = pod(name);
        pod.metadata.labels = Some([("app".to_owned(), name.to_owned())].into());
        lab.create(&pod).await;
        lab.pass(5).await;
        assert_eq!(written(&running, name).len(), usize::from(is_declared), "{name}");
        let [(_, reason, ..)] = &crate::events_and_undeclared_kinds::events(&lab, name).await[..] else {
            panic!("one event")
        };
        assert_eq!(reason, "ReconcileFailed", "the event says it either way");
    }
}
