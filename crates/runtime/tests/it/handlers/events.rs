//! Raw events: every change, in order, without progress.

use std::time::Duration;

use homeostat_runtime::Handlers;
use serde_json::json;

use super::{Gadget, gadget, lab, run};

#[tokio::test(start_paused = true)]
async fn every_change_in_order() {
    let mut lab = lab().await;
    gadget(&lab, "old", 1).await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new()
        .on_event("listen", move |event, _| {
            let said = said.clone();
            async move {
                // Slower than the changes come.
                tokio::time::sleep(Duration::from_secs(1)).await;
                said.say(format!("{:?} {}", event.change, event.object.spec.size));
                if event.object.spec.size == 2 { Err("a listener may fail")? } else { Ok(()) }
            }
        })
        .when(|gadget| gadget.spec.size != 4);
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    for size in 2..=5 {
        lab.patch::<Gadget>("g", json!({"spec": {"size": size}})).await;
    }
    lab.delete::<Gadget>("g").await;
    lab.pass(10).await;
    let said = log.take();
    assert_eq!(
        said,
        ["Listed 1", "Added 1", "Modified 2", "Modified 3", "Modified 5", "Deleted 5"],
        "none is merged, none is retried, and one object does not wait for another"
    );
}
