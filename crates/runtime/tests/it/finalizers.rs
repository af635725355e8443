//! Tests that the finalizer exists exactly while a cleanup is registered, and is removed only after the cleanup
//! succeeds.

use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_runtime::{Action, Controller, changed};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget, WidgetSpec};

const FINALIZER: &str = "widgets.test.dev/widget";

async fn finalizers(lab: &TestCluster, name: &str) -> Option<Vec<String>> {
    let widget = lab.api::<Widget>().get_opt(name).await.unwrap()?;
    Some(widget.metadata.finalizers.unwrap_or_default())
}

/// An operator whose cleanup finishes when the widget's size is zero.
async fn run_with_cleanup(lab: &mut TestCluster) -> crate::test_cluster::Running {
    let (log, cleanup_log) = (lab.log.clone(), lab.log.clone());
    let control = Controller::<Widget>::new()
        .cleanup(move |widget, _| {
            cleanup_log.say("cleanup");
            async move {
                Ok(if widget.spec.size == 0 {
                    Action::await_change()
                } else {
                    Action::requeue(Duration::from_secs(5))
                })
            }
        })
        .reconcile(move |widget, _| {
            log.say(format!("reconcile {}", widget.metadata.finalizers.as_ref().map_or(0, Vec::len)));
            async { Ok(Action::await_change()) }
        });
    let running = lab.run(|operator| operator.control(control));
    lab.rest().await;
    running
}

#[tokio::test(start_paused = true)]
async fn it_is_put_on_before_the_first_reconcile_and_taken_off_after_the_cleanup() {
    let mut lab = TestCluster::new().await;
    run_with_cleanup(&mut lab).await;
    lab.widget("w").await;
    assert_eq!(lab.log.take()[0], "reconcile 1", "the reconciler sees it");
    assert_eq!(finalizers(&lab, "w").await.unwrap(), [FINALIZER]);
    lab.delete::<Widget>("w").await;
    assert_eq!(lab.log.take(), ["cleanup"]);
    assert_eq!(finalizers(&lab, "w").await, None);
}

#[tokio::test(start_paused = true)]
async fn putting_it_on_does_not_spend_the_backoff() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().cleanup(|_, _| async { Ok(Action::await_change()) }).reconcile(
        move |_, _| {
            log.say("run");
            async { Err("broken")? }
        },
    );
    lab.run(|operator| operator.control(control));
    lab.rest().await;
    // The watch shows the finalizer before the response to the write arrives.
    lab.faults.set(|request| (request.method() == http::Method::PATCH).then_some(InjectedFault::Late));
    lab.api::<Widget>()
        .create(&PostParams::default(), &Widget::new("w", WidgetSpec::default()))
        .await
        .unwrap();
    // This is less than the one-second delay before a retry, but enough for the network.
    for _ in 0..4 {
        lab.rest().await;
        tokio::time::sleep(Duration::from_millis(175)).await;
    }
    assert_eq!(lab.log.take(), ["run"]);
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_that_is_not_through_keeps_the_object() {
    let mut lab = TestCluster::new().await;
    run_with_cleanup(&mut lab).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    lab.log.take();
    lab.delete::<Widget>("w").await;
    lab.pass(11).await;
    assert_eq!(lab.log.take(), ["cleanup", "cleanup", "cleanup"]);
    assert_eq!(finalizers(&lab, "w").await.unwrap(), [FINALIZER]);
    lab.patch::<Widget>("w", json!({"spec": {"size": 0}})).await;
    assert_eq!(finalizers(&lab, "w").await, None);
}

#[tokio::test(start_paused = true)]
async fn others_finalizers_are_left_alone() {
    let mut lab = TestCluster::new().await;
    run_with_cleanup(&mut lab).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"metadata": {"finalizers": [FINALIZER, "other.dev/x"]}})).await;
    lab.api::<Widget>().delete("w", &DeleteParams::default()).await.unwrap();
    lab.rest().await;
    assert_eq!(finalizers(&lab, "w").await.unwrap(), ["other.dev/x"]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_a_cleanup_takes_off_what_its_former_self_put_on() {
    let mut lab = TestCluster::new().await;
    let running = run_with_cleanup(&mut lab).await;
    lab.widget("w").await;
    running.stop.cancel();
    lab.rest().await;
    lab.run_logging(|controller| controller).await;
    assert_eq!(finalizers(&lab, "w").await.unwrap(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_while_the_operator_was_down_is_cleaned_up_at_start() {
    let mut lab = TestCluster::new().await;
    let running = run_with_cleanup(&mut lab).await;
    lab.widget("w").await;
    running.stop.cancel();
    lab.rest().await;
    lab.delete::<Widget>("w").await;
    assert_eq!(finalizers(&lab, "w").await.unwrap(), [FINALIZER]);
    run_with_cleanup(&mut lab).await;
    assert_eq!(finalizers(&lab, "w").await, None);
}

/// A Pod's node has work to do while the Pod is being deleted, although it has no finalizer on the Pod.
#[tokio::test(start_paused = true)]
async fn a_controller_that_asks_for_it_is_called_to_the_end() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().to_the_end().reconcile(move |widget, _| {
        log.say(if widget.metadata.deletion_timestamp.is_some() { "ending" } else { "living" });
        async { Ok(Action::await_change()) }
    });
    lab.run(|operator| operator.control(control));
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"metadata": {"finalizers": ["someone.else/holds"]}})).await;
    lab.log.take();
    lab.delete::<Widget>("w").await;
    assert_eq!(lab.log.take(), ["ending"]);
    assert_eq!(finalizers(&lab, "w").await.unwrap(), ["someone.else/holds"]);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_ends_the_need_for_a_cleanup_is_reconciled() {
    for has_predicate in [false, true] {
        let mut lab = TestCluster::new().await;
        let log = lab.log.clone();
        let controller = Controller::<Widget>::new();
        let controller = if has_predicate { controller.when(changed::generation()) } else { controller };
        let control = controller
            .cleanup_if(|widget| widget.spec.size > 0, |_, _| async { Ok(Action::await_change()) })
            .reconcile(move |widget, _| {
                log.say(widget.spec.size.to_string());
                async { Ok(Action::await_change()) }
            });
        lab.run(|operator| operator.control(control));
        lab.create(&Widget::new("w", WidgetSpec { size: 1, config: None })).await;
        lab.pass(1).await;
        lab.log.take();
        lab.patch::<Widget>("w", json!({"spec": {"size": 0}})).await;
        lab.pass(3600).await;
        assert!(lab.log.take().contains(&"0".to_owned()), "predicate: {has_predicate}");
        let released = lab.api::<Widget>().get("w").await.unwrap();
        assert_eq!(released.metadata.finalizers.unwrap_or_default(), [""; 0]);
    }
}
