//! Handlers of one field: typed old and new value, any field, also of the status.

use std::sync::Arc;

use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::{Field, Turn};
use serde_json::json;

use super::{Gadget, gadget, kill, lab, run};
use crate::lab::Log;

fn follows_size(log: &Log) -> Handlers<Gadget, homeostat_runtime::handlers::options::Handler> {
    let log = log.clone();
    Handlers::<Gadget>::new().on_field(
        "scale",
        |gadget| gadget.spec.size,
        move |size: Field<i64>, _: Arc<Gadget>, _: Turn<Gadget>| {
            log.say(format!("{:?} -> {}", size.old, size.new));
            async { Ok(()) }
        },
    )
}

#[tokio::test(start_paused = true)]
async fn old_and_new_value_over_restarts() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let running = run(&mut lab, follows_size(&log)).await;
    gadget(&lab, "g", 1).await;
    assert_eq!(log.take(), ["None -> 1"]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": "b"}}, "spec": {"text": "t"}})).await;
    assert!(log.take().is_empty(), "another field");
    kill(&lab, &running).await;
    lab.patch::<Gadget>("g", json!({"spec": {"size": 2}})).await;
    run(&mut lab, follows_size(&log)).await;
    assert_eq!(log.take(), ["Some(1) -> 2"]);
    lab.patch::<Gadget>("g", json!({"spec": {"size": 3}})).await;
    assert_eq!(log.take(), ["Some(2) -> 3"]);
}

#[tokio::test(start_paused = true)]
async fn the_differences_within_a_field() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new().on_field(
        "relabel",
        |gadget| gadget.metadata.labels.clone().unwrap_or_default(),
        move |labels, _, _| {
            said.say(labels.changes().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
            async { Ok(()) }
        },
    );
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert!(log.take().is_empty(), "there are no labels yet");
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": "1", "b": "2"}}})).await;
    assert_eq!(log.take(), [r#"a: nothing -> "1", b: nothing -> "2""#]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"a": null, "b": "3"}}})).await;
    assert_eq!(log.take(), [r#"a: "1" -> nothing, b: "2" -> "3""#]);
}
