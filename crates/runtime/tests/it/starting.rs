//! The admin pages while the operator starts: a kubelet that gets no answer kills the process.

use std::time::Duration;

use homeostat_core::journal::Entry;
use homeostat_runtime::{Action, Controller};

use crate::lab::{Breakage, Lab, Running, Widget, entries};

async fn first_line(running: &Running, path: &str) -> (String, String) {
    let page = running.page(path).await;
    let text = page.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
    (page.lines().next().unwrap_or_default().to_owned(), text)
}

#[tokio::test(start_paused = true)]
async fn a_startup_handler_that_takes_long_is_alive_and_not_ready() {
    let mut lab = Lab::new().await;
    let running = lab.run(|operator| {
        operator
            .on_startup("connect", |_| async {
                tokio::time::sleep(Duration::from_secs(300)).await;
                Ok(())
            })
            .probe("pool", |_| async { Err::<(), _>("there is none".into()) })
    });
    lab.pass(60).await;
    let (code, text) = first_line(&running, "/healthz").await;
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("HTTP/1.1 200 OK", "ok, starting: startup handler connect is running\n"),
        "probes are not asked before what they need is there"
    );
    let (code, text) = first_line(&running, "/readyz").await;
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("HTTP/1.1 503 Service Unavailable", "[-] starting: startup handler connect is running\n")
    );
    lab.pass(300).await;
    let (code, text) = first_line(&running, "/healthz").await;
    assert!(code.contains("503") && text.starts_with("[-] pool"), "{code} {text}");
}

#[tokio::test(start_paused = true)]
async fn a_startup_handler_that_fails_says_why_on_readyz() {
    let mut lab = Lab::new().await;
    let running = lab.run(|operator| {
        operator.on_startup("connect", |_| async { Err::<(), _>("connection refused".into()) })
    });
    lab.pass(1).await;
    assert_eq!(first_line(&running, "/healthz").await.0, "HTTP/1.1 200 OK");
    let (_, text) = first_line(&running, "/readyz").await;
    assert_eq!(text, "[-] starting: startup handler connect failed and is tried again: connection refused\n");
}

#[tokio::test(start_paused = true)]
async fn definitions_that_the_server_does_not_take_are_alive_and_not_ready() {
    let mut lab = Lab::bare().await;
    lab.faults
        .set(|request| request.uri().path().contains("customresourcedefinitions").then_some(Breakage::Hang));
    let control = Controller::<Widget>::new().reconcile(|_, _| async { Ok(Action::await_change()) });
    let running = lab.run(|operator| operator.crd::<Widget>().control(control));
    lab.pass(30).await;
    assert_eq!(first_line(&running, "/healthz").await.0, "HTTP/1.1 200 OK");
    let (code, text) = first_line(&running, "/readyz").await;
    assert!(code.contains("503"), "{code}");
    assert_eq!(text, "[-] starting: installing definitions\n");
    lab.faults.clear();
    lab.pass(120).await;
    assert_eq!(first_line(&running, "/readyz").await.0, "HTTP/1.1 200 OK");
}

/// A state that `main` forgot is missing in every run. The operator ends over it instead of failing object by object.
#[tokio::test(start_paused = true)]
async fn a_missing_state_ends_the_operator_and_is_no_fault_of_the_object() {
    struct Pool;
    let mut lab = Lab::new().await;
    let control = Controller::<Widget>::new().reconcile(|_, cx| async move {
        let _pool = cx.state::<Pool>();
        Ok(Action::await_change())
    });
    let running = lab.run(|operator| operator.control(control));
    lab.rest().await;
    lab.widget("w").await;
    lab.pass(600).await;
    let failures = entries(&running, "w", |entry| matches!(entry, Entry::Failed { .. }).then_some(()));
    let runs = entries(&running, "w", |entry| matches!(entry, Entry::Started { .. }).then_some(()));
    assert_eq!((runs.len(), failures.len()), (1, 0));
    assert!(lab.has_logged("give it one with Operator::state"));
    assert!(
        running.has_ended(),
        "a process that ends is started again and noticed; one that fails quietly is not"
    );
}
