//! Tests sub-handlers, which are registered by a handler, each with its own progress.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::handlers::options::HandlerDeclared;
use homeostat_runtime::handlers::{Diff, HandlerContext};
use homeostat_runtime::{Handlers, Result, retry_after, terminal};
use kube::ResourceExt;
use serde_json::json;

use super::{Gadget, GadgetSpec, Made, get, kill, lab, run};
use crate::test_cluster::{Log, TestCluster};

/// Creates each user of the gadget; while the gadget's size is zero, `bob` is busy and `eve` cannot be created.
fn users(log: &Log) -> Handlers<Gadget, HandlerDeclared> {
    let log = log.clone();
    Handlers::<Gadget>::new().on_create("create", move |gadget: Arc<Gadget>, cx: HandlerContext<Gadget>| {
        log.say("create");
        for user in gadget.spec.users.clone() {
            let (log, is_ready) = (log.clone(), gadget.spec.size > 0);
            cx.sub(user.clone(), move |cx: HandlerContext<Gadget>| async move {
                log.say(format!("{} {}", cx.id(), cx.attempt()));
                match user.as_str() {
                    "bob" if !is_ready => Err(retry_after(Duration::from_secs(10), "busy")),
                    "eve" if !is_ready => Err(terminal("impossible")),
                    _ => Ok(()),
                }
            });
        }
        async { Result::<()>::Ok(()) }
    })
}

async fn with_users(lab: &TestCluster, users: &[&str]) {
    let users = users.iter().map(ToString::to_string).collect();
    lab.create(&Gadget::new("g", GadgetSpec { users, ..GadgetSpec::default() })).await;
}

#[tokio::test(start_paused = true)]
async fn each_has_its_own_progress() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, users(&log)).await;
    with_users(&lab, &["alice", "bob", "eve", "zoe"]).await;
    assert_eq!(log.take(), ["create", "create/alice 1", "create/bob 1", "create/eve 1", "create/zoe 1"]);
    lab.pass(11).await;
    assert_eq!(log.take(), ["create", "create/bob 2"], "those that are through, or gave up, are not called");
    kill(&lab, &running).await;
    run(&mut lab, users(&log)).await;
    lab.pass(11).await;
    assert_eq!(log.take(), ["create", "create/bob 3"], "also over a restart");
    lab.patch::<Gadget>("g", json!({"spec": {"size": 1, "users": ["bob"]}})).await;
    assert_eq!(log.take(), ["create", "create/bob 1"]);
    lab.pass(100).await;
    assert!(log.take().is_empty(), "all are through, so is their parent");
    let annotation = get(&lab, "g").await.unwrap().annotations()["widgets.test.dev/gadget.handled"].clone();
    assert_eq!(annotation, r#"{"marks":{"create":{"seen":"once"}}}"#, "and nothing of them is left");
}

#[tokio::test(start_paused = true)]
async fn a_creation_in_parts_is_no_update() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let told = log.clone();
    let handlers = users(&log).on_update("update", move |diff: Diff<Gadget>, _| {
        told.say(format!("update to {}", diff.new.spec.size));
        async { Result::<()>::Ok(()) }
    });
    run(&mut lab, handlers).await;
    with_users(&lab, &["alice", "zoe"]).await;
    lab.pass(100).await;
    assert_eq!(log.take(), ["create", "create/alice 1", "create/zoe 1"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 1}})).await;
    lab.pass(100).await;
    assert_eq!(log.take(), ["update to 1"]);
}

#[tokio::test(start_paused = true)]
async fn each_has_a_result_of_its_own() {
    let mut lab = lab().await;
    let handlers =
        Handlers::<Gadget>::new().on_create("create", |_, cx: HandlerContext<Gadget>| async move {
            cx.sub("one", |_| async { Ok(Made { name: "one".into() }) });
            Ok(Made { name: "all".into() })
        });
    run(&mut lab, handlers).await;
    with_users(&lab, &[]).await;
    let status = get(&lab, "g").await.unwrap().status.unwrap();
    let names = [status.create, status.create_one].map(|made| made.unwrap().name);
    assert_eq!(names, ["all", "one"]);
}
