//! A connection that went silent: nothing comes back, nothing says so. Every call has an end all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_core::journal::{Entry, FaultClass};
use homeostat_runtime::Action;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::lab::{Lab, config, entries};
use crate::wire::Breakage;

#[tokio::test(start_paused = true)]
async fn a_write_that_gets_no_answer_is_tried_again() {
    let mut lab = Lab::new().await;
    let has_hung = Arc::new(AtomicBool::new(false));
    lab.faults.set(move |request| {
        let is_write = request.method() == "PATCH" && request.uri().path().contains("configmaps");
        (is_write && !has_hung.swap(true, Ordering::Relaxed)).then_some(Breakage::Hang)
    });
    let running = lab
        .run_with(|widget, cx| async move {
            cx.apply(config("child", &[&widget])).await?;
            Ok(Action::await_change())
        })
        .await;
    lab.widget("w").await;
    lab.pass(60).await;
    let child = "child".to_owned();
    assert!(!lab.names::<ConfigMap>().await.contains(&child), "the server itself may take a minute");
    lab.pass(15).await;
    assert!(lab.names::<ConfigMap>().await.contains(&child));
    let failures = entries(&running, "w", |entry| match entry {
        Entry::Failed { error, fault, .. } => Some((error, fault)),
        _ => None,
    });
    let [(error, FaultClass::Retry { .. })] = &failures[..] else {
        panic!("one failure that is retried: {failures:?}")
    };
    assert!(error.contains("the server was silent for 65 s"), "{error}");
}
