//! Tests an operator whose watches lag behind the server: it still sees what it wrote, and it respects others' writes
//! whenever they become visible.

use std::time::Duration;

use homeostat_runtime::{Action, Controller, terminal};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget, WidgetSpec, conditions, config};

#[tokio::test(start_paused = true)]
async fn own_writes_are_read_before_the_watch_shows_them() {
    let mut lab = TestCluster::new().await;
    let lag = lab.lag(Duration::from_secs(5));
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().owns::<ConfigMap>().reconcile(move |widget, cx| {
        let log = log.clone();
        async move {
            let is_there = cx.get::<ConfigMap>("child")?.is_some();
            log.say(format!("size {} child {is_there}", widget.spec.size));
            cx.apply(config("child", &[&widget])).await?;
            log.say(format!("then {}", cx.get::<ConfigMap>("child")?.is_some()));
            Ok(Action::await_change())
        }
    });
    let _running = lab.run_on(false, |operator| operator.control(control));
    lab.pass(10).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    assert!(lab.log.take().is_empty(), "nothing is shown yet");
    lab.pass(5).await;
    let said = lab.log.take();
    assert_eq!(said[..2], ["size 0 child false", "then true"]);
    assert_eq!(said.last().unwrap(), "then true");
    lag.delay_watches(Duration::ZERO);
    lab.pass(10).await;
    assert!(lab.names::<ConfigMap>().await.contains(&"child".to_owned()));
}

/// Runs a widget that cannot succeed and is fixed half the lag before its failed run ends. Returns the sizes that were
/// reconciled within half a day.
async fn mended_while_it_fails(lag: Duration) -> Vec<String> {
    let mut lab = TestCluster::new().await;
    lab.lag(lag);
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().reconcile(move |widget, _| {
        log.say(widget.spec.size.to_string());
        async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            if widget.spec.size < 0 { Err(terminal("negative")) } else { Ok(Action::await_change()) }
        }
    });
    let _running = lab.run_on(false, |operator| operator.control(control));
    lab.pass(10).await;
    let widget = Widget::new("w", WidgetSpec { size: -1, config: None });
    lab.api::<Widget>().create(&PostParams::default(), &widget).await.unwrap();
    // A server in another process takes real time to show it, and virtual time must not pass in the meantime.
    lab.rest().await;
    tokio::time::sleep(Duration::from_secs(3) + lag / 2).await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 1}})).await;
    lab.pass(12 * 3600).await;
    let mended = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(conditions(mended), [["Reconciled", "True", "Succeeded"]], "{lag:?}");
    lab.log.take()
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_is_shown_after_a_later_write_of_ours_ends_a_terminal_fault() {
    for milliseconds in [0, 100, 2_000] {
        let sizes = mended_while_it_fails(Duration::from_millis(milliseconds)).await;
        assert_eq!(sizes[..2], ["-1", "1"], "{milliseconds} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_another_controller_of_the_operator_ends_a_terminal_fault() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let failing =
        Controller::<Widget>::new().reconcile(move |widget, _| {
            log.say(widget.spec.size.to_string());
            async move {
                if widget.spec.size < 0 { Err(terminal("negative")) } else { Ok(Action::await_change()) }
            }
        });
    let mending = Controller::<Widget>::new().named("mender").reconcile(|widget, cx| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if widget.spec.size < 0 {
            cx.patch(&*widget, json!({"spec": {"size": 1}})).await?;
        }
        Ok(Action::await_change())
    });
    lab.run(|operator| operator.control(failing).control(mending));
    lab.create(&Widget::new("w", WidgetSpec { size: -1, config: None })).await;
    lab.pass(60).await;
    let sizes = lab.log.take();
    assert_eq!((sizes.first().unwrap().as_str(), sizes.last().unwrap().as_str()), ("-1", "1"));
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_writes_and_fails_does_not_wake_itself() {
    let mut lab = TestCluster::new().await;
    lab.lag(Duration::from_millis(500));
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().reconcile(move |widget, cx| {
        let log = log.clone();
        async move {
            log.say("run");
            // Two writes to its own object in one run, each with a new value.
            for round in 0..2 {
                let note = format!("{} {round}", cx.now());
                cx.patch(&*widget, json!({"metadata": {"annotations": {"note": note}}})).await?;
            }
            Err("not yet".into())
        }
    });
    let _running = lab.run_on(false, |operator| operator.control(control));
    lab.pass(5).await;
    lab.widget("w").await;
    lab.pass(60).await;
    let runs = lab.log.take().len();
    assert!((5..=7).contains(&runs), "{runs} runs in a minute of 1 s, 2 s, 4 s …");
}
