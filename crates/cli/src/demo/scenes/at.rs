//! A command that runs at a time.

use std::time::Duration;

use homeostat::kube::api::DeleteParams;
use homeostat::prelude::*;
use homeostat_example_at::{At, Phase};
use serde_json::json;

use crate::demo::play::Play;

/// Long enough to see it wait.
const DELAY: Duration = Duration::from_secs(3);

pub(super) async fn ask(play: &mut Play<'_>) {
    let due = play.board.clock().now() + DELAY;
    let spec = json!({"schedule": format!("{due:.0}"), "command": "echo hello"});
    play.apply::<At>("hello", "say hello in 3 seconds", json!({ "spec": spec })).await;
}

pub(super) async fn come_true(play: &mut Play<'_>) {
    let ats = play.stage.api::<At>();
    play.until("At/hello", "it has run", || async {
        let phase = ats.get("hello").await.ok()?.status?.phase?;
        (phase == Phase::Done).then_some(())
    })
    .await;
    let logs = play.stage.api::<Pod>().logs("hello-pod", &homeostat::kube::api::LogParams::default()).await;
    match logs {
        Ok(text) => play.board.seen("Pod/hello-pod", &format!("said {:?}", text.trim())),
        Err(error) => play.failed("Pod/hello-pod", &error.to_string()),
    }
}

pub(super) async fn end(play: &mut Play<'_>) {
    play.broke("At/hello", "the At is deleted");
    let gone = play.stage.api::<At>().delete("hello", &DeleteParams::default()).await;
    play.did("At/hello", gone.map(drop));
    let pods = play.stage.api::<Pod>();
    play.until("Pod/hello-pod", "it is gone with its owner", || async {
        pods.get_opt("hello-pod").await.ok()?.is_none().then_some(())
    })
    .await;
}
