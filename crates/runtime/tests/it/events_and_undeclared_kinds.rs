//! Tests what people see besides the status: events about failing objects, and warnings about kinds that are written
//! but not declared.

use homeostat::testing::InjectedFault;
use homeostat_runtime::{Action, Context, Controller, Result, Severity, terminal};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::CustomResource;
use kube::api::ListParams;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget, conditions, config};

/// A kind whose status has no field for conditions.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "test.dev", version = "v1", kind = "Gizmo", namespaced, status = "GizmoStatus")]
pub(crate) struct GizmoSpec {}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct GizmoStatus {
    #[serde(default)]
    seen: i64,
}

/// Returns type, reason, message and count of each event about the object with this name.
pub(crate) async fn events(lab: &TestCluster, name: &str) -> Vec<(String, String, String, i32)> {
    let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let all = lab.api::<Event>().list(&about).await.expect("events are listed");
    let told = all.items.into_iter().map(|event| {
        assert!(event.involved_object.uid.is_some(), "kubectl describe finds it by uid");
        let text = |field: Option<String>| field.unwrap_or_default();
        (text(event.type_), text(event.reason), text(event.message), event.count.unwrap_or(0))
    });
    told.collect()
}

fn warning(reason: &str, message: &str, count: i32) -> Vec<(String, String, String, i32)> {
    vec![("Warning".to_owned(), reason.to_owned(), message.to_owned(), count)]
}

#[tokio::test(start_paused = true)]
async fn a_failing_object_carries_an_event_when_its_condition_says_so() {
    let mut lab = TestCluster::new().await;
    lab.run_with(|widget, cx| async move {
        match widget.metadata.name.as_deref() {
            Some("worded") => {
                cx.event(Severity::Warning, "TooSmall", "size is -3");
                Err(terminal("size is negative"))
            }
            Some("final") => Err(terminal("size is negative")),
            Some("panicking") => panic!("thirteen"),
            Some("odd") => Err("the database is odd".into()),
            _ => Ok(Action::await_change()),
        }
    })
    .await;
    for name in ["worded", "final", "panicking", "odd", "good"] {
        lab.widget(name).await;
    }
    assert_eq!(events(&lab, "final").await, warning("ReconcileFailed", "size is negative", 1));
    assert_eq!(
        events(&lab, "worded").await,
        warning("TooSmall", "size is -3", 1),
        "its own words are enough"
    );
    let panicked = "the reconciler panicked: thirteen";
    assert_eq!(events(&lab, "panicking").await, warning("ReconcilePanicked", panicked, 1));
    lab.pass(2).await;
    assert_eq!(events(&lab, "odd").await, [], "a blip is not told");
    lab.pass(2).await;
    assert_eq!(events(&lab, "odd").await, warning("ReconcileFailed", "the database is odd", 1));
    lab.pass(60).await;
    let [(_, _, _, count)] = &events(&lab, "odd").await[..] else { panic!("repeats are one event") };
    assert!((3..=5).contains(count), "{count} of them are counted");
    assert_eq!(events(&lab, "good").await, []);
}

#[tokio::test(start_paused = true)]
async fn kinds_without_conditions_carry_the_event_too() {
    let mut lab = TestCluster::bare().await;
    let gizmos = Controller::<Gizmo>::new().reconcile(|_, _| async { Err(terminal("a gizmo")) });
    let maps = Controller::<ConfigMap>::new().labels("test=yes").reconcile(|_, _| async { Err("a map")? });
    lab.run(|operator| operator.crd::<Gizmo>().control(gizmos).control(maps));
    lab.rest().await;
    lab.create(&Gizmo::new("g", GizmoSpec::default())).await;
    let mut map = config("map", &[]);
    map.metadata.labels = Some([("test".to_owned(), "yes".to_owned())].into());
    lab.create(&map).await;
    lab.pass(5).await;
    assert_eq!(events(&lab, "g").await, warning("ReconcileFailed", "a gizmo", 1));
    assert_eq!(events(&lab, "map").await, warning("ReconcileFailed", "a map", 1));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_server_is_no_event_of_the_objects() {
    let mut lab = TestCluster::new().await;
    let running = lab
        .run_with(|widget, cx| async move {
            cx.apply(config("child", &[&widget])).await?;
            Ok(Action::await_change())
        })
        .await;
    lab.faults
        .set(|request| request.uri().path().contains("configmaps").then_some(InjectedFault::Unreachable));
    lab.widget("w").await;
    lab.pass(60).await;
    let suffering = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(conditions(suffering), [["Reconciled", "False", "Failing"]]);
    assert!(running.metric("controller_runtime_reconcile_errors_total{controller=\"widget\"}").await >= 3);
    assert!(!lab.has_logged("reconcile failed"), "the watches tell of an outage, not every object");
    lab.faults.clear();
    lab.pass(60).await;
    assert_eq!(events(&lab, "w").await, []);
    let healed = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(conditions(healed), [["Reconciled", "True", "Succeeded"]]);
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_reconciler_are_its_own() {
    let mut lab = TestCluster::new().await;
    lab.run_with(|_, cx| async move {
        cx.event(Severity::Normal, "Looked", "at it");
        Err(terminal("no"))
    })
    .await;
    lab.widget("w").await;
    let mut reasons: Vec<_> = events(&lab, "w").await.into_iter().map(|event| event.1).collect();
    reasons.sort();
    assert_eq!(reasons, ["Looked", "ReconcileFailed"]);
}

/// Writes a Secret in several ways.
async fn write_secret(widget: std::sync::Arc<Widget>, cx: Context<Widget>) -> Result<Action> {
    let secret = Secret { metadata: config("secret", &[]).metadata, ..Secret::default() };
    let secret = cx.apply(secret).await?;
    let secret = cx.patch(&*secret, json!({"metadata": {"labels": {"a": "b"}}})).await?;
    if widget.spec.size > 0 {
        cx.delete(&*secret).await?;
    }
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_written_but_not_declared_is_warned_of_once() {
    let mut lab = TestCluster::new().await;
    let control = Controller::<Widget>::new().reads::<Secret>().reconcile(write_secret);
    let running = lab.run(|operator| operator.control(control));
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    let words = "secrets is written but not declared, which a cluster forbids: add .owns::<Secret>() or \
                 .writes::<Secret>() to the controller";
    assert_eq!(lab.times_logged(words), 1);
    assert!(running.page("/readyz").await.contains(words));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_declared_to_be_written_is_part_of_the_rights() {
    let mut lab = TestCluster::new().await;
    let control = Controller::<Widget>::new().writes::<Secret>().reconcile(write_secret);
    let manifests = homeostat_runtime::Operator::new("w.test.dev")
        .control(
            Controller::<Widget>::new()
                .writes::<Secret>()
                .writes_status::<ConfigMap>()
                .reconcile(write_secret),
        )
        .manifests("w:1");
    assert!(manifests.contains("\"secrets\"") && manifests.contains("\"configmaps/status\""), "{manifests}");
    lab.run(|operator| operator.control(control));
    lab.widget("w").await;
    assert_eq!(lab.names::<Secret>().await, ["secret"]);
    assert_eq!(lab.times_logged("not declared"), 0);
}

/// A controller gets no permissions that it does not use.
#[test]
fn rights_on_the_main_kind_are_the_least() {
    let check = |controller: Controller<Widget>, expected: &[(&str, &str)]| {
        let control = controller.reconcile(|_, _| async { Ok(Action::await_change()) });
        let manifests = homeostat_runtime::Operator::new("w.test.dev").control(control).manifests("w:1");
        let printed: String = manifests.split_whitespace().collect();
        for (resource, verbs) in expected {
            let rule =
                format!(r#"{{"apiGroups":["test.dev"],"resources":["{resource}"],"verbs":[{verbs}]}}"#);
            assert!(printed.contains(&rule), "{rule}: {printed}");
        }
        let granted = printed.matches(r#""resources":["widgets"#).count();
        assert_eq!(granted, expected.len(), "{printed}");
    };
    let read = ("widgets", r#""get","list","watch""#);
    let status = ("widgets/status", r#""patch""#);
    check(Controller::new(), &[read, status]);
    let cleaning = Controller::new().cleanup(|_, _| async { Ok(Action::await_change()) });
    check(cleaning, &[("widgets", r#""get","list","patch","watch""#), status]);
    let owning = Controller::new().owns::<ConfigMap>();
    check(owning, &[read, ("widgets/finalizers", r#""update""#), status]);
}
