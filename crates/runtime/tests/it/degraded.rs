//! Tests that one part fails and the rest continues: a poison object, a missing definition, a forbidden watch.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, RequestedNext, WatchState};
use homeostat_runtime::{Action, Controller};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::test_cluster::{Running, TestCluster, Widget, conditions, widget_key};

/// Returns the last state of a resource's watch.
fn state(running: &Running, name: &str) -> Option<WatchState> {
    running.journal.records().into_iter().rev().find_map(|record| match record.entry {
        Entry::Watched { resource, state } if resource == name => Some(state),
        _ => None,
    })
}

/// A server that accepts objects that our widget type cannot decode.
pub(crate) async fn lab_that_accepts_anything() -> TestCluster {
    let lab = TestCluster::start(Some(&loose_definition())).await;
    accept_anything(&lab).await;
    lab
}

/// Makes a server without the widget definition accept any object of that kind.
pub(crate) async fn accept_anything(lab: &TestCluster) {
    lab.serve(&loose_definition()).await;
}

/// The widget definition without a schema.
fn loose_definition() -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(Widget::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(crd).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_poison_object_is_left_out_and_heals() {
    let mut lab = lab_that_accepts_anything().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
    let poison = DynamicObject::new("bad", &kind).data(json!({"spec": {"size": "not a number"}}));
    api.create(&PostParams::default(), &poison).await.unwrap();
    lab.widget("good").await;
    let running = lab.run_logging(|controller| controller).await;
    assert_eq!(lab.log.take(), ["good"]);
    let quarantined = running.journal.about(&widget_key("bad"));
    assert!(
        matches!(&quarantined[0].entry, Entry::Quarantined { error, .. } if error.starts_with("spec.size: invalid type: string"))
    );
    assert!(running.metric("homeostat_quarantined_objects{resource=\"test.dev/widgets\"}").await >= 1);
    assert!(
        running.metric("controller_runtime_terminal_reconcile_errors_total{controller=\"widget\"}").await
            >= 1
    );
    assert!(running.page("/readyz").await.contains("test.dev/widgets/default/bad does not decode"));
    assert!(lab.has_logged("object does not decode"));
    let status = api.get("bad").await.unwrap().data["status"].clone();
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Reconciled"), &json!("False"), &json!("Undecodable"))
    );
    assert!(condition["message"].as_str().unwrap().contains("expected i64"), "{condition}");
    let [(_, reason, message, _)] = &crate::events_and_undeclared_kinds::events(&lab, "bad").await[..] else {
        panic!("one event")
    };
    assert!(reason == "Undecodable" && message.contains("expected i64"), "{reason} {message}");
    lab.patch::<Widget>("good", json!({"spec": {"size": 2}})).await;
    assert_eq!(lab.log.take(), ["good"], "the watch goes on");
    lab.patch::<Widget>("bad", json!({"spec": {"size": 1}})).await;
    assert_eq!(lab.log.take()[0], "bad", "and the healed object joins");
    assert_eq!(running.metric("homeostat_quarantined_objects{resource=\"test.dev/widgets\"}").await, 0);
    let healed = lab.api::<Widget>().get("bad").await.unwrap();
    assert_eq!(conditions(healed), [["Reconciled", "True", "Succeeded"]]);
}

#[tokio::test(start_paused = true)]
async fn a_poison_object_that_is_deleted_leaves_nothing_behind() {
    let mut lab = lab_that_accepts_anything().await;
    let running = lab.run_logging(|controller| controller).await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
    let poison = DynamicObject::new("bad", &kind).data(json!({"spec": {"size": "not a number"}}));
    api.create(&PostParams::default(), &poison).await.unwrap();
    lab.rest().await;
    lab.delete::<Widget>("bad").await;
    let last = running.journal.about(&widget_key("bad")).pop().unwrap().entry;
    assert!(matches!(last, Entry::Settled { next: RequestedNext::Gone, .. }), "{last:?}");
}

/// An operator that installs its kind.
async fn run_with_definition(lab: &mut TestCluster) -> Running {
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().reconcile(move |widget, _| {
        log.say(widget.metadata.name.clone().unwrap_or_default());
        async { Ok(Action::await_change()) }
    });
    let running = lab.run(|operator| operator.crd::<Widget>().control(control));
    lab.rest().await;
    running
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_applied_when_the_server_comes_back() {
    let mut lab = TestCluster::bare().await;
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    run_with_definition(&mut lab).await;
    lab.pass(20).await;
    lab.faults.clear();
    lab.pass(60).await;
    lab.await_widgets().await;
    lab.widget("w").await;
    assert_eq!(lab.log.take(), ["w"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_logged_once_per_watch_and_so_is_its_end() {
    let mut lab = TestCluster::bare().await;
    let running = run_with_definition(&mut lab).await;
    lab.await_widgets().await;
    let failures = "homeostat_watch_failures_total{resource=\"test.dev/widgets\"}";
    for outages in 1..=2 {
        lab.faults.set(|_| Some(InjectedFault::Unreachable));
        lab.faults.cut();
        lab.pass(100).await;
        assert_eq!(lab.times_logged(" WARN homeostat"), outages, "the watch, once");
        assert_eq!(lab.times_logged("cannot watch test.dev/widgets: the server is not reachable"), outages);
        lab.faults.clear();
        lab.pass(60).await;
        assert_eq!(lab.times_logged("watch is in step again"), outages);
        // Until an event has arrived, an interruption counts as one of several.
        lab.widget(&format!("w{outages}")).await;
    }
    assert!(running.metric(failures).await > 10, "each try is counted all the same");
    lab.faults.cut();
    lab.pass(60).await;
    assert_eq!(
        lab.times_logged(" WARN homeostat") + lab.times_logged("in step again"),
        4,
        "a blip is not told"
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_the_server_refuses_is_told_once_and_when_it_is_accepted() {
    let mut lab = TestCluster::bare().await;
    lab.faults.set(|request| {
        request
            .uri()
            .path()
            .contains("/customresourcedefinitions/")
            .then_some(InjectedFault::Refuse(422, "too odd"))
    });
    run_with_definition(&mut lab).await;
    lab.pass(60).await;
    assert_eq!(lab.times_logged("apply the definition widgets.test.dev: too odd (422)"), 1);
    lab.faults.clear();
    lab.pass(60).await;
    assert_eq!(lab.times_logged("definition applied after all"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_a_moment_after_its_definition_is_waited_for() {
    for (code, words) in
        [(404, "the server could not find the requested resource"), (429, "storage is initializing")]
    {
        let mut lab = TestCluster::bare().await;
        let asked = AtomicUsize::new(0);
        lab.faults.set(move |request| {
            let is_early = request.uri().path().contains("/v1/widgets") && asked.fetch_add(1, Relaxed) < 8;
            is_early.then_some(InjectedFault::Refuse(code, words))
        });
        run_with_definition(&mut lab).await;
        lab.pass(1).await;
        lab.await_widgets().await;
        lab.widget("w").await;
        assert_eq!(lab.log.take(), ["w"]);
        assert_eq!(lab.times_logged("cannot watch"), 0, "nothing is wrong");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_somebody_deletes_is_put_back() {
    let mut lab = TestCluster::bare().await;
    run_with_definition(&mut lab).await;
    lab.await_widgets().await;
    lab.widget("w").await;
    assert_eq!(lab.log.take(), ["w"]);
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(lab.client.clone());
    crds.delete("widgets.test.dev", &kube::api::DeleteParams::default()).await.unwrap();
    lab.end_watches_of_gone_widgets().await;
    lab.pass(120).await;
    lab.log.take();
    lab.widget("again").await;
    lab.pass(60).await;
    assert_eq!(lab.log.take(), ["again"]);
}

/// A kind whose status has no conditions.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "test.dev", version = "v1", kind = "Gauge", namespaced, status = "GaugeStatus")]
struct GaugeSpec {}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct GaugeStatus {
    level: i64,
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_hold_conditions_is_told_at_the_start() {
    let mut lab = TestCluster::bare().await;
    run_with_definition(&mut lab).await;
    let warning = "the status of this kind has no field `conditions`";
    assert!(!lab.has_logged(warning));
    let control = Controller::<Gauge>::new().reconcile(|_, _| async { Ok(Action::await_change()) });
    lab.run(|operator| operator.crd::<Gauge>().control(control));
    lab.rest().await;
    assert!(lab.has_logged(warning) && lab.has_logged("kind=\"Gauge\""));
}

#[tokio::test(start_paused = true)]
async fn a_right_that_was_granted_is_no_longer_called_missing() {
    let mut lab = TestCluster::new().await;
    lab.faults.set(|request| {
        let refusal = r#"{"status": {"allowed": false}}"#;
        request.uri().path().ends_with("selfsubjectaccessreviews").then_some(InjectedFault::Answer(refusal))
    });
    let running = lab.run_logging(|controller| controller).await;
    let missing = "this operator may not watch widgets.test.dev";
    assert!(running.page("/readyz").await.contains(missing) && lab.has_logged(missing));
    lab.faults.clear();
    lab.pass(20).await;
    assert!(!running.page("/readyz").await.contains("may not"));
}

#[tokio::test(start_paused = true)]
async fn a_right_that_the_server_has_not_been_asked_about_is_not_taken_for_granted() {
    let mut lab = TestCluster::new().await;
    let is_review = |path: &str| path.ends_with("selfsubjectaccessreviews");
    lab.faults.set(move |request| is_review(request.uri().path()).then_some(InjectedFault::Unreachable));
    let running = lab.run_logging(|controller| controller).await;
    let page = running.page("/readyz").await;
    assert!(
        page.contains(
            "rights of this operator are not known yet; they are being asked for again (may it create events"
        ),
        "{page}"
    );
    let refusal = r#"{"status": {"allowed": false}}"#;
    lab.faults.set(move |request| is_review(request.uri().path()).then_some(InjectedFault::Answer(refusal)));
    lab.pass(20).await;
    let page = running.page("/readyz").await;
    assert!(
        page.contains("this operator may not watch widgets.test.dev") && !page.contains("not known"),
        "{page}"
    );
    lab.faults.clear();
    lab.pass(60).await;
    let page = running.page("/readyz").await;
    assert!(!page.contains("may not") && !page.contains("not known"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn idle_connections_keep_nobody_from_the_admin_pages() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller).await;
    let mut idle = Vec::new();
    for _ in 0..70 {
        idle.push(running.connect().await);
    }
    assert!(running.page("/healthz").await.starts_with("HTTP/1.1 200"));
    lab.pass(100).await;
    let mut rest = Vec::new();
    let mut last = idle.pop().unwrap();
    let _hold = homeostat::testing::PausedTime::new();
    tokio::io::AsyncReadExt::read_to_end(&mut last, &mut rest).await.unwrap();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "who says nothing is hung up on");
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_awaited() {
    let mut lab = TestCluster::bare().await;
    let log = lab.log.clone();
    let maps = Controller::<ConfigMap>::new().labels("test=yes").reconcile(move |map, _| {
        log.say(map.metadata.name.clone().unwrap_or_default());
        async { Ok(Action::await_change()) }
    });
    let log = lab.log.clone();
    let widgets = Controller::<Widget>::new().reconcile(move |widget, _| {
        log.say(widget.metadata.name.clone().unwrap_or_default());
        async { Ok(Action::await_change()) }
    });
    let running = lab.run(|operator| operator.control(maps).control(widgets));
    lab.pass(5).await;
    let Some(WatchState::Failing { error, .. }) = state(&running, "test.dev/widgets") else {
        panic!("it fails")
    };
    assert!(
        error.contains("cannot watch test.dev/widgets") && error.contains("CustomResourceDefinition"),
        "{error}"
    );
    let fresh = "homeostat_watch_fresh{resource=\"test.dev/widgets\"}";
    assert_eq!(running.metric(fresh).await, 0);
    assert!(running.metric("homeostat_watch_failures_total{resource=\"test.dev/widgets\"}").await >= 1);
    assert!(
        running.page("/readyz").await.starts_with("HTTP/1.1 503")
            && lab.has_logged("cannot watch test.dev/widgets")
    );
    let mut map = crate::test_cluster::config("map", &[]);
    map.metadata.labels = Some([("test".to_owned(), "yes".to_owned())].into());
    lab.create(&map).await;
    assert_eq!(lab.log.take(), ["map"], "the other controller works");
    lab.install(&Widget::crd()).await;
    lab.widget("w").await;
    lab.pass(60).await;
    assert_eq!(lab.log.take(), ["w"], "and this one as soon as it can");
    assert_eq!(running.metric(fresh).await, 1);
    assert!(running.page("/readyz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_watch_degrades_what_needs_it_only() {
    let mut lab = TestCluster::new().await;
    lab.faults.set(|request| {
        request
            .uri()
            .path()
            .ends_with("/secrets")
            .then_some(InjectedFault::Refuse(403, "secrets is forbidden: no right"))
    });
    let log = lab.log.clone();
    let control =
        Controller::<Widget>::new().owns::<ConfigMap>().reads::<Secret>().reconcile(move |widget, cx| {
            log.say(widget.metadata.name.clone().unwrap_or_default());
            async move {
                if widget.spec.size > 0 {
                    cx.get::<Secret>("x")?;
                }
                Ok(Action::await_change())
            }
        });
    let running = lab.run(|operator| operator.control(control));
    lab.rest().await;
    let Some(WatchState::Failing { error, .. }) = state(&running, "secrets") else { panic!("it fails") };
    assert_eq!(error, "cannot watch secrets: secrets is forbidden: no right (403)");
    lab.widget("w").await;
    assert_eq!(lab.log.take(), ["w"]);
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    let failed =
        running.journal.about(&widget_key("w")).into_iter().rev().find_map(|record| match record.entry {
            Entry::Failed { error, .. } => Some(error),
            _ => None,
        });
    let error = failed.expect("reading what is not known is an error, not an empty answer");
    assert!(error.contains("not complete") && error.contains("no right"), "{error}");
    lab.pass(10).await;
    let suffering = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(conditions(suffering), [["Reconciled", "False", "Failing"]], "a failure that lasts is told");
    let [(_, reason, message, _)] = &crate::events_and_undeclared_kinds::events(&lab, "w").await[..] else {
        panic!("one event")
    };
    assert!(reason == "ReconcileFailed" && message.contains("not complete"), "{reason} {message}");
    let fresh = "homeostat_watch_fresh{resource=\"secrets\"}";
    assert_eq!(running.metric(fresh).await, 0);
    assert!(running.metric("controller_runtime_reconcile_errors_total{controller=\"widget\"}").await >= 3);
    assert!(lab.has_logged("cannot watch secrets"));
    lab.faults.clear();
    lab.pass(60).await;
    assert_eq!(running.metric(fresh).await, 1);
    let healed = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(conditions(healed), [["Reconciled", "True", "Succeeded"]]);
    assert_eq!(state(&running, "secrets"), Some(WatchState::Fresh));
    assert!(matches!(running.journal.about(&widget_key("w")).last().unwrap().entry, Entry::Settled { .. }));
}
