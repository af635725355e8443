//! An operator whose watches are behind the server: what it wrote is visible all the same, and what others wrote counts
//! whenever it is shown.

use std::time::Duration;

use homeostat_runtime::{Action, Controller};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::lab::{Lab, Widget, config};

#[tokio::test(start_paused = true)]
async fn own_writes_are_read_before_the_watch_shows_them() {
    let mut lab = Lab::new().await;
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
    lag.set(Duration::ZERO);
    lab.pass(10).await;
    assert!(lab.names::<ConfigMap>().await.contains(&"child".to_owned()));
}
