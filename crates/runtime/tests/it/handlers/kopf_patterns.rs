//! Follows the advice on Kopf's reconciliation page literally: children report to their parent, a daemon blocks on a
//! long poll, a timer polls an external system.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_runtime::handlers::{FieldUpdate, HandlerContext};
use homeostat_runtime::{Controller, Handlers, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::watch;

use super::{Gadget, gadget, get, lab};
use crate::test_cluster::config;

/// Each child writes its brief status to `status.children.{id}` of its parent; the parent reacts to that field.
#[tokio::test(start_paused = true)]
async fn children_report_and_the_parent_reacts() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let parents = Handlers::<Gadget>::new().on_field(
        "children",
        |gadget| gadget.status.clone().unwrap_or_default().children,
        move |children: FieldUpdate<BTreeMap<String, String>>, _: Arc<Gadget>, _: HandlerContext<Gadget>| {
            for change in children.changes() {
                said.say(change.to_string());
            }
            said.say(format!(
                "{} of {}",
                children.new.values().filter(|state| *state == "done").count(),
                children.new.len()
            ));
            async { Ok(()) }
        },
    );
    let report = |map: Arc<ConfigMap>, cx: HandlerContext<ConfigMap>| async move {
        let state = map.data.as_ref().and_then(|data| data.get("state").cloned());
        let parent = &map.metadata.labels.as_ref().ok_or("no label")?["parent"];
        cx.report::<Gadget>(parent.as_str(), cx.key().name(), state).await?;
        Result::<()>::Ok(())
    };
    let children = Handlers::<ConfigMap>::new()
        .on_create("appeared", report)
        .label("parent", homeostat_runtime::handlers::ValueFilter::Present)
        .on_field("state", |map: &ConfigMap| map.data.clone(), move |_, map, cx| report(map, cx))
        .label("parent", homeostat_runtime::handlers::ValueFilter::Present);
    let children = Controller::new().reports_to::<Gadget>().handlers(children);
    lab.run(|operator| operator.control(parents).control(children));
    gadget(&lab, "parent", 1).await;
    for (name, state) in [("a", "busy"), ("b", "busy")] {
        let mut map = config(name, &[]);
        map.metadata.labels = Some([("parent".to_owned(), "parent".to_owned())].into());
        map.data = Some([("state".to_owned(), state.to_owned())].into());
        lab.create(&map).await;
    }
    log.take();
    lab.patch::<ConfigMap>("a", json!({"data": {"state": "done"}})).await;
    assert_eq!(log.take(), [r#"a: "busy" -> "done""#, "1 of 2"]);
    lab.patch::<ConfigMap>("b", json!({"data": {"state": "done"}})).await;
    assert_eq!(log.take(), [r#"b: "busy" -> "done""#, "2 of 2"]);
}

/// An external system that returns its state, or waits until it changes.
#[derive(Clone)]
struct Outside(watch::Sender<String>);

impl Outside {
    async fn poll_long(&self, known: &str) -> String {
        let mut state = self.0.subscribe();
        state.wait_for(|state| state != known).await.map(|state| state.clone()).unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_blocks_on_a_long_poll() {
    let mut lab = lab().await;
    let outside = Outside(watch::Sender::new("queued".to_owned()));
    let handlers = Handlers::<Gadget>::new().daemon("follow", |_, cx: HandlerContext<Gadget>| async move {
        let outside = cx.state::<Outside>();
        let mut known = String::new();
        while let Some(state) = cx.unless_stopped(outside.poll_long(&known)).await {
            cx.status(|status| status.outside = Some(state.clone()));
            cx.save_status().await?;
            known = state;
        }
        Ok(())
    });
    let system = outside.clone();
    lab.run(|operator| operator.state(system).control(handlers));
    gadget(&lab, "g", 1).await;
    for state in ["queued", "running", "queued", "done"] {
        outside.0.send_replace(state.to_owned());
        lab.rest().await;
        assert_eq!(get(&lab, "g").await.unwrap().status.unwrap().outside.as_deref(), Some(state));
    }
    lab.delete::<Gadget>("g").await;
    assert_eq!(outside.0.receiver_count(), 0, "nobody waits for it any more");
}

#[tokio::test(start_paused = true)]
async fn a_timer_polls_an_outside_system() {
    let mut lab = lab().await;
    let outside = Arc::new(Mutex::new("cold"));
    let system = outside.clone();
    let handlers = Handlers::<Gadget>::new().every(
        "poll",
        Duration::from_secs(10),
        |_, cx: HandlerContext<Gadget>| async move {
            let state = *cx.state::<Arc<Mutex<&'static str>>>().lock().unwrap();
            cx.status(|status| status.outside = Some(state.to_owned()));
            Ok(())
        },
    );
    lab.run(|operator| operator.state(system).control(handlers));
    lab.rest().await;
    gadget(&lab, "g", 1).await;
    let seen = async || get(&lab, "g").await.unwrap().status.unwrap().outside.unwrap();
    assert_eq!(seen().await, "cold");
    *outside.lock().unwrap() = "hot";
    lab.pass(11).await;
    assert_eq!(seen().await, "hot");
    let version = lab.version::<Gadget>("g").await;
    lab.pass(100).await;
    assert_eq!(lab.version::<Gadget>("g").await, version, "the same answer is not written again");
}
