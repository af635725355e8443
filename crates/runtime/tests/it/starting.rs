//! Tests the admin pages while the operator starts: a kubelet that gets no response kills the process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::Entry;
use homeostat_runtime::{
    Action, CancellationToken, Controller, Error, Handlers, Metadata, Operator, Predicate, Result, changed,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use serde_json::json;

use crate::test_cluster::{Running, TestCluster, Widget, config, entries};

async fn first_line(running: &Running, path: &str) -> (String, String) {
    let page = running.page(path).await;
    let text = page.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
    (page.lines().next().unwrap_or_default().to_owned(), text)
}

#[tokio::test(start_paused = true)]
async fn a_startup_handler_that_takes_long_is_alive_and_not_ready() {
    let mut lab = TestCluster::new().await;
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
    let mut lab = TestCluster::new().await;
    let running = lab.run(|operator| {
        operator.on_startup("connect", |_| async { Err::<(), _>("connection refused".into()) })
    });
    lab.pass(1).await;
    assert_eq!(first_line(&running, "/healthz").await.0, "HTTP/1.1 200 OK");
    let (_, text) = first_line(&running, "/readyz").await;
    assert_eq!(
        text,
        "[-] starting: startup handler connect failed and will be retried: connection refused\n"
    );
}

#[tokio::test(start_paused = true)]
async fn definitions_that_the_server_does_not_take_are_alive_and_not_ready() {
    let mut lab = TestCluster::bare().await;
    lab.faults.set(|request| {
        request.uri().path().contains("customresourcedefinitions").then_some(InjectedFault::Hang)
    });
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

/// A state that `main` forgot is missing in every run. The operator exits because of it instead of failing for each
/// object.
#[tokio::test(start_paused = true)]
async fn a_missing_state_ends_the_operator_and_is_no_fault_of_the_object() {
    struct Pool;
    let mut lab = TestCluster::new().await;
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
    assert!(lab.has_logged("give it one with Operator::state, and declare it with .needs_state::<Pool>()"));
    assert!(
        running.has_ended(),
        "a process that ends is started again and noticed; one that fails quietly is not"
    );
}

/// The states that a controller declares are checked before any object is read or any request is sent.
#[tokio::test(start_paused = true)]
async fn a_declared_state_that_is_missing_is_found_at_the_start() {
    struct Pool;
    let control = || {
        Controller::<Widget>::new().needs_state::<Pool>().reconcile(|_, cx| async move {
            let _pool = cx.state::<Pool>();
            Ok(Action::await_change())
        })
    };
    let handlers = || Handlers::<Widget>::new().needs_state::<Pool>();
    for operator in
        [Operator::new("test.dev").control(control()), Operator::new("test.dev").control(handlers())]
    {
        let said = start(operator).await.unwrap();
        assert!(
            said.starts_with("the controller widget cannot start: it needs a state of type ")
                && said.ends_with("::Pool: give the operator one with Operator::state"),
            "{said}"
        );
    }
    assert_eq!(start(Operator::new("test.dev").state(Pool).control(control())).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_nobody_declared_is_warned_of() {
    let warning = "add .needs_state::<AtomicU32>()";
    for is_declared in [true, false] {
        let mut lab = TestCluster::new().await;
        let controller = Controller::<Widget>::new();
        let controller = if is_declared { controller.needs_state::<AtomicU32>() } else { controller };
        let control = controller.reconcile(|_, cx| async move {
            cx.state::<AtomicU32>().fetch_add(1, Ordering::Relaxed);
            Ok(Action::await_change())
        });
        let running = lab.run(|operator| operator.state(AtomicU32::new(0)).control(control));
        lab.widget("w").await;
        assert_eq!(lab.has_logged(warning), !is_declared);
        assert!(!running.has_ended(), "it is there all the same");
    }
}

/// Returns the error with which an operator with this controller fails to start; `None` if it runs until it is stopped.
async fn refusal(describe: impl FnOnce(Controller<Widget>) -> Controller<Widget>) -> Option<String> {
    let control = describe(Controller::new()).reconcile(|_, _| async { Ok(Action::await_change()) });
    start(Operator::new("test.dev").control(control)).await
}

/// Returns the error with which the operator fails to start; `None` if it runs until it is stopped.
async fn start(operator: Operator) -> Option<String> {
    let lab = TestCluster::new().await;
    let stop = CancellationToken::new();
    stop.cancel();
    match operator.run_on(lab.client.clone(), stop).await {
        Ok(()) => None,
        Err(Error::Invalid(problem)) => Some(problem),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn options_that_no_relation_can_honour_are_refused_at_the_start() {
    let data = || Predicate::new(|old: &ConfigMap, new: &ConfigMap| old.data != new.data);
    let nobody = |_: &ConfigMap| Option::<String>::None;
    assert_eq!(refusal(|it| it.owns::<ConfigMap>().filter(data())).await, None);
    assert_eq!(
        refusal(|it| it.metadata_only::<Secret>().filter::<Secret>(changed::labels()).owns::<Secret>()).await,
        None
    );
    let cases: [(Option<String>, &str); 7] = [
        (
            refusal(|it| it.filter(data())).await,
            "filter::<ConfigMap>(..) names a kind to which the controller has no relation that triggers it: declare the kind, \
             as in .owns::<ConfigMap>(), or remove the call",
        ),
        (
            refusal(|it| it.reads::<ConfigMap>().filter(data())).await,
            "filter::<ConfigMap>(..) names a kind to which the controller has no relation that triggers it: declare the kind, \
             as in .owns::<ConfigMap>(), or remove the call",
        ),
        (
            refusal(|it| it.filter::<Widget>(changed::labels())).await,
            "filter::<Widget>(..) names a kind to which the controller has no relation that triggers it: use .when(..) for \
             changes of the object itself",
        ),
        (
            refusal(|it| it.metadata_only::<Secret>()).await,
            "metadata_only::<Secret>() names a kind to which the controller has no relation: declare the kind, as in \
             .owns::<Secret>(), or remove the call",
        ),
        (
            refusal(|it| it.metadata_only::<Widget>()).await,
            "metadata_only::<Widget>() names a kind to which the controller has no relation: objects of its own kind are \
             always kept whole; remove the call",
        ),
        (
            refusal(|it| it.watches::<ConfigMap, _>(nobody).metadata_only::<ConfigMap>()).await,
            "metadata_only::<ConfigMap>() keeps only metadata, and the function given to watches reads whole objects: let it \
             take a &Metadata<ConfigMap>, or remove the call of metadata_only",
        ),
        (
            refusal(|it| it.owns::<ConfigMap>().metadata_only::<ConfigMap>().filter(data())).await,
            "filter::<ConfigMap>(..) compares whole objects, and only their metadata is kept: use predicates of `changed`, \
             compare a Metadata<ConfigMap>, or remove metadata_only::<ConfigMap>()",
        ),
    ];
    for (said, problem) in cases {
        assert_eq!(said, Some(format!("the controller widget cannot start: {problem}")));
    }
}

/// Checks that the remedies in the messages work.
#[tokio::test(start_paused = true)]
async fn metadata_can_be_mapped_compared_and_read() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let control = Controller::<Widget>::new()
        .watches::<Metadata<ConfigMap>, _>(|map| map.metadata.name.clone())
        .metadata_only::<ConfigMap>()
        .filter(Predicate::new(|old: &Metadata<ConfigMap>, new: &Metadata<ConfigMap>| {
            old.metadata.labels != new.metadata.labels
        }))
        .reconcile(move |_, cx| {
            let log = log.clone();
            async move {
                let found = cx.get::<Metadata<ConfigMap>>(cx.key().name())?.is_some();
                let refused: Result<_, Error> = cx.get::<ConfigMap>(cx.key().name());
                log.say(format!("{found}: {}", refused.unwrap_err()));
                Ok(Action::await_change())
            }
        });
    lab.run(|operator| operator.control(control));
    let said = "only the metadata of configmaps is kept: read it as Metadata<ConfigMap>, or remove \
                metadata_only::<ConfigMap>() from the controller";
    lab.widget("w").await;
    assert_eq!(lab.log.take(), [format!("false: {said}")]);
    lab.create(&config("w", &[])).await;
    assert_eq!(lab.log.take(), [format!("true: {said}")]);
    lab.patch::<ConfigMap>("w", json!({"data": {"a": "b"}})).await;
    assert!(lab.log.take().is_empty());
    lab.patch::<ConfigMap>("w", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(lab.log.take(), [format!("true: {said}")]);
}

/// A program with its own command line continues after the operator, whatever the operator does with its part.
#[tokio::test]
async fn a_command_line_never_ends_the_process() {
    let operator = |arguments: &[&str]| Operator::new("test.dev").arguments(arguments.iter().copied()).run();
    for arguments in [&["--help"][..], &["--version"], &["manifests"]] {
        operator(arguments).await.unwrap();
    }
    for (arguments, problem) in [
        (&["--fly"][..], "unknown argument --fly; try --help"),
        (&["--kubeconfig"], "--kubeconfig needs a value; try --help"),
    ] {
        match operator(arguments).await {
            Err(Error::Usage(said)) => assert_eq!(said, problem),
            other => panic!("{other:?}"),
        }
    }
}
