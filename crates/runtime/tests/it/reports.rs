//! Tests children that report into their parent's status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::handlers::{FieldUpdate, HandlerContext};
use homeostat_runtime::{Action, Context, Controller, Error, Handlers, Operator, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt;
use kube::api::PostParams;
use serde_json::json;

use crate::handlers::{Gadget, gadget, get};
use crate::test_cluster::{Running, TestCluster, Widget, config};

/// Returns the reports that a parent holds.
async fn reports(lab: &TestCluster, parent: &str) -> BTreeMap<String, String> {
    get(lab, parent).await.unwrap().status.unwrap_or_default().children
}

fn said(children: &[(&str, &str)]) -> BTreeMap<String, String> {
    children.iter().map(|(id, state)| ((*id).to_owned(), (*state).to_owned())).collect()
}

/// Returns a child in this state.
fn child(name: &str, state: &str) -> ConfigMap {
    ConfigMap { data: Some([("state".to_owned(), state.to_owned())].into()), ..config(name, &[]) }
}

fn state_of(child: &ConfigMap) -> String {
    child.data.as_ref().and_then(|data| data.get("state").cloned()).unwrap_or_default()
}

/// Reports the state of each child to the gadget `parent`, and logs errors.
fn reporting(lab: &TestCluster) -> Controller<ConfigMap> {
    let log = lab.log.clone();
    Controller::<ConfigMap>::new().named("children").reports_to::<Gadget>().cleanup(move |map, cx| {
        let log = log.clone();
        async move {
            cx.withdraw_report::<Gadget>("parent", &map.metadata.name.clone().unwrap_or_default()).await?;
            log.say("withdrawn");
            Ok(Action::await_change())
        }
    })
}

/// Calls `report` for each child, and logs its result.
fn complete<F, Fut>(
    lab: &TestCluster,
    controller: Controller<ConfigMap>,
    report: F,
) -> homeostat_runtime::BuiltController
where
    F: Fn(Arc<ConfigMap>, Context<ConfigMap>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Error>> + Send + 'static,
{
    let log = lab.log.clone();
    controller.reconcile(move |map, cx| {
        let (log, name, reported) = (log.clone(), cx.key().name().to_owned(), report(map, cx));
        async move {
            match reported.await {
                Ok(()) => Ok(Action::await_change()),
                Err(error) => {
                    log.say(format!("{name}: {error}"));
                    Err(error.into())
                }
            }
        }
    })
}

async fn report_by_name(map: Arc<ConfigMap>, cx: Context<ConfigMap>) -> Result<(), Error> {
    cx.report::<Gadget>("parent", cx.key().name(), state_of(&map)).await
}

fn run(lab: &mut TestCluster, children: homeostat_runtime::BuiltController) -> Running {
    lab.run(|operator| operator.control(children))
}

/// All children report at once to a parent without a status: no report is lost or blocks another.
#[tokio::test(start_paused = true)]
async fn fifty_children_report_at_once_and_none_is_lost() {
    const CHILDREN: usize = 50;
    let mut lab = crate::handlers::lab().await;
    gadget(&lab, "parent", 1).await;
    let names: Vec<String> = (0..CHILDREN).map(|number| format!("child-{number:02}")).collect();
    for name in &names {
        lab.create(&child(name, "up")).await;
    }
    let together = Arc::new(tokio::sync::Barrier::new(CHILDREN));
    let controller = reporting(&lab).concurrency(CHILDREN);
    let children = complete(&lab, controller, move |map, cx| {
        let together = together.clone();
        async move {
            if cx.key().name().starts_with("child-") {
                together.wait().await;
                report_by_name(map, cx).await?;
            }
            Ok(())
        }
    });
    run(&mut lab, children);
    lab.pass(1).await;
    let expected: BTreeMap<String, String> =
        names.iter().map(|name| (name.clone(), "up".to_owned())).collect();
    assert_eq!(reports(&lab, "parent").await, expected);
    assert_eq!(lab.log.take(), [""; 0], "no report had to be made again by its reconciler");
}

/// The report does not depend on the cache of the parent, so it is correct however far the cache lags.
#[tokio::test(start_paused = true)]
async fn reports_do_not_go_by_a_stale_cache() {
    let mut lab = crate::handlers::lab().await;
    gadget(&lab, "parent", 1).await;
    let direct = lab.client.clone();
    lab.lag(Duration::from_secs(20));
    let children =
        complete(&lab, Controller::new().reports_to::<Gadget>().reads::<Gadget>(), |map, cx| async move {
            if cx.key().name() != "child" {
                return Ok(());
            }
            // Another writer changes the same entry in the meantime, and the watch shows this only much later.
            for state in ["one", "two", "one"] {
                cx.report::<Gadget>("parent", "child", state).await?;
                let parents = kube::Api::<Gadget>::namespaced(cx.client().clone(), "default");
                let theirs = json!({"status": {"children": {"child": "theirs", "other": "up"}}});
                let patch = kube::api::Patch::Merge(theirs);
                parents.patch_status("parent", &kube::api::PatchParams::default(), &patch).await.unwrap();
            }
            cx.report::<Gadget>("parent", "child", state_of(&map)).await
        });
    let _running = lab.run_on(false, |operator| operator.control(children));
    lab.pass(60).await;
    let maps = kube::Api::<ConfigMap>::namespaced(direct, "default");
    maps.create(&PostParams::default(), &child("child", "last")).await.unwrap();
    lab.pass(120).await;
    assert_eq!(reports(&lab, "parent").await, said(&[("child", "last"), ("other", "up")]));
}

/// The parent's own handler sees each report and its withdrawal.
#[tokio::test(start_paused = true)]
async fn a_report_goes_with_its_child_and_the_parent_reacts() {
    let mut lab = crate::handlers::lab().await;
    let log = lab.log.clone();
    let parents = Handlers::<Gadget>::new().on_field(
        "children",
        |gadget| gadget.status.clone().unwrap_or_default().children,
        move |children: FieldUpdate<BTreeMap<String, String>>, _: Arc<Gadget>, _: HandlerContext<Gadget>| {
            children.changes().iter().for_each(|change| log.say(change.to_string()));
            async { Ok(()) }
        },
    );
    let children = complete(&lab, reporting(&lab), report_by_name);
    lab.run(|operator| operator.control(parents).control(children));
    gadget(&lab, "parent", 1).await;
    // The server's own certificate ConfigMap existed before the parent, so its report is retried.
    lab.pass(600).await;
    lab.create(&child("a", "up")).await;
    lab.create(&child("b.c", "up")).await;
    lab.pass(1).await;
    lab.log.take();
    lab.delete::<ConfigMap>("a").await;
    lab.pass(1).await;
    // The parent may see the withdrawal before the child's handler continues, as often happens on a real
    // kube-apiserver.
    let mut said = lab.log.take();
    said.sort();
    assert_eq!(said, [r#"a: "up" -> nothing"#, "withdrawn"]);
    assert_eq!(reports(&lab, "parent").await.get("b.c").map(String::as_str), Some("up"));
    lab.delete::<Gadget>("parent").await;
    lab.delete::<ConfigMap>("b.c").await;
    lab.pass(1).await;
    assert!(
        lab.api::<ConfigMap>().get_opt("b.c").await.unwrap().is_none(),
        "a parent that is gone holds no child"
    );
}

/// A child reports that its parent is gone, even if another object has taken its name.
#[tokio::test(start_paused = true)]
async fn a_parent_that_is_gone_is_an_error_also_when_its_name_is_taken() {
    let mut lab = crate::handlers::lab().await;
    let first = gadget(&lab, "parent", 1).await;
    // The garbage collector deletes it, but a finalizer holds it.
    let mut orphan = child("orphan", "up");
    orphan.metadata.owner_references = Some(vec![kube::Resource::owner_ref(&first, &()).unwrap()]);
    orphan.metadata.finalizers = Some(vec!["test.dev/hold".to_owned()]);
    let report = move |_, cx: Context<ConfigMap>| {
        let first = first.clone();
        async move {
            match cx.key().name() {
                "orphan" => cx.report::<Gadget>("parent", "orphan", "up").await,
                "knows-it" => cx.report(&first, "knows-it", "up").await,
                "nobody" => cx.report::<Gadget>("nobody", "nobody", "up").await,
                _ => Ok(()),
            }
        }
    };
    lab.delete::<Gadget>("parent").await;
    gadget(&lab, "parent", 2).await;
    let children = complete(&lab, Controller::new().reports_to::<Gadget>().to_the_end(), report);
    run(&mut lab, children);
    for (child, parent) in
        [(orphan, "parent"), (child("knows-it", "up"), "parent"), (child("nobody", "up"), "nobody")]
    {
        let created = lab.create(&child).await;
        let name = created.metadata.name.unwrap_or_default();
        let gone =
            format!("{name}: test.dev/gadgets/default/{parent} is gone, so nothing can be reported to it");
        let said = lab.log.take();
        assert!(said.contains(&gone), "{name}: {said:?}");
    }
    assert!(reports(&lab, "parent").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_parent_has_no_place_for_is_an_error() {
    let mut lab = crate::handlers::lab().await;
    lab.install(&Widget::crd()).await;
    lab.await_widgets().await;
    gadget(&lab, "parent", 1).await;
    lab.widget("parent").await;
    lab.create(&config("parent", &[])).await;
    let report = |_, cx: Context<ConfigMap>| async move {
        match cx.key().name() {
            "no-map" => cx.report::<Widget>("parent", "no-map", "up").await,
            "wrong-type" => cx.report::<Gadget>("parent", "wrong-type", json!({"state": "up"})).await,
            "no-status" => cx.report::<ConfigMap>("parent", "no-status", "up").await,
            "nothing" => cx.report::<Gadget>("parent", "nothing", None::<String>).await,
            "no-id" => cx.report::<Gadget>("parent", "", "up").await,
            _ => Ok(()),
        }
    };
    let controller =
        Controller::new().reports_to::<Gadget>().reports_to::<Widget>().reports_to::<ConfigMap>();
    let children = complete(&lab, controller, report);
    run(&mut lab, children);
    let checks = [
        ("no-map", "does not keep status.children.no-map: the schema of its kind has no place for it"),
        ("wrong-type", "status.children.wrong-type"),
        ("no-status", "its kind lacks the status subresource"),
        ("nothing", "call withdraw_report to remove a report"),
        ("no-id", "needs an id"),
    ];
    for (name, words) in checks {
        lab.create(&child(name, "up")).await;
        let said = lab.log.take();
        assert!(said.first().is_some_and(|first| first.contains(words)), "{name}: {said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reporting_is_a_right_that_is_printed_where_it_is_declared() {
    let print = |controller: Controller<ConfigMap>| {
        let control = controller.reconcile(|_, _| async { Ok(Action::await_change()) });
        Operator::new("children.test.dev").control(control).manifests("image:1")
    };
    assert!(!print(Controller::new()).contains("gadgets"));
    let printed: String = print(Controller::new().reports_to::<Gadget>()).split_whitespace().collect();
    for rule in [
        r#"{"apiGroups":["test.dev"],"resources":["gadgets"],"verbs":["get"]}"#,
        r#"{"apiGroups":["test.dev"],"resources":["gadgets/status"],"verbs":["patch"]}"#,
    ] {
        assert!(printed.contains(rule), "{rule}: {printed}");
    }
    let mut lab = crate::handlers::lab().await;
    gadget(&lab, "parent", 1).await;
    let children = complete(&lab, Controller::new(), report_by_name);
    run(&mut lab, children);
    lab.create(&child("a", "up")).await;
    let words =
        "is written but not declared, which a cluster forbids: add .reports_to::<Gadget>() to the controller";
    assert_eq!(lab.times_logged(words), 1);
}
