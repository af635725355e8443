//! Policies that the script does not cover.

use homeostat_example_shapes::api::Faults;
use homeostat_example_shapes::{Form, Options};

use crate::test_cluster::TestCluster;

#[tokio::test]
async fn drift_is_only_reported_when_that_is_the_policy() {
    let lab = TestCluster::start(Options { settle: 0, report_drift: true, ..Options::default() }).await;
    lab.make_foo(Form::Circle, "red").await;
    lab.until_reason("InSync").await;
    lab.paint_foo("gold").await;
    lab.until_reason("Drifted").await;
    assert_eq!(lab.foo().await.color, "gold", "told, and left as it is");
}

#[tokio::test]
async fn a_cloud_that_ignores_updates_is_told_of_until_it_obeys() {
    let lab = TestCluster::start(Options { poll: 1, settle: 0, ..Options::default() }).await;
    lab.make_foo(Form::Circle, "red").await;
    lab.until_reason("InSync").await;
    lab.set_faults(&Faults { ignores_updates: true, ..Faults::default() }).await;
    lab.recolor_foo("gold").await;
    lab.until_reason("NotTaken").await;
    assert_eq!(lab.foo().await.color, "red");
    lab.set_faults(&Faults::default()).await;
    lab.until_reason("InSync").await;
    assert_eq!(lab.foo().await.color, "gold");
}

#[tokio::test]
async fn a_switch_that_is_none_is_refused_and_the_known_ones_are_named() {
    let lab = TestCluster::start(Options::default()).await;
    lab.set_faults(&Faults { errors: true, ..Faults::default() }).await;
    let answer = lab.ask("PUT", "/faults", r#"{"error": true}"#).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    for words in
        ["unknown field `error`", "`errors`", "`latencyMs`", "`ignoresUpdates`", "`emptyLists`", "`lagMs`"]
    {
        assert!(answer.contains(words), "{words} is not in {answer}");
    }
    assert!(lab.ask("GET", "/faults", "").await.contains("\"errors\":true"), "and nothing is switched");
}
