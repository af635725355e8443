//! Shows a command that runs at a given time.

use std::time::Duration;

use homeostat::kube::api::DeleteParams;
use homeostat::prelude::*;
use homeostat_example_at::{At, Phase};
use serde_json::json;

use crate::demo::demo_run::DemoRun;

/// How long the command waits: long enough to be seen.
const DELAY: Duration = Duration::from_secs(3);

pub(super) async fn request_objects(run: &mut DemoRun<'_>) {
    let due = run.timeline.clock().now() + DELAY;
    let spec = json!({"schedule": format!("{due:.0}"), "command": "echo hello"});
    run.apply::<At>("hello", "say hello in 3 seconds", json!({ "spec": spec })).await;
}

pub(super) async fn wait_until_ready(run: &mut DemoRun<'_>) {
    let ats = run.environment.api::<At>();
    run.wait_until("At/hello", "it has run", || async {
        let phase = ats.get("hello").await.ok()?.status?.phase?;
        (phase == Phase::Done).then_some(())
    })
    .await;
    let logs =
        run.environment.api::<Pod>().logs("hello-pod", &homeostat::kube::api::LogParams::default()).await;
    match logs {
        Ok(text) => run.timeline.line_if_new("Pod/hello-pod", &format!("said {:?}", text.trim())),
        Err(error) => run.note_failure("Pod/hello-pod", &error.to_string()),
    }
}

pub(super) async fn delete_and_wait(run: &mut DemoRun<'_>) {
    run.note_broken("At/hello", "the At is deleted");
    let gone = run.environment.api::<At>().delete("hello", &DeleteParams::default()).await;
    run.note_result("At/hello", gone.map(drop));
    let pods = run.environment.api::<Pod>();
    run.wait_until("Pod/hello-pod", "it is gone with its owner", || async {
        pods.get_opt("hello-pod").await.ok()?.is_none().then_some(())
    })
    .await;
}
