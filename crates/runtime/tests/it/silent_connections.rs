//! Tests that every call still completes on a connection that went silent without an error, and that the return of an
//! unreachable server is noticed at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat::testing::InjectedFault;
use homeostat_core::journal::{Entry, FaultClass};
use homeostat_runtime::Action;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::test_cluster::{TestCluster, config, entries};

#[tokio::test(start_paused = true)]
async fn a_write_that_gets_no_answer_is_tried_again() {
    let mut lab = TestCluster::new().await;
    let has_hung = Arc::new(AtomicBool::new(false));
    lab.faults.set(move |request| {
        let is_write = request.method() == "PATCH" && request.uri().path().contains("configmaps");
        (is_write && !has_hung.swap(true, Ordering::Relaxed)).then_some(InjectedFault::Hang)
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

#[tokio::test(start_paused = true)]
async fn what_failed_for_want_of_the_server_is_tried_again_when_it_is_back() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let running = lab
        .run_with(move |widget, cx| {
            let log = log.clone();
            async move {
                if widget.metadata.name.as_deref() == Some("odd") {
                    Err("an error of its own")?;
                }
                let name = widget.metadata.name.clone().unwrap_or_default();
                cx.apply(config(&name, &[&widget])).await?;
                log.say(format!("{name} {}", cx.now()));
                Ok(Action::await_change())
            }
        })
        .await;
    lab.faults.set(|request| (request.method() == "PATCH").then_some(InjectedFault::Unreachable));
    for number in 0..20 {
        lab.widget(&format!("w{number}")).await;
    }
    lab.widget("odd").await;
    // Their seventh retry is two minutes away; then the watch breaks, too.
    lab.pass(140).await;
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.pass(5).await;
    assert!(lab.log.take().is_empty());
    let odd = entries(&running, "odd", |entry| matches!(entry, Entry::Started { .. }).then_some(())).len();
    lab.faults.clear();
    lab.pass(15).await;
    let said = lab.log.take();
    let words: Vec<(&str, &str)> = said.iter().filter_map(|words| words.split_once(' ')).collect();
    let names: BTreeSet<&str> = words.iter().map(|(name, _)| *name).collect();
    let times: BTreeSet<&str> = words.iter().map(|(_, time)| *time).collect();
    assert_eq!(names.len(), 20, "every one of them");
    assert!(times.len() > 10, "but not all at once: {times:?}");
    let now = entries(&running, "odd", |entry| matches!(entry, Entry::Started { .. }).then_some(())).len();
    assert_eq!(now, odd, "its own error is not cured by a server");
}
